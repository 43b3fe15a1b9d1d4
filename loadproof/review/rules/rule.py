"""What a rule of the review is: a number, words for people, and one small function over both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from loadproof.review.model import Severity
from loadproof.review.rules.change import Change


@dataclass(frozen=True, slots=True)
class Found:
    """One thing a rule found. `subject`: a field of the profile where one explains it, else a logical id."""

    subject: str
    message: str
    mend: str
    severity: Severity | None = None  # None: the rule's own
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One numbered rule. Numbers are never given twice. `source`: where it is known from, or how well."""

    code: str
    title: str
    reason: str
    fix: str
    source: str
    severity: Severity
    function: Callable[[Change], Iterable[Found]]


def rule(
    code: str, title: str, *, reason: str, fix: str, source: str, severity: Severity
) -> Callable[[Callable[[Change], Iterator[Found]]], Rule]:
    """Make a function a numbered rule."""

    def numbered(function: Callable[[Change], Iterator[Found]]) -> Rule:
        return Rule(code, title, reason, fix, source, severity, function)

    return numbered
