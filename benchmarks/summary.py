"""`summary.json`: what a run folder amounts to. A pure function of plan and records, so it can be rebuilt at any time.

The document's shape is a contract (docs/decisions/0001). Keys beyond it: a level's `error_examples`, `loop_lag_ms`,
`mean_in_flight`, `tokens_per_arrival`, `input_token_source`, `error_rate`, `phases`, `histograms` and two more costs,
an objective's `requests` (how many its interval rests on), `effective_samples`, `more_requests` and `doubt`, what was
observed beside the load (`deployed`, `scaling`), and `conditions.rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.histogram import histogram_of
from benchmarks.levels import MeasuredLevel, judged_level, measured_levels, probes_of, wanted_value
from benchmarks.metrics import measure_level, pooled
from benchmarks.objectives import ERROR_RATE, LATENCY_METRICS
from benchmarks.phases import Phases, phases_of
from benchmarks.plan import RunPlan
from benchmarks.records import RecordFile, RequestRecord
from benchmarks.scaling import deployed_of, scaling_of
from benchmarks.search import is_finished, search_result
from benchmarks.spec import BenchmarkSpec, TokenCounts
from benchmarks.steady import drain, steady_tokens_per_s
from benchmarks.verdict import (
    LAG_LIMIT_MS,
    LAG_SHARE_OF_OBJECTIVE,
    LOOP_LAG_FACTOR,
    SHORT_BELOW,
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
    "intervals": "95%; of percentiles exact by order statistics over the effective number of samples, of rates by "
    "bootstrap over blocks of requests",
    "latency": "successful requests, from the intended send time",
    "itl": "gaps between instants at which tokens came; tokens that come together end one gap",
    "answers": f"shorter than {SHORT_BELOW:.0%} of the tokens asked for, they keep E2E and rates from passing",
    "valid": f"dispatch lag p99 at most {LAG_LIMIT_MS:g} ms and at most {LAG_SHARE_OF_OBJECTIVE:.0%} of the tightest "
    f"TTFT or E2E objective, event loop lag p99 at most {LOOP_LAG_FACTOR:g} times that",
}


def build_summary(
    plan: RunPlan, file: RecordFile, *, interrupted: bool = False, observed: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The summary of everything recorded so far. Levels that nothing was recorded of are absent.

    `observed`: the lines of observed.jsonl.
    """
    spec = plan.spec
    measured = measured_levels(plan, file.records)
    levels = [level.metrics for level in measured.values()]
    phases = phases_of(measured)
    index = judged_level(plan, measured)
    judged = measured.get(-1 if index is None else index)
    metrics = judged.metrics if judged else None
    judgements = [
        judge(
            objective,
            judged.records if judged else (),
            metrics or measure_level(1, ()),
            spec.workload.seed,
            spec.workload.answer_length,
        )
        for objective in spec.objectives
    ]
    load = None if index is None else plan.loads[index]
    # A search goes past what the endpoint can do: what it met there is no fault.
    of_verdict = [metrics] if spec.search and metrics else levels
    at_concurrency = metrics.concurrency if metrics else (load.concurrency if load else None) or 1
    verdict = decide(judgements, of_verdict, spec.objectives, at_concurrency, spec.max_error_rate, metrics, load)
    knee = _knee(
        [
            level
            for level in measured.values()
            if not invalid_reasons(level.metrics, spec.objectives) and not level.load.never_full
        ]
    )
    scaling = scaling_of(observed, _load_changes_s(file.records))
    search = _search(plan, measured)
    cut_off = ("the run was interrupted",) if interrupted else ()
    if search and not interrupted and not is_finished(search):
        cut_off = ("the search is not finished: a higher load may meet the objectives, too",)
    reasons = cut_off + verdict.reasons
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
        "profile": spec.profile.brief() if spec.profile else None,
        "workload": _workload(spec),
        "conditions": _conditions(plan, file, interrupted),
        "levels": [_level(plan, level, phases[index]) for index, level in measured.items()],
        "deployed": deployed_of(observed),
        "scaling": asdict(scaling) if scaling else None,
        "search": search,
        "knee": asdict(knee) if knee else None,
        "predicted": asdict(spec.predicted) if spec.predicted else None,
        "objectives": [asdict(judgement) for judgement in judgements],
        "verdict": {
            "outcome": "INCONCLUSIVE" if cut_off and verdict.outcome == "PASS" else verdict.outcome,
            "at_concurrency": verdict.at_concurrency,
            "at_load": load.words if load else None,
            "at_level": index,
            "reasons": reasons,
        },
    }


