"""What every reader gives: load levels that somebody measured, whatever program measured them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loadproof.bench.measure.statistics import Spread

NOTHING = Spread()


@dataclass(frozen=True, slots=True)
class MeasuredLevel:
    """One level. Times in ms, rates per second; None (and a Spread of Nones) is what its file does not say.

    `tpot_ms` is (E2E - TTFT) / (output tokens - 1) of each request, whatever its file calls it. `concurrency` None:
    the load was not a closed loop of known size. `date` is the day of the measurement, `2026-11-21`. `simulated`: the
    endpoint was a local cloud's twin, whose times are predictions. `profile`: a steady state of that profile's load, by
    its name. `alike`: its requests were as long as each other, and nobody's second turn. `samples_ms`: a metric's
    figure of each request (ttft, tpot, e2e), where the file has those but not when each was sent.
    """

    source: str
    concurrency: int | None
    input_tokens: float | None = None
    output_tokens: float | None = None
    requests: int | None = None
    errors: int | None = None
    output_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    ttft_ms: Spread = NOTHING
    itl_ms: Spread = NOTHING
    tpot_ms: Spread = NOTHING
    e2e_ms: Spread = NOTHING
    cached_input_tokens: float | None = None
    model: str | None = None
    server: str | None = None
    instance_type: str | None = None
    instance_count: int | None = None
    tp_degree: int | None = None
    date: str | None = None
    simulated: bool = False
    profile: str | None = None
    alike: bool = False
    samples_ms: Mapping[str, Sequence[float]] = field(default_factory=dict)


def number(value: object) -> float | None:
    """A finite number, or None for anything else (text of a CSV file included)."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) < float("inf") else None


def whole(value: object) -> int | None:
    found = number(value)
    return None if found is None else round(found)


def text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def day(value: object) -> str | None:
    """`2026-11-21` of an ISO timestamp or of vLLM's `20261121-101500`."""
    found = text(value)
    if found is None or not found[:4].isdigit():
        return None
    plain = found[:10] if found[4:5] == "-" else f"{found[:4]}-{found[4:6]}-{found[6:8]}"
    parts = plain.split("-")
    return plain if len(parts) == 3 and [len(part) for part in parts] == [4, 2, 2] and plain[5:7].isdigit() else None


def spread_of(values: Mapping[str, object], names: Mapping[str, str], scale: float = 1.0) -> Spread:
    """A Spread from a file's own names: `names` maps a Spread's field to the key that holds it."""
    found = {field: number(values.get(key)) for field, key in names.items()}
    return Spread(**{field: None if value is None else value * scale for field, value in found.items()})


def mapping(value: object, *keys: str) -> Mapping[str, object]:
    """The map under nested `keys`; empty where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
