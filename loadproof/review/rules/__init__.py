"""Numbered findings of a review (LR001 ...): what only two sides show. Pure: a context in, findings out.

docs/review-findings.md is generated from these rules and from the pairs that show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.review.context import Context
from loadproof.review.model import SEVERITIES, Finding
from loadproof.review.rules import (
    answers,
    capacity,
    data,
    exposure,
    hosting,
    promises,
    protection,
    replacement,
    rights,
    scaling,
    updates,
    whole,
)
from loadproof.review.rules.change import Change
from loadproof.review.rules.rule import Found, Rule

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(
        (
            *replacement.RULES,
            *scaling.RULES,
            *capacity.RULES,
            *updates.RULES,
            *hosting.RULES,
            *answers.RULES,
            *data.RULES,
            *rights.RULES,
            *exposure.RULES,
            *protection.RULES,
            *promises.RULES,
            *whole.RULES,
        ),
        key=lambda rule: rule.code,
    )
)

# What reading a template of an unexpected shape raises: a text where AWS wants a map, and the like.
_UNREADABLE: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)

__all__ = ["RULES", "Rule", "findings_of"]


def findings_of(context: Context) -> tuple[Finding, ...]:
    """Every finding of one pair, the worst first, then by code and subject; each once."""
    change = Change.of(context)
    found = {
        Finding(code, one.severity or rule.severity, one.subject, one.message, one.mend, one.evidence)
        for rule in RULES
        for code, one in _judged(rule, change)
    }
    return tuple(sorted(found, key=lambda one: (-SEVERITIES.index(one.severity), one.code, one.subject, one.message)))


def _judged(rule: Rule, change: Change) -> Iterator[tuple[str, Found]]:
    """What the rule finds. Where it cannot read a template, that is a finding: nothing is passed over in silence."""
    try:
        yield from [(rule.code, one) for one in rule.function(change)]
    except _UNREADABLE as error:
        message = f"{rule.code} ({rule.title.lower()}) could not be judged: a property has a shape nobody expected"
        mend = "mend the template, or look at it by hand"
        yield whole.NOT_JUDGED, Found("", message, mend, "risk", f"{type(error).__name__}: {error}")
