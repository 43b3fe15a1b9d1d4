"""llmeter (0.2): `stats.json` of a result folder, one folder a level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.imports.levels import MeasuredLevel, day, number, spread_of, text, whole
from benchmarks.statistics import Spread


def is_llmeter(document: Any) -> bool:
    return isinstance(document, Mapping) and {"clients", "time_to_last_token-average"} <= document.keys()


def read_llmeter(document: Mapping[str, Any], source: str) -> list[MeasuredLevel]:
    """One level. Its times are in seconds and it keeps no time per token; throughput is tokens / test time."""
    duration_s, tokens = number(document.get("total_test_time")), number(document.get("total_output_tokens"))
    requests, errors = whole(document.get("total_requests")), whole(document.get("failed_requests"))
    rate = number(document.get("requests_per_minute"))
    share = 1 - (errors or 0) / requests if requests else 1.0
    return [
        MeasuredLevel(
            source=source,
            concurrency=whole(document.get("clients")),
            input_tokens=number(document.get("num_tokens_input-average")),
            output_tokens=number(document.get("num_tokens_output-average")),
            requests=requests,
            errors=errors,
            output_tokens_per_s=tokens / duration_s if tokens and duration_s else None,
            requests_per_s=None if rate is None else rate / 60 * share,
            ttft_ms=_spread(document, "time_to_first_token"),
            e2e_ms=_spread(document, "time_to_last_token"),
            model=text(document.get("model_id")),
            date=day(document.get("start_time")),
        )
    ]


def _spread(document: Mapping[str, Any], metric: str) -> Spread:
    names = {"mean": f"{metric}-average", **{f"p{q}": f"{metric}-p{q}" for q in (50, 90, 99)}}
    return spread_of(document, names, 1e3)
