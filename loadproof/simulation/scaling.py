"""Application Auto Scaling in virtual time: what is measured, which policies look at it, how many copies they want.

As AWS documents it, with three assumptions it does not document: target tracking's alarms need 3 values in a row above
the target and 15 minutes in a row below 90% of it (what its alarms show in an account); 10-second values are seen at
once, 1-minute values 30 s after their minute; a policy on 10-second values scales in no faster than one on minutes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Literal, Protocol

Metric = Literal["concurrent_requests_per_copy", "invocations_per_copy"]

TICK_MS = 10_000.0
MINUTE_MS = 60_000.0
MINUTE_DELAY_MS = 30_000.0
VALUES_ABOVE = 3
MINUTES_BELOW = 15
LOW_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class TargetTracking:
    """Keeps `metric` at `target`: copies = ⌈load / target⌉, out at once, in when it was low for 15 minutes."""

    metric: Metric
    target: float
    scale_out_cooldown_s: float = 60.0
    scale_in_cooldown_s: float = 300.0
    scale_in: bool = True


@dataclass(frozen=True, slots=True)
class StepScaling:
    """Adds copies by how far `metric` is past `threshold`: `steps` are (from this far, copies), ascending."""

    metric: Metric
    threshold: float
    steps: tuple[tuple[float, int], ...]
    above: bool = True
    evaluation_periods: int = 1
    period_s: float = 60.0
    cooldown_s: float = 60.0


@dataclass(frozen=True, slots=True)
class WakeUp:
    """The first copy, after a minute in which a request found none."""

    cooldown_s: float = 60.0


Policy = TargetTracking | StepScaling | WakeUp


@dataclass(frozen=True, slots=True)
class BoundsChange:
    """A scheduled action: from `at_ms` on other bounds; None leaves one as it is."""

    at_ms: float
    min_copies: int | None = None
    max_copies: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """What CloudWatch got in the 10 s up to `at_ms`: requests in flight now, queued ones included, those that were
    sent to a copy, those that found none, and copies in service."""

    at_ms: float
    in_flight: int
    invocations: int
    without_capacity: int
    serving: int


class _Rule(Protocol):
    def wants(self, sample: Sample, desired: int) -> int | None: ...


class Autoscaler:
    """Looks every 10 s; `desired` copies is what the policies want, within the bounds of the hour.

    The largest wish to grow wins. Copies are taken away when no policy wants to grow and all that scale in agree.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        *,
        min_copies: int,
        max_copies: int,
        initial_copies: int | None = None,
        schedule: Iterable[BoundsChange] = (),
    ) -> None:
        self._rules = [_rule_of(policy) for policy in policies]
        self._shrinking = sum(isinstance(policy, TargetTracking) and policy.scale_in for policy in policies)
        self._min, self._max = min_copies, max_copies
        self._schedule = iter(schedule)
        self._change = next(self._schedule, None)
        self.desired = min(max(min_copies if initial_copies is None else initial_copies, min_copies), max_copies)

    @property
    def next_change_ms(self) -> float:
        return inf if self._change is None else self._change.at_ms

    def look(self, sample: Sample) -> int:
        """The desired copies after this sample."""
        proposals = [
            (rule, proposed) for rule in self._rules if (proposed := rule.wants(sample, self.desired)) is not None
        ]
        grow = [proposed for _, proposed in proposals if proposed > self.desired]
        shrink = [proposed for rule, proposed in proposals if proposed < self.desired and isinstance(rule, _Tracking)]
        stepped = [
            proposed for rule, proposed in proposals if proposed < self.desired and not isinstance(rule, _Tracking)
        ]
        if grow:
            self._move(max(grow))
        elif stepped:
            self._move(max(stepped))
        elif shrink and len(shrink) == self._shrinking:
            self._move(max(shrink))
        return self.desired

    def change_bounds(self, now_ms: float) -> int:
        """Apply what is scheduled until now; the desired copies after it."""
        while self._change is not None and self._change.at_ms <= now_ms:
            if self._change.min_copies is not None:
                self._min = self._change.min_copies
            if self._change.max_copies is not None:
                self._max = self._change.max_copies
            self._change = next(self._schedule, None)
        self._move(self.desired)
        return self.desired

    def _move(self, copies: int) -> None:
        self.desired = max(self._min, min(self._max, copies))


