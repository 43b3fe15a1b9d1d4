"""Numbered findings of a review (LR001 ...): what only two sides show. Pure: a context in, findings out.

docs/review-findings.md is generated from these rules and from the pairs that show them.
"""

from __future__ import annotations

from typing import Final

from loadproof.review.context import Context
from loadproof.review.model import SEVERITIES, Finding
from loadproof.review.rules import data, hosting, promises, protection, replacement, rights, scaling, updates, whole
from loadproof.review.rules.change import Change
from loadproof.review.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(
        (
            *replacement.RULES,
            *scaling.RULES,
            *updates.RULES,
            *hosting.RULES,
            *data.RULES,
            *rights.RULES,
            *protection.RULES,
            *promises.RULES,
            *whole.RULES,
        ),
        key=lambda rule: rule.code,
    )
)

__all__ = ["RULES", "Rule", "findings_of"]


def findings_of(context: Context) -> tuple[Finding, ...]:
    """Every finding of one pair, the worst first, then by code and subject; each once."""
    change = Change.of(context)
    found = {
        Finding(rule.code, one.severity or rule.severity, one.subject, one.message, one.mend, one.evidence)
        for rule in RULES
        for one in rule.function(change)
    }
    return tuple(sorted(found, key=lambda one: (-SEVERITIES.index(one.severity), one.code, one.subject, one.message)))
