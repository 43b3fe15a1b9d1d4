"""The local cloud's clock: seconds since the epoch, which may pass faster than the wall's."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

MOST_SPEED = 100.0  # a 10 s period of CloudWatch then takes 0.1 s


class CloudClock:
    """Starts with the wall's time and runs `speed` times as fast. A test passes its own `seconds`.

    Everything that AWS does by time reads it: transitions, periods, cooldowns, schedules. What a client is told, it is
    told in the wall's time, so that it fits the client's own records.
    """

    def __init__(
        self,
        speed: float = 1.0,
        *,
        seconds: Callable[[], float] = time.monotonic,
        epoch_s: float | None = None,
    ) -> None:
        self.speed = speed
        self._seconds = seconds
        self._zero_s = seconds()
        self._epoch_s = time.time() if epoch_s is None else epoch_s

    @property
    def epoch_s(self) -> float:
        """The time at which it left the wall's."""
        return self._epoch_s

    def now_s(self) -> float:
        """The cloud's time."""
        return self._epoch_s + (self._seconds() - self._zero_s) * self.speed

    def wall_s(self, cloud_s: float) -> float:
        """The wall's time at which the cloud's clock shows `cloud_s`."""
        return cloud_s if self.speed == 1 else self._epoch_s + (cloud_s - self._epoch_s) / self.speed

    def cloud_s(self, wall_s: float) -> float:
        """What the cloud's clock shows at the wall's time `wall_s`."""
        return wall_s if self.speed == 1 else self._epoch_s + (wall_s - self._epoch_s) * self.speed

    def wall(self, cloud_s: float) -> datetime:
        """As `wall_s`, for an answer to a client."""
        return datetime.fromtimestamp(self.wall_s(cloud_s), UTC)

    def calendar(self, cloud_s: float) -> datetime:
        """The cloud's own date and time: what schedules go by."""
        return datetime.fromtimestamp(cloud_s, UTC)


class StillClock(CloudClock):
    """Time that passes only by `advance`."""

    def __init__(self, epoch_s: float = 0.0) -> None:
        self._now_s = epoch_s
        super().__init__(seconds=lambda: self._now_s, epoch_s=epoch_s)

    def advance(self, seconds: float) -> None:
        self._now_s += seconds
