"""The book of rules over templates (LS001 ...)."""

from __future__ import annotations

from typing import Final, TypeAlias

from loadproof import rules
from loadproof.errors import Severity
from loadproof.templates.template import Resource, Template

Found: TypeAlias = rules.Found[str, Severity]  # at the logical id of a resource; "" for the template as a whole
Finding: TypeAlias = rules.Finding[str, Severity]


def found(resource: Resource, message: str, mend: str) -> Found:
    """What is wrong with a resource."""
    return Found(resource.logical_id, message, mend)


RULES: Final = rules.Rulebook[Template, str, Severity]("LS", "loadproof.templates", Template, "error")
rule = RULES.rule
