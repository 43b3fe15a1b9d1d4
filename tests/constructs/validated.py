"""AWS's validator of templates."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import cloudformation_validate

# Not mistakes here: a key's ARN and its account stand in environment.yaml, and so in the template.
ACKNOWLEDGED = {"W9002": "hard-coded ARN", "W9013": "hard-coded account in an ARN"}


@cache
def _engine() -> cloudformation_validate.CompositeEngine:
    return cloudformation_validate.CompositeEngine()


def findings(template: dict[str, Any], file: Path) -> list[str]:
    """Errors and warnings; W3030 (a value outside its enumeration) is among them. Remarks on style are not."""
    file.write_text(json.dumps(template), encoding="utf-8")
    return [
        f"{found.rule_id} {found.message}"
        for found in _engine().validate_template(str(file)).diagnostics
        if found.severity.name not in ("INFO", "DEBUG") and found.rule_id not in ACKNOWLEDGED
    ]
