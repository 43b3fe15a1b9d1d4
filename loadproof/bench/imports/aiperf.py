"""AIPerf (0.13, export schema 1.4): `profile_export_aiperf.json`, one file a level."""

from __future__ import annotations

from collections.abc import Mapping

from loadproof.bench.imports.levels import MeasuredLevel, day, mapping, number, spread_of, text, whole
from loadproof.bench.measure.statistics import Spread

_NAMES = {"mean": "avg", **{name: name for name in ("p50", "p90", "p95", "p99", "max")}}
_MS_OF_UNIT = {"ms": 1.0, "s": 1e3, "sec": 1e3, "us": 1e-3, "ns": 1e-6}


def is_aiperf(document: object) -> bool:
    return isinstance(document, Mapping) and "aiperf_version" in document and "request_latency" in document


def read_aiperf(document: Mapping[str, object], source: str) -> list[MeasuredLevel]:
    """One level. Its `inter_token_latency` is a mean over each request's tokens after the first: our TPOT. What lies
    between single tokens is not in the file, so `itl_ms` stays empty."""
    errors = whole(mapping(document, "error_request_count").get("avg")) or 0
    good = whole(mapping(document, "request_count").get("avg"))
    return [
        MeasuredLevel(
            source=source,
            concurrency=_concurrency(mapping(document, "input_config")),
            input_tokens=number(mapping(document, "input_sequence_length").get("avg")),
            output_tokens=number(mapping(document, "output_sequence_length").get("avg")),
            requests=None if good is None else good + errors,
            errors=errors,
            output_tokens_per_s=number(mapping(document, "output_token_throughput").get("avg")),
            requests_per_s=number(mapping(document, "request_throughput").get("avg")),
            ttft_ms=_spread(document, "time_to_first_token"),
            tpot_ms=_spread(document, "inter_token_latency"),
            e2e_ms=_spread(document, "request_latency"),
            model=_model(mapping(document, "input_config")),
            date=day(document.get("start_time")),
        )
    ]


def _spread(document: Mapping[str, object], metric: str) -> Spread:
    values = mapping(document, metric)
    scale = _MS_OF_UNIT.get(str(values.get("unit")))
    return Spread() if scale is None else spread_of(values, _NAMES, scale)


def _concurrency(config: Mapping[str, object]) -> int | None:
    """Of the one profiling phase; before 0.13 it stood under `loadgen`."""
    phases = config.get("phases")
    listed = phases if isinstance(phases, list) else [phases] if phases else []
    found = [
        whole(phase.get("concurrency"))
        for phase in listed
        if isinstance(phase, Mapping) and phase.get("name") != "warmup" and phase.get("kind") != "warmup"
    ]
    return found[-1] if found else whole(mapping(config, "loadgen").get("concurrency"))


def _model(config: Mapping[str, object]) -> str | None:
    models = config.get("models")
    if isinstance(models, Mapping):
        models = models.get("items")
    if isinstance(models, list) and models:
        first = models[0]
        return text(first.get("name") if isinstance(first, Mapping) else first)
    return text(config.get("model"))