class _Series:
    """A metric's values as CloudWatch closes them: one for each period, the largest concurrency or the sum of
    invocations in it, divided by the copies in service. Periods without a copy have no value."""

    def __init__(self, metric: Metric, period_ms: float) -> None:
        self._metric = metric
        self._period_ms = period_ms
        self._value: float | None = None
        self._seen: deque[tuple[float, float | None]] = deque()  # (when it can be seen, value)

    def add(self, sample: Sample) -> list[float | None]:
        """The values that have become visible with this sample, oldest first."""
        if sample.serving:
            if self._metric == "concurrent_requests_per_copy":
                self._value = max(self._value or 0.0, sample.in_flight / sample.serving)
            else:
                self._value = (self._value or 0.0) + sample.invocations / sample.serving
        if sample.at_ms % self._period_ms < TICK_MS / 2:
            delay_ms = MINUTE_DELAY_MS if self._period_ms >= MINUTE_MS else 0.0
            self._seen.append((sample.at_ms + delay_ms, self._value))
            self._value = None
        visible = []
        while self._seen and self._seen[0][0] <= sample.at_ms:
            visible.append(self._seen.popleft()[1])
        return visible


class _Tracking:
    def __init__(self, policy: TargetTracking) -> None:
        self._policy = policy
        fast = policy.metric == "concurrent_requests_per_copy"
        self._out = _Series(policy.metric, TICK_MS if fast else MINUTE_MS)
        self._in = _Series(policy.metric, MINUTE_MS)
        self._above = 0
        self._low: deque[float] = deque(maxlen=MINUTES_BELOW)
        self._quiet_until_ms = 0.0  # no scale-in before

    def wants(self, sample: Sample, desired: int) -> int | None:
        policy, proposed = self._policy, None
        for value in self._out.add(sample):
            self._above = self._above + 1 if value is not None and value > policy.target else 0
            if value is not None and self._above >= VALUES_ABOVE:
                # The copies that are still starting count: only a load that needs more than them adds more.
                proposed = max(desired, ceil(sample.serving * value / policy.target - 1e-9))
                self._quiet_until_ms = sample.at_ms + policy.scale_out_cooldown_s * 1000
        for value in self._in.add(sample):
            if value is None or value >= LOW_SHARE * policy.target:
                self._low.clear()
            else:
                self._low.append(value)
        if proposed is not None or not policy.scale_in:
            return proposed
        if len(self._low) < MINUTES_BELOW or sample.at_ms < self._quiet_until_ms:
            return None
        proposed = ceil(sample.serving * max(self._low) / policy.target - 1e-9)
        if proposed < desired:
            self._quiet_until_ms = sample.at_ms + policy.scale_in_cooldown_s * 1000
        return proposed


class _Stepping:
    def __init__(self, policy: StepScaling) -> None:
        self._policy = policy
        self._series = _Series(policy.metric, policy.period_s * 1000)
        self._breaching = 0
        self._quiet_until_ms = 0.0

    def wants(self, sample: Sample, desired: int) -> int | None:
        policy, proposed = self._policy, None
        for value in self._series.add(sample):
            past = 0.0 if value is None else (value - policy.threshold) * (1 if policy.above else -1)
            self._breaching = self._breaching + 1 if value is not None and past > 0 else 0
            if self._breaching < policy.evaluation_periods or sample.at_ms < self._quiet_until_ms:
                continue
            add = max((step for step in policy.steps if step[0] <= past), default=(0.0, 0))[1]
            if add:
                proposed = max(0, desired + add)
                self._quiet_until_ms = sample.at_ms + policy.cooldown_s * 1000
        return proposed


class _Waking:
    def __init__(self, policy: WakeUp) -> None:
        self._cooldown_ms = policy.cooldown_s * 1000
        self._failed = 0
        self._due_ms = inf
        self._quiet_until_ms = 0.0

    def wants(self, sample: Sample, desired: int) -> int | None:
        self._failed += sample.without_capacity
        if sample.at_ms % MINUTE_MS < TICK_MS / 2:
            if self._failed and self._due_ms == inf:
                self._due_ms = sample.at_ms + MINUTE_DELAY_MS
            self._failed = 0
        if sample.at_ms < max(self._due_ms, self._quiet_until_ms):
            return None
        self._due_ms, self._quiet_until_ms = inf, sample.at_ms + self._cooldown_ms
        return max(desired, 1)


def _rule_of(policy: Policy) -> _Rule:
    if isinstance(policy, TargetTracking):
        return _Tracking(policy)
    return _Stepping(policy) if isinstance(policy, StepScaling) else _Waking(policy)
