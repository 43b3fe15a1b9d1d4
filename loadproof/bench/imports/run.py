"""Results of another load generator as a run folder of ours: `loadproof import`, and AWS's managed benchmark job.

Where the files hold single requests, plan.json and requests.jsonl are written and the run is judged as any other.
Where they hold figures only, so does the summary, and an objective on a percentile is judged by bounds: of n requests
the 95% interval of the p-quantile lies between two order statistics (`intervals.ranks`), and those between the
percentiles that the file does have. What no figure bounds is INCONCLUSIVE, never PASS. Figures are never made up into
requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path

import numpy as np

from loadproof.bench.document import FILE_NAME as SUMMARY_FILE
from loadproof.bench.document import SCHEMA_VERSION, Level, Planned, RunWorkload, Summary
from loadproof.bench.imports.detect import measured_file, read_measured
from loadproof.bench.imports.levels import MeasuredLevel
from loadproof.bench.imports.requests import requests_of
from loadproof.bench.job import machine_conditions
from loadproof.bench.judge.judgement import Judgement, decision, judgement_of
from loadproof.bench.judge.verdict import Outcome, Verdict
from loadproof.bench.judging import RunResult, judge_run, shown_again
from loadproof.bench.measure.intervals import quantile_interval, ranks
from loadproof.bench.measure.records import FILE_NAME as RECORDS_FILE
from loadproof.bench.measure.records import RecordWriter
from loadproof.bench.measure.statistics import Spread
from loadproof.bench.objectives import ERROR_RATE, Objective, figure
from loadproof.bench.plan import PlannedLevel, RunPlan, utc_text, write_json, write_plan
from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens
from loadproof.bench.summary import RULES, conditions_of, target_of
from loadproof.errors import InputError
from loadproof.knee import find_knee
from loadproof.loads import Load

NOTE = (
    "sent and timed by another program: latencies count from when it sent each request (guidellm's at a rate from when "
    "it was due), and how late the program itself was is not known"
)
_RANKS = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
_RATES = {"output_tokens_per_s_min": "output_tokens_per_s", "requests_per_s_min": "requests_per_s"}


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to read and what to make of it. `folder` is new or empty but for `sources` inside it.

    `spec`: what was asked for, where that is known (the managed job); else objectives alone.
    """

    sources: tuple[Path, ...]
    folder: Path
    run_id: str
    now_unix_ns: int = 0
    objectives: tuple[Objective, ...] = ()
    at_concurrency: int | None = None
    max_error_rate: float = 0.0
    spec: BenchmarkSpec | None = None


def import_run(request: ImportRequest) -> RunResult:
    """Make the run folder and judge it. Raises InputError for sources that cannot be read."""
    sources = [measured_file(_level_file(source)) for source in request.sources]
    found = [
        (level, file, requests)
        for file in sources
        for level, requests in zip_longest(read_measured(file), requests_of(file))
        if level is not None
    ]
    found.sort(key=lambda one: one[0].concurrency or 0)
    request.folder.mkdir(parents=True, exist_ok=True)
    if (request.folder / SUMMARY_FILE).exists():
        raise InputError(f"{request.folder}: holds a run already; give another folder with --as")
    levels = [level for level, _, _ in found]
    plan = _plan(request, levels, [file for _, file, _ in found])
    write_plan(request.folder, plan)
    if all(requests for _, _, requests in found):
        with RecordWriter(request.folder / RECORDS_FILE) as writer:
            for index, (level, _, requests) in enumerate(found):
                for record in requests or ():
                    writer.append(replace(record, level=index, concurrency=level.concurrency or 0))
        return judge_run(request.folder)
    write_json(request.folder / SUMMARY_FILE, _summary(plan, levels))
    return shown_again(request.folder)


def _level_file(source: Path) -> Path:
    """A source's own file; of a managed job's folder, whose names are flattened keys, the summary among them."""
    if source.is_dir():
        named = sorted(path for path in source.iterdir() if path.name.endswith("profile_export_aiperf.json"))
        return named[0] if named else source
    return source