def _knee(levels: Sequence[MeasuredLevel]) -> Knee | None:
    """The knee of the measured curve, over valid closed loops with data, in full swing; latency is E2E p50."""
    from loadproof.capacity.knee import find_knee  # late: the planner is no part of sending requests

    rows = [(level.metrics, steady_tokens_per_s(level.metrics, level.steady, level.records)) for level in levels]
    return find_knee(
        [
            (level.concurrency, tokens_per_s, level.e2e_ms.p50)
            for level, tokens_per_s in rows
            # an open loop's load is its rate, not what is in flight
            if level.load is None and tokens_per_s is not None and level.e2e_ms.p50 is not None
        ]
    )


def _level(plan: RunPlan, level: MeasuredLevel, phases: Phases) -> dict[str, Any]:
    reasons = invalid_reasons(level.metrics, plan.spec.objectives)
    unfinished = drain(level.records)
    return {
        **asdict(level.metrics),
        "valid": not reasons,
        "invalid_reasons": reasons,
        "never_full": level.load.never_full,
        "planned": {"level": level.index} | {k: v for k, v in asdict(level.load).items() if v is not None},
        "warm_up": {"requests": len(level.warm_up), "errors": sum(not record.ok for record in level.warm_up)},
        "steady_state": asdict(level.steady)
        | {"output_tokens_per_s": steady_tokens_per_s(level.metrics, level.steady, level.records)},
        "phases": asdict(phases),
        "histograms": {f"{metric}_ms": _histogram(metric, level.records) for metric in LATENCY_METRICS},
        "drain": asdict(unfinished) if unfinished else None,
    }


def _histogram(metric: str, records: Sequence[RequestRecord]) -> dict[str, Any]:
    pool = pooled(metric, records)
    return histogram_of(pool.values, pool.per_ms).to_json()


def _search(plan: RunPlan, measured: Mapping[int, MeasuredLevel]) -> dict[str, Any] | None:
    search, probes = plan.spec.search, tuple(probes_of(plan, measured).values())
    return search_result(search, probes, wanted_value(plan)) if search and probes else None


def _load_changes_s(records: Iterable[RequestRecord]) -> list[float]:
    """When each level's first request was due, warm-up included, in seconds since the run's zero."""
    first_ns: dict[int, int] = {}
    for record in records:
        first_ns[record.level] = min(record.intended_ns, first_ns.get(record.level, record.intended_ns))
    return sorted(round(at_ns / 1e9, 3) for at_ns in first_ns.values())


def _workload(spec: BenchmarkSpec) -> dict[str, Any]:
    workload = spec.workload
    return {
        "input_tokens": _typical(workload.input_tokens),
        "output_tokens": _typical(workload.output_tokens),
        "seed": workload.seed,
        "input_distribution": workload.input_tokens.distribution,
        "output_distribution": workload.output_tokens.distribution,
        "shared_prefix_tokens": workload.shared_prefix_tokens,
        "name": workload.name,
        "unique_prompts": workload.dataset is None if workload.unique_prompts is None else workload.unique_prompts,
        "turns": workload.turns,
        "think_time_s": workload.think_time_s,
        "answer_length": workload.answer_length,
        "dataset": workload.dataset,
        "dataset_sha256": workload.dataset_sha256,
        "prompt_tokens_counted_by": f"tokenizer {workload.tokenizer}" if workload.tokenizer else "words (an estimate)",
        "images": f"{workload.images.count} of {workload.images.width_px} x {workload.images.height_px} px"
        if workload.images
        else None,
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
