"""`summary.json`: what a run folder amounts to. A pure function of plan and records, so it can be rebuilt at any time.

The document's shape is a contract (docs/decisions/0001). Keys beyond it: a level's `error_examples`, `loop_lag_ms`,
`mean_in_flight`, `tokens_per_arrival` and `input_token_source`, an objective's `requests` (how many its interval rests
on), and `conditions.rules`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.metrics import LevelMetrics, measure_level
from benchmarks.objectives import ERROR_RATE
from benchmarks.plan import RunPlan
from benchmarks.records import RecordFile, RequestRecord, latest
from benchmarks.spec import BenchmarkSpec, TokenCounts
from benchmarks.verdict import (
    LAG_LIMIT_MS,
    LAG_SHARE_OF_OBJECTIVE,
    LOOP_LAG_FACTOR,
    decide,
    invalid_reasons,
    judge,
)

if TYPE_CHECKING:
    from loadproof.capacity.knee import Knee

SCHEMA_VERSION = 1
FILE_NAME = "summary.json"
RULES = {
    "percentiles": "exact, linear interpolation between order statistics (numpy `linear`)",
    "intervals": "95%, percentile bootstrap over whole requests",
    "latency": "successful requests, from the intended send time",
    "itl": "gaps between instants at which tokens came; tokens that come together end one gap",
    "valid": f"dispatch lag p99 at most {LAG_LIMIT_MS:g} ms and at most {LAG_SHARE_OF_OBJECTIVE:.0%} of the tightest "
    f"latency objective, event loop lag p99 at most {LOOP_LAG_FACTOR:g} times that",
}


def build_summary(plan: RunPlan, file: RecordFile, *, interrupted: bool = False) -> dict[str, Any]:
    """The summary of everything recorded so far. Levels that nothing was recorded of are absent."""
    spec = plan.spec
    of_level = levels_of(plan, file.records)
    metrics = {level: metrics_of(plan, level, records) for level, records in of_level.items()}
    levels = list(metrics.values())
    judged = judged_level(plan, metrics)
    judgements = [
        judge(objective, of_level.get(judged, ()), metrics.get(judged) or measure_level(1, ()), spec.workload.seed)
        for objective in spec.objectives
    ]
    at_concurrency = metrics[judged].concurrency if judged in metrics else plan.loads[judged].concurrency or 1
    verdict = decide(
        judgements, levels, spec.objectives, at_concurrency, spec.max_error_rate, judged=metrics.get(judged)
    )
    valid_levels = [level for level in levels if not invalid_reasons(level, spec.objectives)]
    knee = _knee(valid_levels)
    reasons = (("the run was interrupted",) if interrupted else ()) + verdict.reasons
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": plan.run_id,
        "created_utc": plan.created_utc,
        "loadproof_version": plan.conditions["loadproof"],
        "target": {
            "kind": spec.target.kind,
            "endpoint": spec.target.endpoint,
            "component": spec.target.component,
            "endpoint_url": spec.target.endpoint_url,
            "region": spec.target.region,
            "protocol": spec.target.protocol,
            "streaming": spec.target.streaming,
        },
        "profile": asdict(spec.profile) if spec.profile else None,
        "workload": _workload(spec),
        "conditions": _conditions(plan, file, interrupted),
        "levels": [_level(plan, index, level) for index, level in metrics.items()],
        "knee": asdict(knee) if knee else None,
        "predicted": asdict(spec.predicted) if spec.predicted else None,
        "objectives": [asdict(judgement) for judgement in judgements],
        "verdict": {
            "outcome": "INCONCLUSIVE" if interrupted and verdict.outcome == "PASS" else verdict.outcome,
            "at_concurrency": verdict.at_concurrency,
            "at_load": plan.loads[judged].words,
            "reasons": reasons,
        },
    }


def _knee(levels: Sequence[LevelMetrics]) -> Knee | None:
    """The knee of the measured curve, over valid levels with data; latency is E2E p50.

    Throughput is that of the level in full swing: measured · concurrency / mean in flight. The last requests of a level
    run beside fewer and fewer others, and how many those are depends on what is left over, not on the endpoint.
    """
    from loadproof.capacity.knee import find_knee  # late: the planner is no part of sending requests

    return find_knee(
        [
            (
                level.concurrency,
                level.output_tokens_per_s * min(level.concurrency, level.requests) / level.mean_in_flight,
                level.e2e_ms.p50,
            )
            for level in levels
            if level.load is None  # an open loop's load is its rate, not what is in flight
            and level.output_tokens_per_s is not None
            and level.e2e_ms.p50 is not None
            and level.mean_in_flight
        ]
    )


def levels_of(plan: RunPlan, records: Sequence[RequestRecord]) -> dict[int, list[RequestRecord]]:
    """The measured requests of every level that has any, each planned request once; levels in order of their load.

    A level that is measured in one piece counts with the last session that sent it: a queue that an earlier one built
    up is not the queue of a later one.
    """
    of_level: dict[int, list[RequestRecord]] = {}
    for record in latest(records):
        if record.phase == "measured":
            of_level.setdefault(record.level, []).append(record)
    for level, ours in of_level.items():
        if plan.loads[level].in_one_piece:
            last = max(record.session for record in ours)
            of_level[level] = [record for record in ours if record.session == last]
    return dict(sorted(of_level.items(), key=lambda item: (plan.loads[item[0]].value, item[0])))


def metrics_of(plan: RunPlan, level: int, records: Sequence[RequestRecord]) -> LevelMetrics:
    load = plan.loads[level]
    return measure_level(
        load.concurrency or 1,
        records,
        plan.spec.objectives,
        plan.spec.usd_per_hour,
        load=load.words if load.is_open else None,
    )


def judged_level(plan: RunPlan, metrics: Mapping[int, LevelMetrics]) -> int:
    """The level the objectives must hold at: the one asked for, else the highest."""
    spec, loads = plan.spec, plan.loads
    wanted = spec.at_requests_per_s if spec.at_requests_per_s is not None else spec.at_concurrency
    if wanted is not None:
        is_open = spec.at_requests_per_s is not None
        named = [level for level, load in enumerate(loads) if load.is_open == is_open and load.value == wanted]
        if named:
            return named[-1]
    return max(range(len(loads)), key=lambda level: (loads[level].value, level))


def _level(plan: RunPlan, index: int, level: LevelMetrics) -> dict[str, Any]:
    reasons = invalid_reasons(level, plan.spec.objectives)
    load = {name: value for name, value in asdict(plan.loads[index]).items() if value is not None}
    return {**asdict(level), "valid": not reasons, "invalid_reasons": reasons, "planned": {"level": index, **load}}


def _workload(spec: BenchmarkSpec) -> dict[str, Any]:
    workload = spec.workload
    return {
        "input_tokens": _typical(workload.input_tokens),
        "output_tokens": _typical(workload.output_tokens),
        "seed": workload.seed,
        "input_distribution": workload.input_tokens.distribution,
        "output_distribution": workload.output_tokens.distribution,
        "shared_prefix_tokens": workload.shared_prefix_tokens,
        "requests_per_level": spec.requests_per_level,
        "warmup_requests": spec.warmup_requests,
        "request_timeout_s": spec.request_timeout_s,
    }


def _typical(counts: TokenCounts) -> int:
    return round(counts.mean)


def _conditions(plan: RunPlan, file: RecordFile, interrupted: bool) -> dict[str, Any]:
    guard = (
        {} if any(o.name == ERROR_RATE for o in plan.spec.objectives) else {"max_error_rate": plan.spec.max_error_rate}
    )
    return {
        **plan.conditions,
        "local_cloud": plan.spec.target.local_cloud is not None,
        "backend": plan.spec.target.local_cloud,
        "sessions": len(plan.sessions_utc),
        "torn_lines": file.torn_lines,
        "interrupted": interrupted,
        "usd_per_hour": plan.spec.usd_per_hour,
        **guard,
        "rules": RULES,
    }