def _plan(request: ImportRequest, levels: Sequence[MeasuredLevel], files: Sequence[Path]) -> RunPlan:
    loads = tuple(_load(level, file) for level, file in zip(levels, files, strict=True))
    first = levels[0]
    spec = request.spec or BenchmarkSpec(
        target=Target("openai", first.model or files[0].name, "openai", _streamed(levels)),
        workload=WorkloadSpec(
            fixed_tokens(round(first.input_tokens or 1)), fixed_tokens(round(first.output_tokens or 1))
        ),
        concurrency=tuple(level.concurrency or 1 for level in levels),
        requests_per_level=max((level.requests or 0 for level in levels), default=0),
        warmup_requests=0,
        objectives=request.objectives,
        at_concurrency=request.at_concurrency,
        max_error_rate=request.max_error_rate,
    )
    imported = {"files": [*dict.fromkeys(file.name for file in files)], "measured": first.date, "note": NOTE}
    described = {name: getattr(first, name) for name in ("model", "server", "instance_type", "instance_count")}
    created = utc_text(request.now_unix_ns)
    return RunPlan(
        request.run_id,
        created,
        request.now_unix_ns,
        replace(spec, loads=loads, search=None),
        {"loadproof": machine_conditions()["loadproof"], "imported": imported}
        | {name: value for name, value in described.items() if value is not None},
        (created,),
        tuple(PlannedLevel(load, level.requests, ended_utc=created) for load, level in zip(loads, levels, strict=True)),
    )


def _load(level: MeasuredLevel, file: Path) -> Load:
    """A closed loop of known size; else the other program's arrivals, by the name of its file."""
    if level.concurrency is None:
        return Load("trace", trace=file.name)
    return Load(concurrency=level.concurrency, requests=level.requests)


def _streamed(levels: Sequence[MeasuredLevel]) -> bool:
    return any(level.ttft_ms != Spread() for level in levels)


def _summary(plan: RunPlan, levels: Sequence[MeasuredLevel]) -> Summary:
    spec = plan.spec
    wanted = spec.at_concurrency
    named = [place for place, one in enumerate(levels) if wanted is not None and one.concurrency == wanted]
    place = named[0] if named else len(levels) - 1
    judged = levels[place] if named or wanted is None else None
    judgements = [judge_figures(objective, judged) for objective in spec.objectives]
    outcome, reasons = _decide(judgements, levels, spec)
    knee = find_knee(
        [
            (level.concurrency, level.output_tokens_per_s, level.e2e_ms.p50)
            for level in levels
            if level.concurrency is not None and level.output_tokens_per_s is not None and level.e2e_ms.p50 is not None
        ]
    )
    return Summary(
        schema_version=SCHEMA_VERSION,
        run_id=plan.run_id,
        created_utc=plan.created_utc,
        loadproof_version=plan.conditions["loadproof"],
        target=target_of(spec),
        profile=spec.profile.brief() if spec.profile else None,
        workload=RunWorkload(
            round(spec.workload.input_tokens.mean), round(spec.workload.output_tokens.mean), spec.workload.seed
        ),
        conditions=conditions_of(
            plan, rules=RULES | {"intervals": "bounds by the percentiles that the imported file has"}
        ),
        levels=tuple(_level(index, level, plan.loads[index]) for index, level in enumerate(levels)),
        knee=knee,
        predicted=spec.predicted,
        objectives=tuple(judgements),
        verdict=Verdict(outcome, levels[place].concurrency or 1, plan.loads[place].words, place, tuple(reasons)),
    )


def _level(index: int, level: MeasuredLevel, load: Load) -> Level:
    errors = level.errors or 0
    return Level(
        concurrency=level.concurrency or 1,
        requests=level.requests,
        errors=errors,
        errors_by_kind={"unknown": errors} if errors else {},
        error_examples={"unknown": "not in the imported file"} if errors else {},
        unfinished=0,
        duration_s=None,
        ttft_ms=level.ttft_ms,
        itl_ms=level.itl_ms,
        tpot_ms=level.tpot_ms,
        e2e_ms=level.e2e_ms,
        lag_ms=Spread(),
        output_tokens_per_s=level.output_tokens_per_s,
        input_tokens_per_s=None,
        requests_per_s=level.requests_per_s,
        goodput_per_s=None,
        cost_per_million_output_tokens_usd=None,
        token_source="none",
        error_rate=errors / level.requests if level.requests and level.errors is not None else None,
        merged_first_tokens=None,
        wrong_counts=None,
        load=load.words if load.is_open else None,
        valid=True,
        invalid_reasons=(),
        planned=Planned(index, **asdict(load)),
    )


