"""What a rule of the review may look at: one pair, and everything computed of it."""

from __future__ import annotations

from dataclasses import dataclass

from loadproof.capacity.plan import Plan
from loadproof.review.model import (
    CostChange,
    EvidenceState,
    FieldChange,
    ObjectiveChange,
    Pair,
    ResourceChange,
)


@dataclass(frozen=True, slots=True)
class Context:
    """One pair with its changes. A plan is None where that side has none: no profile, refused, or on Bedrock."""

    pair: Pair
    fields: tuple[FieldChange, ...]
    resources: tuple[ResourceChange, ...]
    costs: tuple[CostChange, ...]
    objectives: tuple[ObjectiveChange, ...]
    evidence: EvidenceState
    plan_before: Plan | None
    plan_after: Plan | None
