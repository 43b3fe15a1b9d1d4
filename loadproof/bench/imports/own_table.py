"""Our own table: the columns of `loadproof predict` with what was measured beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadproof.bench.imports.levels import MeasuredLevel, number, text, whole
from loadproof.bench.measure.statistics import Spread
from loadproof.errors import InputError

NEEDED = ("input_tokens", "output_tokens", "concurrency")
MEASURED = (
    "measured_throughput_tok_s",
    "measured_latency_mean_ms_per_token",
    "measured_latency_p90_ms_per_token",
    "measured_ttft_ms",
    "measured_tpot_ms",
)


def is_own_table(columns: Sequence[str]) -> bool:
    return set(NEEDED) <= set(columns) and bool(set(MEASURED) & set(columns))


def read_own_table(rows: Sequence[Mapping[str, object]], source: str) -> list[MeasuredLevel]:
    """A level for each row that has a measured figure. Raises InputError, with the line, for a count that is none."""
    return [
        _level(row, f"{source}:{line}")
        for line, row in enumerate(rows, start=2)
        if any(number(row.get(name)) is not None for name in MEASURED)
    ]


def _level(row: Mapping[str, object], place: str) -> MeasuredLevel:
    for name in NEEDED:
        value = number(row.get(name))
        if value is None or value < 1:
            raise InputError(f"{place}: {name}: expected a number of at least 1, found `{row.get(name) or ''}`")
    if (in_flight := number(row.get("concurrency"))) != whole(in_flight):
        raise InputError(f"{place}: concurrency: expected a whole number, found `{row.get('concurrency')}`")
    for name in MEASURED:
        if (figure := number(row.get(name))) is not None and figure < 0:
            raise InputError(f"{place}: {name}: expected a number above 0, found `{row.get(name)}`")
    output_tokens = number(row.get("output_tokens"))
    e2e = {
        name: None if (value := number(row.get(f"measured_latency_{name}_ms_per_token"))) is None or not output_tokens
        else value * output_tokens
        for name in ("mean", "p90")
    }  # fmt: skip
    return MeasuredLevel(
        source=place,
        concurrency=whole(row.get("concurrency")),
        input_tokens=number(row.get("input_tokens")),
        output_tokens=output_tokens,
        output_tokens_per_s=number(row.get("measured_throughput_tok_s")),
        ttft_ms=Spread(mean=number(row.get("measured_ttft_ms"))),
        tpot_ms=Spread(mean=number(row.get("measured_tpot_ms"))),
        e2e_ms=Spread(**e2e),
        cached_input_tokens=number(row.get("cached_input_tokens")),
        model=text(row.get("model")),
        server=text(row.get("server")),
        instance_type=text(row.get("instance_type")),
        instance_count=whole(row.get("instance_count")),
        tp_degree=whole(row.get("tp_degree")),
    )
