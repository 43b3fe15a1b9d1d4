"""FMBench (2.0): `all_metrics.csv`, a row for each round of concurrent requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from loadproof.bench.imports.levels import MeasuredLevel, number, text, whole
from loadproof.bench.measure.statistics import Spread

COLUMNS = ("experiment_name", "payload_file", "concurrency", "completion_token_throughput", "latency_mean")
_KEY = ("experiment_name", "instance_type", "payload_file", "concurrency")


def is_fmbench(columns: Sequence[str]) -> bool:
    return set(COLUMNS) <= set(columns)


def read_fmbench(rows: Sequence[Mapping[str, object]], source: str) -> list[MeasuredLevel]:
    """A level for each experiment, instance type, payload and concurrency; the means of its rounds, in file order.

    FMBench sends a round, waits for all of it and sends the next, so its throughput holds the wait for the slowest.
    Its times are in seconds; TTFT and TPOT are there only from 1.0.49 on, for streamed answers.
    """
    groups: dict[tuple[object, ...], list[Mapping[str, object]]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in _KEY), []).append(row)
    return [_level(group, source) for group in groups.values()]


def _level(rows: Sequence[Mapping[str, object]], source: str) -> MeasuredLevel:
    first = rows[0]
    good = [whole(row.get("transactions")) for row in rows]
    instance = text(first.get("instance_type"))
    return MeasuredLevel(
        source=f"{source} ({first.get('experiment_name')}, {first.get('payload_file')})",
        concurrency=whole(first.get("concurrency")),
        input_tokens=_mean(rows, "prompt_token_count_mean"),
        output_tokens=_mean(rows, "completion_token_count_mean"),
        requests=sum(count for count in good if count is not None) if any(good) else None,
        output_tokens_per_s=_mean(rows, "completion_token_throughput"),
        requests_per_s=_mean(rows, "transactions_per_second"),
        ttft_ms=Spread(mean=_ms(_mean(rows, "TTFT_mean"))),
        tpot_ms=Spread(mean=_ms(_mean(rows, "TPOT_mean"))),
        e2e_ms=Spread(mean=_ms(_mean(rows, "latency_mean"))),
        instance_type=instance if instance is None or instance.startswith("ml.") else f"ml.{instance}",
        instance_count=whole(first.get("instance_count")),
        tp_degree=whole(first.get("SM_NUM_GPUS")),
        model=_hub_id(text(first.get("HF_MODEL_ID"))),
    )


def _hub_id(name: str | None) -> str | None:
    """`HF_MODEL_ID` where it is an id; images with the model inside have a folder there."""
    return name if name and "/" in name and not name.startswith("/") else None


def _mean(rows: Sequence[Mapping[str, object]], column: str) -> float | None:
    found = [value for row in rows if (value := number(row.get(column))) is not None]
    return fmean(found) if found else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
