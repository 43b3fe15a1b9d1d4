"""llmeter (0.2): `stats.json` of a result folder, one folder a level; beside it `responses.jsonl`, a line a request.

When a request was sent is in there to the second only, so requests are no records of ours; their latencies are exact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from loadproof.bench.imports.levels import MeasuredLevel, day, number, spread_of, text, whole
from loadproof.bench.measure.statistics import Spread, spread
from loadproof.bench.plain import MOST_LOG_BYTES, read_plain


def is_llmeter(document: object) -> bool:
    return isinstance(document, Mapping) and {"clients", "time_to_last_token-average"} <= document.keys()


def read_llmeter(document: Mapping[str, object], source: str) -> list[MeasuredLevel]:
    """One level. Its times are in seconds; rates are over the test time (its own `requests_per_minute` ends with the
    last request sent). Its time per output token is our TPOT. Where all its responses are beside the file, percentiles
    are of those: every one of ours, by our interpolation."""
    duration_s, tokens = number(document.get("total_test_time")), number(document.get("total_output_tokens"))
    requests, errors = whole(document.get("total_requests")), whole(document.get("failed_requests"))
    samples_ms = _samples_ms(Path(source), (requests or 0) - (errors or 0))
    return [
        MeasuredLevel(
            source=source,
            concurrency=whole(document.get("clients")),
            input_tokens=number(document.get("num_tokens_input-average")),
            output_tokens=number(document.get("num_tokens_output-average")),
            requests=requests,
            errors=errors,
            output_tokens_per_s=tokens / duration_s if tokens and duration_s else None,
            requests_per_s=(requests - (errors or 0)) / duration_s if requests and duration_s else None,
            ttft_ms=_exact(samples_ms["ttft"]) if samples_ms else _spread(document, "time_to_first_token"),
            tpot_ms=_exact(samples_ms["tpot"]) if samples_ms else _spread(document, "time_per_output_token"),
            e2e_ms=_exact(samples_ms["e2e"]) if samples_ms else _spread(document, "time_to_last_token"),
            model=text(document.get("model_id")),
            date=day(document.get("start_time")),
            samples_ms=samples_ms,
        )
    ]


def _spread(document: Mapping[str, object], metric: str) -> Spread:
    names = {"mean": f"{metric}-average", **{f"p{q}": f"{metric}-p{q}" for q in (50, 90, 99)}}
    return spread_of(document, names, 1e3)


def _exact(samples_ms: Sequence[float]) -> Spread:
    return spread(np.asarray(samples_ms, dtype=np.float64))


_METRICS = {"ttft": "time_to_first_token", "tpot": "time_per_output_token", "e2e": "time_to_last_token"}


def _samples_ms(stats: Path, succeeded: int) -> dict[str, list[float]]:
    """Of each request that succeeded; empty unless all of those are there."""
    if stats.name != "stats.json":
        return {}
    try:
        body = read_plain(stats.with_name("responses.jsonl"), MOST_LOG_BYTES)
        rows = [json.loads(line) for line in body.splitlines() if line.strip()]
    except (OSError, ValueError):
        return {}
    good = [row for row in rows if isinstance(row, Mapping) and not row.get("error")]
    if not good or len(good) != succeeded:
        return {}
    seconds = {metric: [number(row.get(name)) for row in good] for metric, name in _METRICS.items()}
    return {metric: [1e3 * value for value in values if value is not None] for metric, values in seconds.items()}
