"""guidellm (0.8, report schema 2): `benchmarks.json`, all levels of a sweep in one file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from loadproof.bench.imports.levels import MeasuredLevel, mapping, number, spread_of, text, whole
from loadproof.bench.measure.statistics import Spread

_PERCENTILES = {name: name for name in ("p50", "p90", "p95", "p99")}


def is_guidellm(document: object) -> bool:
    if not isinstance(document, Mapping) or not isinstance(document.get("benchmarks"), list):
        return False
    return any(mapping(entry, "metrics").get("time_to_first_token_ms") for entry in document["benchmarks"])


def read_guidellm(document: Mapping[str, object], source: str) -> list[MeasuredLevel]:
    """Its levels, successful requests only. Of its two times per token the one without the first token is our TPOT:
    `inter_token_latency_ms`, a mean over each request. An empty sample, which it reports as zeros, gives None."""
    entries = document["benchmarks"]
    assert isinstance(entries, list), "as `is_guidellm` found it"
    return [_level(entry, source) for entry in entries if isinstance(entry, Mapping)]


def _level(entry: Mapping[str, object], source: str) -> MeasuredLevel:
    metrics = mapping(entry, "metrics")
    totals = mapping(metrics, "request_totals")
    good = whole(totals.get("successful"))
    errors = whole(totals.get("errored"))
    return MeasuredLevel(
        source=source,
        concurrency=_streams(entry),
        input_tokens=_mean(metrics, "prompt_token_count"),
        output_tokens=_mean(metrics, "output_token_count"),
        requests=None if good is None else good + (errors or 0),
        errors=errors,
        output_tokens_per_s=_mean(metrics, "output_tokens_per_second"),
        requests_per_s=_mean(metrics, "requests_per_second"),
        ttft_ms=_spread(metrics, "time_to_first_token_ms"),
        tpot_ms=_spread(metrics, "inter_token_latency_ms"),
        e2e_ms=_spread(metrics, "request_latency", scale=1e3),
        model=text(mapping(entry, "config", "backend").get("model")),
        date=_day(number(entry.get("start_time"))),
    )


def _day(epoch_s: float | None) -> str | None:
    in_range = epoch_s is not None and 0 < epoch_s < 4e9
    return datetime.fromtimestamp(epoch_s, UTC).date().isoformat() if epoch_s is not None and in_range else None


def guidellm_strategy(entry: Mapping[str, object]) -> Mapping[str, object]:
    """How a level's requests were sent: `type_`, and its `streams` or `rate`."""
    return mapping(entry, "config", "strategy") or mapping(entry, "scheduler", "strategy")


def _streams(entry: Mapping[str, object]) -> int | None:
    """Streams of a closed loop; None for rates and for throughput runs, whose concurrency is whatever came."""
    strategy = guidellm_strategy(entry)
    if strategy.get("type_") == "synchronous":
        return 1
    return whole(strategy.get("streams")) if strategy.get("type_") == "concurrent" else None


def _successful(metrics: Mapping[str, object], metric: str) -> Mapping[str, object]:
    values = mapping(metrics, metric, "successful")
    return values if values.get("count") else {}


def _mean(metrics: Mapping[str, object], metric: str) -> float | None:
    return number(_successful(metrics, metric).get("mean"))


def _spread(metrics: Mapping[str, object], metric: str, scale: float = 1.0) -> Spread:
    values = _successful(metrics, metric)
    return spread_of(
        {**values, **mapping(values, "percentiles")}, {"mean": "mean", "max": "max", **_PERCENTILES}, scale
    )
