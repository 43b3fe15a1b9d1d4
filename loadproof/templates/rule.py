"""What a rule over a template is: a number, words for people, and one small function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from loadproof.errors import Severity
from loadproof.templates.template import Resource, Template


@dataclass(frozen=True, slots=True)
class Found:
    """One thing a rule found in a resource; None for the template as a whole."""

    resource: Resource | None
    message: str
    mend: str
    severity: Severity | None = None  # None: the rule's own


@dataclass(frozen=True, slots=True)
class Finding:
    """What is told. `acknowledged` is the reason somebody gave for leaving it so, None without one."""

    code: str
    severity: Severity
    resource: str
    message: str
    mend: str
    acknowledged: str | None

    @property
    def stops(self) -> bool:
        """True for what may not be deployed."""
        return self.severity == "error" and self.acknowledged is None

    def __str__(self) -> str:
        mark = "" if self.severity == "error" else " (warning)"
        subject = f" {self.resource}:" if self.resource else ""
        return f"{self.code}{mark}{subject} {self.message}; {self.mend}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One numbered rule. Numbers are never given twice."""

    code: str
    title: str
    reason: str
    fix: str
    severity: Severity
    function: Callable[[Template], Iterable[Found]]


def rule(
    code: str, title: str, *, reason: str, fix: str, severity: Severity = "error"
) -> Callable[[Callable[[Template], Iterator[Found]]], Rule]:
    """Make a function a numbered rule."""

    def numbered(function: Callable[[Template], Iterator[Found]]) -> Rule:
        return Rule(code, title, reason, fix, severity, function)

    return numbered
