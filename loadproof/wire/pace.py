"""The pace that all consumers of a buffer share: one record in the table of the claims, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

Gate = Literal["open", "no_capacity", "unavailable"]
RECORD_KEY: Final[dict[str, Any]] = {"id": {"S": "#pace"}}
RECOVERY_S: Final = 3.0


class Traffic(NamedTuple):
    """What all streams brought so far: `parts`; how long they were in flight in all, and of that `silent_ms` before
    their first part; how many have ended."""

    parts: int = 0
    busy_ms: int = 0
    silent_ms: int = 0
    ended: int = 0

    def since(self, before: Traffic) -> Traffic:
        return Traffic(*(now - then for now, then in zip(self, before, strict=True)))


_WHOLE: Final = (
    *("cut_ms", "answered_ms", "gate_ms", "probe_ms", "closed_ms", "served_ms", "answers", "time_outs", "timed_out_ms"),
    *("steered_ms", *Traffic._fields),
)


@dataclass(frozen=True, slots=True)
class Record:
    """What all consumers know. Times are Unix milliseconds."""

    peak: float = 1.0
    low: float = 1.0
    cut_ms: int = 0
    answered_ms: int = 0
    gate: Gate = "open"
    gate_ms: int = 0
    probe_ms: int = 0
    closed_ms: int = 0  # when it was closed first; `gate_ms` is when that was last found to be so
    served_ms: int = 0  # when the request had been sent whose answer opened it last
    answers: int = 0  # counted from a time-out on
    time_outs: int = 0
    timed_out_ms: int = 0
    top: float = 1.0  # the share that brings most, as far as the `steerer` has found; `steered_ms`: its last word
    steered_ms: int = 0
    steerer: str = ""
    parts: int = 0
    busy_ms: int = 0
    silent_ms: int = 0
    ended: int = 0

    @property
    def traffic(self) -> Traffic:
        return Traffic(self.parts, self.busy_ms, self.silent_ms, self.ended)

    def share(self, now_s: float) -> float:
        """Which part of all slots may invoke, at most 1."""
        return min(self.top, self.after_refusals(now_s))

    def after_refusals(self, now_s: float) -> float:
        """What they allow, at most 1: `peak + (peak - low) · x³`, `x = (now - cut) / 3 s - 1`."""
        x = (now_s - self.cut_ms / 1000) / RECOVERY_S - 1
        return min(1.0, self.peak + (self.peak - self.low) * x**3)


def record_of(item: Mapping[str, Any]) -> Record:
    """Out of DynamoDB's form; a field that was never written has its default."""
    return Record(
        peak=float(item["peak"]["N"]) if "peak" in item else 1.0,
        low=float(item["low"]["N"]) if "low" in item else 1.0,
        top=float(item["top"]["N"]) if "top" in item else 1.0,
        steerer=item["steerer"]["S"] if "steerer" in item else "",
        gate=item["gate"]["S"] if "gate" in item else "open",
        **{name: int(item[name]["N"]) for name in _WHOLE if name in item},
    )
