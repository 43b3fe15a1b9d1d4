"""A plan as plain data for JSON: programs, reports and reviews read this, never the dataclasses' own layout."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from loadproof.capacity.curve import PredictedLevel
from loadproof.capacity.plan import Plan

SCHEMA_VERSION = 1


def plan_document(plan: Plan) -> dict[str, Any]:
    """The whole plan. Every number is predicted, which the key `predicted` says once."""
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
        "levels": [_level(plan, level, cost) for level, cost in zip(plan.levels, plan.costs_per_million, strict=True)],
        "knee": asdict(plan.knee) if plan.knee else None,
        "binds": plan.binds,
        "cost": asdict(plan.cost),
        "objectives": {
            "at_concurrency": plan.objectives_at,
            "outlook": [asdict(row) for row in plan.outlook],
        },
        "notes": list(plan.notes),
    }


def _level(plan: Plan, level: PredictedLevel, cost: float | None) -> dict[str, Any]:
    """One level with the ranges of its grade beside each predicted figure."""
    ranges = {
        name: plan.confidence.interval(getattr(level, name), ttft=name == "ttft_ms")
        for name in ("ttft_ms", "tpot_ms", "e2e_ms", "output_tokens_per_s", "requests_per_s")
    }
    return {
        **asdict(level),
        "cost_per_million_output_tokens_usd": cost,
        "ranges": {name: {"low": low, "high": high} for name, (low, high) in ranges.items()},
    }