def judge_figures(objective: Objective, level: MeasuredLevel | None) -> Judgement:
    """An objective on a level's figures alone (see the module). None: there is no such level."""
    if level is None:
        return judgement_of(objective, None, (None, None), "INCONCLUSIVE", 0)
    if objective.name == ERROR_RATE:
        known = level.requests and level.errors is not None
        observed = (level.errors or 0) / level.requests if known and level.requests else None
        counted = decision(objective, (observed, observed))  # not estimated
        return judgement_of(objective, observed, (None, None), counted, level.requests or 0)
    ends: tuple[float | None, float | None] = None, None
    if objective.latency:
        metric, rank = objective.latency
        spread: Spread = getattr(level, f"{metric}_ms")
        observed = getattr(spread, f"p{rank:g}")
        own = np.asarray(level.samples_ms.get(metric, ()), dtype=np.float64)
        interval = quantile_interval(own, np.arange(1, own.size + 1), rank, objective.bound)
        # Of ITL there are many samples a request, which hang together: as many as requests is the cautious count.
        succeeded = (level.requests or 0) - (level.errors or 0)
        ends = (interval.low, interval.high) if interval else _ends(spread, rank / 100, succeeded)
    else:
        observed = getattr(level, _RATES[objective.name])  # one figure, and nothing to bound it by
    return judgement_of(objective, observed, ends, decision(objective, ends), level.requests or 0)


def _ends(spread: Spread, share: float, samples: int) -> tuple[float | None, float | None]:
    """Percentiles of the file that lie outside the order statistics between which the quantile is.

    The percentile q of n samples by linear interpolation is at rank 1 + q·(n − 1), between two order statistics: so it
    is at most the r-th smallest where 1 + q·(n − 1) ≤ r, and at least the s-th where it is ≥ s.
    """
    if samples < 1:
        return None, None
    first, last = ranks(samples, share)
    reported = [(rank, value) for name, rank in _RANKS.items() if (value := getattr(spread, name)) is not None]
    below = [value for rank, value in reported if first and 1 + rank * (samples - 1) <= first]
    above = [value for rank, value in reported if last is not None and 1 + rank * (samples - 1) >= last]
    if not above and last is not None and spread.max is not None:
        above = [spread.max]
    return (max(below) if below else None), (min(above) if above else None)


def _decide(
    judgements: Sequence[Judgement], levels: Sequence[MeasuredLevel], spec: BenchmarkSpec
) -> tuple[Outcome, list[str]]:
    failed = [_said(one) for one in judgements if one.verdict == "FAIL"]
    unsettled = [_said(one) for one in judgements if one.verdict == "INCONCLUSIVE"]
    if not any(objective.name == ERROR_RATE for objective in spec.objectives):
        counted = [level for level in levels if level.errors is not None and level.requests]
        errors, requests = sum(one.errors or 0 for one in counted), sum(one.requests or 0 for one in counted)
        if errors > spec.max_error_rate * requests:
            failed.append(f"{errors} of {requests} requests failed; at most {spec.max_error_rate:.2%} may")
        if len(counted) < len(levels):
            unsettled.append("how many requests failed is not in the file")
    if failed:
        return "FAIL", failed
    if not judgements:
        return "NOT JUDGED", ["no objectives were given, so nothing was judged"]
    if unsettled:
        return "INCONCLUSIVE", unsettled
    return "PASS", ["all objectives hold, as far as the imported figures bound them"]


def _said(judgement: Judgement) -> str:
    shown = ["unknown" if end is None else figure(end) for end in (judgement.low, judgement.high)]
    observed = "no data" if judgement.observed is None else f"observed {figure(judgement.observed)}"
    return (
        f"{judgement.name}: {observed}, bound {judgement.comparison} {figure(judgement.bound)}, "
        f"95% interval within {shown[0]} to {shown[1]}"
    )
