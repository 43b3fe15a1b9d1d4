"""A plan as plain data for JSON: programs, reports and reviews read this, never the dataclasses' own layout."""

from __future__ import annotations

from dataclasses import asdict

from loadproof.advice.alternatives import Alternative, Alternatives
from loadproof.capacity.curve import PredictedLevel
from loadproof.capacity.plan import Plan

SCHEMA_VERSION = 1


def plan_document(plan: Plan, alternatives: Alternatives | None = None) -> dict[str, object]:
    """The whole plan, with settings and alternatives where they were asked for.

    Every number is predicted, which the key `predicted` says once.
    """
    deployment = plan.deployment
    return {
        "schema_version": SCHEMA_VERSION,
        "predicted": True,
        "profile": plan.profile_name,
        "model_id": deployment.model_id,
        "server": {"family": deployment.family, "version": deployment.version},
        "instance_type": deployment.instance.instance_type,
        "accelerator": deployment.accelerator.name,
        "accelerators_per_copy": deployment.accelerators,
        "copies": deployment.copies,
        "workload": {
            "input_tokens": plan.input_tokens,
            "output_tokens": plan.output_tokens,
            "streaming": plan.streaming,
        },
        "memory": asdict(plan.memory),
        "grade": plan.grade,
        "grade_meaning": plan.confidence.meaning,
        "levels": [_level(plan, at) for at in range(len(plan.levels))],
        "knee": asdict(plan.knee) if plan.knee else None,
        "knees": [asdict(knee) for knee in plan.knees],
        "binds": plan.binds,
        "bindings": [asdict(binding) | {"shares": dict(binding.shares)} for binding in plan.bindings],
        "invocation_limit": asdict(plan.invocation_limit) if plan.invocation_limit else None,
        "scaling": [
            {"component": row.component, "field": row.field, "value": row.value, "reason": row.reason}
            for row in plan.scaling
        ],
        "cost": asdict(plan.cost),
        "objectives": {
            "at_concurrency": plan.objectives_at,
            "outlook": [asdict(row) for row in plan.outlook],
        },
        "settings": [asdict(advice) for advice in alternatives.settings] if alternatives else None,
        "alternatives": alternatives_document(alternatives) if alternatives else None,
        "notes": list(plan.notes),
    }


def alternatives_document(alternatives: Alternatives) -> dict[str, object]:
    """The ranked alternatives; a recommendation names its row by `index` into `ranked`."""
    rows = list(alternatives.ranked)
    return {
        "goal": alternatives.goal,
        "counts": {
            "considered": alternatives.considered,
            "do_not_fit": alternatives.do_not_fit,
            "fit_marginally": alternatives.fit_marginally,
            "cannot_serve": alternatives.cannot_serve,
            "dominated": alternatives.dominated,
        },
        "recommendations": [
            {
                "goal": found.goal,
                "index": None if found.alternative is None else rows.index(found.alternative),
                "reason": found.reason,
            }
            for found in alternatives.recommendations
        ],
        "ranked": [_alternative(row) for row in rows],
        "notes": list(alternatives.notes),
    }


def _alternative(row: Alternative) -> dict[str, object]:
    changes = {change.name: {"before": change.before, "after": change.after} for change in row.changes}
    return asdict(row) | {"changes": changes}


def _level(plan: Plan, at: int) -> dict[str, object]:
    """One level with the ranges of its grade beside each predicted figure."""
    level: PredictedLevel = plan.levels[at]
    ranges = {
        name: plan.confidence.range_of(name, getattr(level, name), level)
        for name in ("ttft_ms", "tpot_ms", "e2e_ms", "output_tokens_per_s", "requests_per_s")
    }
    return {
        **asdict(level),
        "shares": asdict(plan.shares[at]),
        "cost_per_million_output_tokens_usd": plan.costs_per_million[at],
        "ranges": {name: {"low": low, "high": high} for name, (low, high) in ranges.items()},
    }
