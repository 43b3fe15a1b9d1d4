"""What two runs differ by beside what is compared: another load, which is refused, and what may explain a change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loadproof.bench.judge.judgement import SHORT_BELOW
from loadproof.bench.measure.levels import MeasuredLevel
from loadproof.bench.objectives import figure
from loadproof.bench.plan import RunPlan, model_of
from loadproof.errors import InputError

_OF_LOAD = (
    "input_tokens", "first_input_tokens", "output_tokens", "shared_prefix_tokens", "turns", "continues",
    "max_context_tokens", "turn_correlation", "classes", "dataset_sha256", "images",
)  # fmt: skip


def refuse_other_load(before: RunPlan, after: RunPlan, folders: tuple[Path, Path]) -> None:
    """Raises InputError."""
    one, other = before.spec, after.spec
    different = [name for name in _OF_LOAD if getattr(one.workload, name, None) != getattr(other.workload, name, None)]
    different += ["streaming"] if one.target.streaming != other.target.streaming else []
    if different:
        raise InputError(
            f"{folders[0]} and {folders[1]} cannot be held against each other: another {', '.join(different)}; "
            "repeat one of them with the other's workload"
        )


def conditions_that_differ(before: RunPlan, after: RunPlan) -> list[tuple[str, str, str]]:
    """(what, before, after) of every condition that differs and may explain a change."""
    rows = [_conditions(plan) for plan in (before, after)]
    names = dict.fromkeys((*rows[0], *rows[1]))
    said = ((name, *("–" if row.get(name) is None else str(row[name]) for row in rows)) for name in names)
    return [(name, one, other) for name, one, other in said if one != other]


def answers_that_differ(place: str, levels: Sequence[MeasuredLevel]) -> list[tuple[str, str, str]]:
    """Mean tokens of an answer where one run's are well shorter: what is shorter is quicker."""
    before, after = (level.metrics.answered_output_tokens or 0.0 for level in levels)
    if min(before, after) >= SHORT_BELOW * max(before, after):
        return []
    return [(f"tokens of an answer at {place}", figure(before), figure(after))]


def _conditions(plan: RunPlan) -> dict[str, object]:
    target, profile = plan.spec.target, plan.spec.profile
    return {
        "endpoint": target.endpoint,
        "component": target.component,
        "model": model_of(plan),
        "region": target.region,
        "protocol": target.protocol,
        "service tier": target.service_tier,
        "local cloud": target.local_cloud,
        "profile": profile.sha256[:12] if profile else None,
        "USD per hour": plan.spec.usd_per_hour,
        "price": plan.spec.price,
        "seed": plan.spec.workload.seed,
        **plan.conditions,
    }
