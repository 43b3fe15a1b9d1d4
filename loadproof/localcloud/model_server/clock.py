"""The engine's clock is passed in: wall time when serving, virtual time in tests."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Milliseconds from an arbitrary start, never going back."""

    def now_ms(self) -> float: ...

    async def sleep_until(self, deadline_ms: float) -> None:
        """Return at or after the deadline; always yields to other tasks at least once."""
        ...


class WallClock:
    """The machine's monotonic clock."""

    def now_ms(self) -> float:
        return time.monotonic() * 1000.0

    async def sleep_until(self, deadline_ms: float) -> None:
        await asyncio.sleep(max(0.0, deadline_ms / 1000.0 - time.monotonic()))


class VirtualClock:
    """Time that passes only when somebody sleeps: a test's hour takes a millisecond and is exact."""

    # Turns of the event loop given to the consumers of a step's tokens before time moves on.
    _TURNS = 20

    def __init__(self) -> None:
        self._now_ms = 0.0

    def now_ms(self) -> float:
        return self._now_ms

    async def sleep_until(self, deadline_ms: float) -> None:
        for _ in range(self._TURNS):
            await asyncio.sleep(0)
        self._now_ms = max(self._now_ms, deadline_ms)
