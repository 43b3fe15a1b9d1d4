"""SARIF 2.1.0, what code hosts show beside the line: the log around results, every rule with its help."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from loadproof.rules import Rule, Severity

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif_log(
    rules: Iterable[Rule[Any, Severity]],
    results: Sequence[Mapping[str, object]],
    *,
    levels: Mapping[Severity, str],
    mend_word: str,
    automation_id: str = "",
) -> str:
    """One run as JSON. `levels`: SARIF's word for each severity; `mend_word` is put before a rule's way to mend."""
    listed = [_rule(rule, levels[rule.severity], mend_word) for rule in rules]
    run = {
        "tool": {"driver": {"name": "Loadproof", "semanticVersion": _version(), "rules": listed}},
        **({"automationDetails": {"id": automation_id}} if automation_id else {}),
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True}],
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(rule: Rule[Any, Any], level: str, mend_word: str) -> dict[str, object]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.title.replace("-", " ").split() if word.isalnum()),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.reason},
        "help": {
            "text": f"{rule.reason} {rule.mend}",
            "markdown": f"{rule.reason}\n\n**{mend_word}:** {rule.mend}",
        },
        "defaultConfiguration": {"level": level},
    }


def _version() -> str:
    try:
        return version("loadproof")
    except PackageNotFoundError:
        return "0.0.0"
