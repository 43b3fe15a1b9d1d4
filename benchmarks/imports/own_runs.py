"""Loadproof's own runs: `runs/<id>/summary.json` (docs/decisions/0001)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.imports.levels import MeasuredLevel, day, mapping, number, spread_of, whole
from benchmarks.steady import full_swing

_SAME = {name: name for name in ("p50", "p90", "p95", "p99", "mean", "max")}


def is_summary(document: Any) -> bool:
    named = isinstance(document, Mapping) and "run_id" in document and "verdict" in document
    return named and isinstance(document.get("levels"), list)


def read_summary(document: Mapping[str, Any], source: str) -> list[MeasuredLevel]:
    """Its levels in full swing; one that the run itself calls invalid, or never as concurrent as named, is left out.

    TTFT and E2E are those of the steady state where the run reached one: of a level that queues, the first round finds
    no queue. Throughput is the same loop's (`benchmarks.steady.full_swing`). Input tokens are the server's count where
    it gave one.
    """
    workload = mapping(document, "workload")
    simulated = mapping(document, "conditions").get("backend") == "twin"
    return [
        _level(level, workload, source, day(document.get("created_utc")), simulated)
        for level in document["levels"]
        if isinstance(level, Mapping) and level.get("valid", True) and not level.get("never_full")
    ]


def _level(
    level: Mapping[str, Any], workload: Mapping[str, Any], source: str, date: str | None, simulated: bool
) -> MeasuredLevel:
    concurrency, requests = whole(level.get("concurrency")), whole(level.get("requests"))
    in_flight, requests_per_s = number(level.get("mean_in_flight")), number(level.get("requests_per_s"))
    steady = mapping(level, "steady_state")
    settled = steady if steady.get("reached") else level
    ttft, e2e, e2e_of_all = (
        spread_of(mapping(part, name), _SAME)
        for part, name in ((settled, "ttft_ms"), (settled, "e2e_ms"), (level, "e2e_ms"))
    )
    tokens, inputs = number(level.get("output_tokens_per_s")), number(level.get("input_tokens_per_s"))
    in_swing, swing = number(steady.get("output_tokens_per_s")), 1.0
    if in_swing and tokens:
        swing = in_swing / tokens
    elif concurrency is not None:  # a run of before summaries had it
        swing = full_swing(min(concurrency, requests or concurrency), in_flight, e2e_of_all.mean, e2e.mean)
    counted = level.get("input_token_source") == "server" and inputs and requests_per_s
    return MeasuredLevel(
        source=source,
        concurrency=concurrency,
        input_tokens=inputs / requests_per_s if counted and inputs and requests_per_s else _planned(workload, "input"),
        output_tokens=tokens / requests_per_s if tokens and requests_per_s else _planned(workload, "output"),
        requests=requests,
        errors=whole(level.get("errors")),
        output_tokens_per_s=None if tokens is None else tokens * swing,
        requests_per_s=None if requests_per_s is None else requests_per_s * swing,
        ttft_ms=ttft,
        itl_ms=spread_of(mapping(level, "itl_ms"), _SAME),
        tpot_ms=spread_of(mapping(level, "tpot_ms"), _SAME),
        e2e_ms=e2e,
        date=date,
        simulated=simulated,
    )


def _planned(workload: Mapping[str, Any], side: str) -> float | None:
    return number(workload.get(f"{side}_tokens"))
