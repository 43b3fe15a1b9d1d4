"""`summary.json`: what a run folder amounts to. A pure function of plan and records, so it can be rebuilt at any time.

Its shape is `loadproof.bench.document`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from itertools import chain
from typing import Any

from loadproof.bench.document import SCHEMA_VERSION, Conditions, Level, Planned, RunTarget, RunWorkload, Summary, WarmUp
from loadproof.bench.judge.judgement import SHORT_BELOW, Judgement, judge
from loadproof.bench.judge.verdict import OFFERED_AT_LEAST, Verdict, decide, invalid_reasons
from loadproof.bench.measure.histogram import histogram_of
from loadproof.bench.measure.latencies import pooled
from loadproof.bench.measure.levels import MeasuredLevel, measured_levels
from loadproof.bench.measure.metrics import measure_level
from loadproof.bench.measure.observer import Row
from loadproof.bench.measure.parts import held_against
from loadproof.bench.measure.phases import Phases, phases_of
from loadproof.bench.measure.records import RecordFile, RequestRecord
from loadproof.bench.measure.scaling import deployed_of, scaling_of
from loadproof.bench.measure.steady import drain, steady_tokens_per_s
from loadproof.bench.objectives import ERROR_RATE, LATENCY_METRICS
from loadproof.bench.plan import RunPlan
from loadproof.bench.search.levels import search_result
from loadproof.bench.search.planned import judged_level, probes_of, wanted_value
from loadproof.bench.spec import BenchmarkSpec
from loadproof.knee import Knee, find_knee

RULES = {
    "percentiles": "exact, linear interpolation between order statistics (numpy `linear`)",
    "intervals": "95%; of percentiles exact by order statistics over the effective number of samples, of rates by "
    "bootstrap over blocks of requests",
    "latency": "successful requests, from the intended send time",
    "itl": "gaps between instants at which tokens came; tokens that come together end one gap",
    "answers": f"shorter than {SHORT_BELOW:.0%} of the tokens asked for, they keep E2E and rates from passing",
    "client": "what the client itself may have added is an error bar: PASS with it, FAIL without it",
    "valid": f"at least {OFFERED_AT_LEAST:.0%} of the load asked for was offered, and no share of it was lost",
}


def build_summary(
    plan: RunPlan, file: RecordFile, *, interrupted: bool = False, observed: Sequence[Row] = ()
) -> Summary:
    """The summary of everything recorded so far. Levels that nothing was recorded of are absent.

    `observed`: the lines of observed.jsonl.
    """
    spec = plan.spec
    measured = measured_levels(plan, file.records)
    phases = phases_of(measured)
    probes = probes_of(plan, measured)
    index = judged_level(plan, measured, probes)
    judgements = _judgements(spec, measured.get(-1 if index is None else index))
    search = search_result(spec.search, tuple(probes.values()), wanted_value(plan)) if spec.search and probes else None
    cut_off: tuple[str, ...] = ("the run was interrupted",) if interrupted else ()
    if search and not interrupted and not search.finished:
        cut_off = ("the search is not finished: a higher load may meet the objectives, too",)
    return Summary(
        schema_version=SCHEMA_VERSION,
        run_id=plan.run_id,
        created_utc=plan.created_utc,
        loadproof_version=plan.conditions["loadproof"],
        target=target_of(spec),
        profile=spec.profile.brief() if spec.profile else None,
        workload=_workload(spec),
        conditions=conditions_of(
            plan,
            sessions=len(plan.sessions_utc),
            torn_lines=file.torn_lines,
            interrupted=interrupted,
            max_error_rate=None if any(one.name == ERROR_RATE for one in spec.objectives) else spec.max_error_rate,
            rules=RULES,
        ),
        levels=tuple(_level(plan, level, phases[place]) for place, level in measured.items()),
        deployed=deployed_of(observed),
        scaling=scaling_of(observed, _load_changes_s(file.records)),
        search=search,
        knee=knee_of(
            level for level in measured.values() if not invalid_reasons(level.metrics) and not level.load.never_full
        ),
        predicted=spec.predicted,
        objectives=judgements,
        verdict=_verdict(plan, measured, index, judgements, cut_off),
    )


def _judgements(spec: BenchmarkSpec, judged: MeasuredLevel | None) -> tuple[Judgement, ...]:
    metrics, records = (judged.metrics, judged.records) if judged else (measure_level(1, ()), ())
    seed, answer_length = spec.workload.seed, spec.workload.answer_length
    held = list(held_against(spec, records, metrics))
    estimated = sum(one.objective.name != ERROR_RATE for one in held)
    return tuple(
        replace(judge(one.objective, one.records, one.level, seed, answer_length, estimated), part=one.part)
        for one in held
    )


def _verdict(
    plan: RunPlan,
    measured: Mapping[int, MeasuredLevel],
    index: int | None,
    judgements: Sequence[Judgement],
    cut_off: tuple[str, ...],
) -> Verdict:
    """`index` is the judged level's; a run that was `cut_off`, and why, never passes."""
    spec, load = plan.spec, None if index is None else plan.loads[index]
    judged = measured.get(-1 if index is None else index)
    metrics = judged.metrics if judged else None
    # A search goes past what the endpoint can do: what it met there is no fault.
    levels = [metrics] if spec.search and metrics else [level.metrics for level in measured.values()]
    at_concurrency = metrics.concurrency if metrics else (load.concurrency if load else None) or 1
    objectives = [*spec.objectives, *chain.from_iterable(spec.class_objectives.values())]
    verdict = decide(judgements, levels, objectives, at_concurrency, spec.max_error_rate, metrics, load)
    return replace(
        verdict,
        outcome="INCONCLUSIVE" if cut_off and verdict.outcome == "PASS" else verdict.outcome,
        at_load=load.words if load else None,
        at_level=index,
        reasons=cut_off + verdict.reasons,
    )


