"""What happens by itself: metrics are published, alarms evaluated, policies applied, schedules run.

One turn every 10 s of the cloud's clock, always in that order, so that an alarm sees the period that has just ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.autoscaling import AutoScalingApi
from loadproof.localcloud.controlplane.cloudwatch import CloudWatchApi, MetricStore
from loadproof.localcloud.controlplane.cloudwatch.queues import put_queue_metrics
from loadproof.localcloud.controlplane.schedules import Schedules
from loadproof.localcloud.queue.sqs.service import SqsService

PERIOD_S = 10.0  # of high-resolution metrics
_MINUTE_S = 60.0
_IDLE_WALL_S = 1.0  # between turns while nothing waits for any
_LATE_WALL_S = 0.005  # a turn comes this long after its period has ended


class Pulse:
    """`turn` in any one thread; `publish` hands over what the runtime counted."""

    def __init__(
        self,
        clock: CloudClock,
        store: MetricStore,
        cloudwatch: CloudWatchApi,
        autoscaling: AutoScalingApi,
        schedules: Schedules,
        sqs: SqsService,
    ) -> None:
        self._clock, self._store, self._sqs = clock, store, sqs
        self._cloudwatch, self._autoscaling, self._schedules = cloudwatch, autoscaling, schedules
        self._minute = 0

    def pause_s(self) -> float:
        """Seconds on the wall until the next turn."""
        busy = self._cloudwatch.watched or self._autoscaling.watched
        period_s = PERIOD_S if busy else PERIOD_S * math.ceil(_IDLE_WALL_S * self._clock.speed / PERIOD_S)
        return (period_s - self._clock.now_s() % period_s) / self._clock.speed + _LATE_WALL_S

    def turn(self, publish: Callable[[float], None] | None = None) -> None:
        """`publish(at_s)` puts the runtime's data at the beginning of the period that has just ended."""
        now_s = self._clock.now_s()
        if publish is not None:
            publish((now_s // PERIOD_S - 1) * PERIOD_S)
        if int(now_s // _MINUTE_S) != self._minute:
            self._minute = int(now_s // _MINUTE_S)
            put_queue_metrics(self._store, self._sqs, (self._minute - 1) * _MINUTE_S, self._clock.speed)
        if self._cloudwatch.watched:
            self._cloudwatch.evaluate()
        if self._autoscaling.watched:
            self._autoscaling.apply()
        self._schedules.turn()
