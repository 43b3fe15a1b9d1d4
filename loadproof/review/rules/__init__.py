"""Numbered findings of a review (LR001 ...): what only two sides show. Pure: a context in, findings out.

docs/review-findings.md is generated from these rules and from the pairs that show them.
"""

from __future__ import annotations

from typing import Final

from loadproof.review.context import Context
from loadproof.review.model import SEVERITIES, Finding
from loadproof.review.rules.change import Change
from loadproof.review.rules.rule import RULES

NOT_JUDGED: Final = "LR066"
# What reading a template of an unexpected shape raises: a text where AWS wants a map, and the like.
_UNREADABLE: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)

__all__ = ["RULES", "findings_of"]


def findings_of(context: Context) -> tuple[Finding, ...]:
    """Every finding of one pair, the worst first, then by code and subject; each once.

    Where a rule cannot read a template, that is a finding: nothing is passed over in silence.
    """
    change = Change.of(context)
    found: set[Finding] = set()
    for rule in RULES:
        try:
            found |= set(rule.findings(change))
        except _UNREADABLE as error:
            message = f"{rule.code} ({rule.title.lower()}) could not be judged: a property has a shape nobody expected"
            mend = "mend the template, or look at it by hand"
            found.add(Finding(NOT_JUDGED, "risk", "", message, mend, f"{type(error).__name__}: {error}"))
    return tuple(sorted(found, key=lambda one: (-SEVERITIES.index(one.severity), one.code, one.place, one.message)))
