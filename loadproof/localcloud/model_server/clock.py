"""The engine's clock is passed in: wall time when serving, time of their own in tests."""

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