def knee_of(levels: Iterable[MeasuredLevel]) -> Knee | None:
    """The knee of the measured curve, over valid closed loops with data, in full swing; latency is E2E p50."""
    rows = [(level.metrics, steady_tokens_per_s(level.metrics, level.steady, level.records)) for level in levels]
    return find_knee(
        [
            (level.concurrency, tokens_per_s, level.e2e_ms.p50)
            for level, tokens_per_s in rows
            # an open loop's load is its rate, not what is in flight
            if level.load is None and tokens_per_s is not None and level.e2e_ms.p50 is not None
        ]
    )


def _level(plan: RunPlan, level: MeasuredLevel, phases: Phases) -> Level:
    reasons = invalid_reasons(level.metrics)
    swing = steady_tokens_per_s(level.metrics, level.steady, level.records)
    pools = {f"{metric}_ms": pooled(metric, level.records) for metric in LATENCY_METRICS}
    return Level(
        **{one.name: getattr(level.metrics, one.name) for one in fields(level.metrics)},
        valid=not reasons,
        invalid_reasons=reasons,
        never_full=level.load.never_full,
        planned=Planned(level.index, **asdict(level.load)),
        warm_up=WarmUp(len(level.warm_up), sum(not record.ok for record in level.warm_up)),
        steady_state=replace(level.steady, output_tokens_per_s=swing),
        phases=phases,
        histograms={name: histogram_of(pool.values, pool.per_ms).to_row() for name, pool in pools.items()},
        drain=drain(level.records),
    )


def _load_changes_s(records: Iterable[RequestRecord]) -> list[float]:
    """When each level's first request was due, warm-up included, in seconds since the run's zero."""
    first_ns: dict[int, int] = {}
    for record in records:
        first_ns[record.level] = min(record.intended_ns, first_ns.get(record.level, record.intended_ns))
    return sorted(round(at_ns / 1e9, 3) for at_ns in first_ns.values())


def _workload(spec: BenchmarkSpec) -> RunWorkload:
    workload, images = spec.workload, spec.workload.images
    return RunWorkload(
        input_tokens=round(workload.input_tokens.mean),
        output_tokens=round(workload.output_tokens.mean),
        seed=workload.seed,
        input_distribution=workload.input_tokens.distribution,
        output_distribution=workload.output_tokens.distribution,
        shared_prefix_tokens=workload.shared_prefix_tokens,
        name=workload.name,
        unique_prompts=workload.dataset is None if workload.unique_prompts is None else workload.unique_prompts,
        turns=workload.turns,
        think_time_s=workload.think_time_s,
        sessions=None if workload.mixture.single else workload.mixture.words,
        answer_length=workload.answer_length,
        dataset=workload.dataset,
        dataset_sha256=workload.dataset_sha256,
        prompt_tokens_counted_by=f"tokenizer {workload.tokenizer}" if workload.tokenizer else "words (an estimate)",
        images=f"{images.count} of {images.width_px} x {images.height_px} px" if images else None,
        requests_per_level=spec.requests_per_level,
        warmup_requests=spec.warmup_requests,
        request_timeout_s=spec.request_timeout_s,
    )


def target_of(spec: BenchmarkSpec) -> RunTarget:
    return RunTarget(**{one.name: getattr(spec.target, one.name) for one in fields(RunTarget)})


def conditions_of(plan: RunPlan, **found: Any) -> Conditions:
    """The plan's own conditions, and what was `found` since."""
    known = {one.name: plan.conditions[one.name] for one in fields(Conditions) if one.name in plan.conditions}
    backend = plan.spec.target.local_cloud
    spec = plan.spec
    return Conditions(
        **known,
        local_cloud=backend is not None,
        backend=backend,
        usd_per_hour=spec.usd_per_hour,
        price=spec.price,
        **found,
    )
