"""The book of rules over templates (LS001 ...)."""

from __future__ import annotations

from typing import Final, TypeAlias

from loadproof import rules
from loadproof.errors import Severity
from loadproof.templates.template import Template

Found: TypeAlias = rules.Found[str, Severity]  # at the logical id of a resource; "" for the template as a whole
Finding: TypeAlias = rules.Finding[str, Severity]

RULES: Final = rules.Rulebook[Template, str, Severity]("LS", "loadproof.templates", Template, "error")
rule = RULES.rule
