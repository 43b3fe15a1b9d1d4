"""Records for tests, in milliseconds and with every default harmless."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from loadproof.bench.measure.records import RequestRecord

MS = 1_000_000


def record(
    index: int = 0,
    *,
    intended_ms: float = 0,
    token_ms: tuple[float, ...] = (),
    end_ms: float = 0,
    lag_ms: float = 0,
    output_tokens: int | None = None,
    outcome: str = "ok",
    **others: object,
) -> RequestRecord:
    times = tuple(round(time * MS) for time in token_ms)
    intended = round(intended_ms * MS)
    sent = intended + round(lag_ms * MS)
    fields: dict = {
        "phase": "measured",
        "session": 0,
        "level": 0,
        "concurrency": 1,
        "index": index,
        "intended_ns": intended,
        "dispatched_ns": sent,
        "sent_ns": sent,
        "first_token_ns": times[0] if times else None,
        "last_token_ns": times[-1] if times else None,
        "end_ns": round(end_ms * MS),
        "token_times_ns": array("q", times),
        "tokens_at": array("q", [1]) * len(times),
        "planned_input_tokens": 10,
        "planned_output_tokens": len(times),
        "input_tokens": None,
        "output_tokens": len(times) if output_tokens is None else output_tokens,
        "token_source": "server",
        "stalls_ns": (),
        "outcome": outcome,
    }
    return RequestRecord(**(fields | others))


def autoregressive(phi: float, size: int, seed: int) -> np.ndarray:
    """Variance 1; each is `phi` of the one before."""
    values = np.random.default_rng(seed).standard_normal(size)
    for before, after in pairwise(range(size)):
        values[after] = phi * values[before] + (1 - phi**2) ** 0.5 * values[after]
    return values


def grouped(per_request: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Samples request after request, and where each one's end."""
    arrays = list(per_request)
    values = np.concatenate(arrays) if arrays else np.empty(0)
    return values, np.cumsum([array.size for array in arrays], dtype=np.int64)
