"""Loadproof's own runs: `runs/<id>/summary.json`."""

from __future__ import annotations

from collections.abc import Mapping

from loadproof.bench.document import Level, Summary, summary_of
from loadproof.bench.imports.levels import MeasuredLevel, day
from loadproof.bench.measure.steady import full_swing

MOST_OF_CLIENT = 0.05
_LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")


def is_summary(document: object) -> bool:
    if not isinstance(document, Mapping) or not isinstance(document.get("levels"), list):
        return False
    return "run_id" in document and "verdict" in document


def read_summary(document: Mapping[str, object], source: str) -> list[MeasuredLevel]:
    """Its levels in full swing; one that the run itself calls invalid, that was never as concurrent as named, or whose
    client had more than `MOST_OF_CLIENT` of a mean latency is left out.

    TTFT and E2E are those of the steady state where the run reached one: of a level that queues, the first round finds
    no queue. Throughput is the same loop's (`steady.full_swing`). Input tokens are the server's count where
    it gave one. Raises InputError for a summary that is none.
    """
    summary = summary_of(document, source)
    return [_level(level, summary, source) for level in summary.levels if _is_the_endpoints(level)]


def _is_the_endpoints(level: Level) -> bool:
    if not level.valid or level.never_full:
        return False
    means = [(getattr(level, name).mean, getattr(level.client_share, name).mean) for name in _LATENCIES]
    return all(counted is None or (share or 0.0) <= MOST_OF_CLIENT * counted for counted, share in means)


def _level(level: Level, summary: Summary, source: str) -> MeasuredLevel:
    tokens, requests_per_s, inputs = level.output_tokens_per_s, level.requests_per_s, level.input_tokens_per_s
    settled = level.steady_state if level.steady_state.reached else level
    in_swing, swing = level.steady_state.output_tokens_per_s, 1.0
    if in_swing and tokens:
        swing = in_swing / tokens
    else:  # a run of before summaries had it
        slots = min(level.concurrency, level.requests or level.concurrency)
        swing = full_swing(slots, level.mean_in_flight, level.e2e_ms.mean, settled.e2e_ms.mean)
    counted = level.input_token_source == "server" and inputs and requests_per_s
    workload = summary.workload
    return MeasuredLevel(
        source=source,
        concurrency=level.concurrency,
        input_tokens=inputs / requests_per_s if counted and inputs and requests_per_s else float(workload.input_tokens),
        output_tokens=tokens / requests_per_s if tokens and requests_per_s else float(workload.output_tokens),
        requests=level.requests,
        errors=level.errors,
        output_tokens_per_s=None if tokens is None else tokens * swing,
        requests_per_s=None if requests_per_s is None else requests_per_s * swing,
        ttft_ms=settled.ttft_ms,
        itl_ms=level.itl_ms,
        tpot_ms=level.tpot_ms,
        e2e_ms=settled.e2e_ms,
        date=day(summary.created_utc),
        simulated=summary.conditions.backend == "twin",
        profile=summary.profile.name if summary.profile else None,
        alike=workload.turns == 1
        and workload.dataset is None
        and workload.input_distribution == workload.output_distribution == "fixed",
    )
