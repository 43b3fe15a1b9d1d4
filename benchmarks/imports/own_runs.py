"""Loadproof's own runs: `runs/<id>/summary.json` (docs/decisions/0001)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.imports.levels import MeasuredLevel, day, mapping, number, spread_of, whole

_SAME = {name: name for name in ("p50", "p90", "p95", "p99", "mean", "max")}


def is_summary(document: Any) -> bool:
    return isinstance(document, Mapping) and "run_id" in document and "verdict" in document and "levels" in document


def read_summary(document: Mapping[str, Any], source: str) -> list[MeasuredLevel]:
    """Its levels in full swing; a level the run itself calls invalid is left out.

    Throughput is that of the level in full swing (measured · concurrency / mean in flight), as for the knee: ramp and
    tail depend on how many requests were sent. Input tokens are the server's count where it gave one.
    """
    workload = mapping(document, "workload")
    return [
        _level(level, workload, source, day(document.get("created_utc")))
        for level in document["levels"]
        if isinstance(level, Mapping) and level.get("valid", True)
    ]


def _level(level: Mapping[str, Any], workload: Mapping[str, Any], source: str, date: str | None) -> MeasuredLevel:
    concurrency, requests = whole(level.get("concurrency")), whole(level.get("requests"))
    in_flight, requests_per_s = number(level.get("mean_in_flight")), number(level.get("requests_per_s"))
    swing = min(concurrency, requests or concurrency) / in_flight if concurrency and in_flight else 1.0
    tokens, inputs = number(level.get("output_tokens_per_s")), number(level.get("input_tokens_per_s"))
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
        ttft_ms=spread_of(mapping(level, "ttft_ms"), _SAME),
        itl_ms=spread_of(mapping(level, "itl_ms"), _SAME),
        tpot_ms=spread_of(mapping(level, "tpot_ms"), _SAME),
        e2e_ms=spread_of(mapping(level, "e2e_ms"), _SAME),
        date=date,
    )


def _planned(workload: Mapping[str, Any], side: str) -> float | None:
    return number(workload.get(f"{side}_tokens"))
