"""llmeter (0.2): `stats.json` of a result folder, one folder a level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.imports.levels import MeasuredLevel, day, number, spread_of, text, whole
from benchmarks.statistics import Spread


def is_llmeter(document: Any) -> bool:
    return isinstance(document, Mapping) and {"clients", "time_to_last_token-average"} <= document.keys()


def read_llmeter(document: Mapping[str, Any], source: str) -> list[MeasuredLevel]:
    """One level. Its times are in seconds; rates are over the test time (its own `requests_per_minute` ends with the
    last request sent). Its time per output token is our TPOT."""
    duration_s, tokens = number(document.get("total_test_time")), number(document.get("total_output_tokens"))
    requests, errors = whole(document.get("total_requests")), whole(document.get("failed_requests"))
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
            ttft_ms=_spread(document, "time_to_first_token"),
            tpot_ms=_spread(document, "time_per_output_token"),
            e2e_ms=_spread(document, "time_to_last_token"),
            model=text(document.get("model_id")),
            date=day(document.get("start_time")),
        )
    ]


def _spread(document: Mapping[str, Any], metric: str) -> Spread:
    names = {"mean": f"{metric}-average", **{f"p{q}": f"{metric}-p{q}" for q in (50, 90, 99)}}
    return spread_of(document, names, 1e3)
