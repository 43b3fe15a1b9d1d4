"""The runtime's own CloudWatch data, collected in memory and handed over every few seconds, never on the hot path.

Names, dimensions and units are SageMaker's. Latencies are microseconds. ConcurrentRequestsPerCopy and its sibling for
plain variants count a request until its last token, queued ones included, divided by the copies in service; what is
idle publishes zeros, so that policies can scale it in.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from loadproof.localcloud.directory import Directory
from loadproof.localcloud.runtime.target import Target

NAMESPACE = "AWS/SageMaker"
# CloudWatch keeps statistics, not requests: past this many latencies per hand-over a sample is as good.
_MAX_LATENCIES_PER_FLUSH = 200
ERRORS = ("Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors", "MidStreamErrors")
_UNITS = {"ModelLatency": "Microseconds", "OverheadLatency": "Microseconds"}


@dataclass(slots=True)
class _Collected:
    invocations: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    model_latency_us: list[float] = field(default_factory=list)
    overhead_latency_us: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Concurrency:
    """Requests in flight of one component or plain variant: now, and the most and least since the last hand-over.

    `per_copy` is the sum over the invocations that ended of 1 / copies: AWS's InvocationsPerCopy.
    """

    now: int = 0
    most: int = 0
    least: int = 0
    per_copy: float = 0.0


@dataclass(frozen=True, slots=True)
class Collected:
    """What was counted since the last hand-over: by sorted dimensions, and by a target's key."""

    invocations: dict[tuple[tuple[str, str], ...], _Collected]
    concurrency: dict[str, Concurrency]


class Invocation:
    """One invocation under way. Set `handed_s` when it reached its copy, `errors` to the error metrics it counts in."""

    __slots__ = ("begun_s", "errors", "handed_s")

    def __init__(self) -> None:
        self.begun_s = self.handed_s = time.perf_counter()
        self.errors: tuple[str, ...] = ()


class Metrics:
    """Counts and latencies per resource."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._collected: dict[tuple[tuple[str, str], ...], _Collected] = {}
        self._concurrency: dict[str, Concurrency] = {}

    @contextmanager
    def counting(self, found: Target) -> Iterator[Invocation]:
        """One invocation, from its arrival at the endpoint to its last token."""
        running = self._concurrency.setdefault(found.key, Concurrency())
        running.now += 1
        running.most = max(running.most, running.now)
        call = Invocation()
        try:
            yield call
        finally:
            running.now -= 1
            running.least = min(running.least, running.now)
            running.per_copy += 1 / max(1, found.copies)
            ended_s = time.perf_counter()
            for dimensions in found.dimensions:
                self._ended(
                    dimensions, (ended_s - call.handed_s) * 1e6, (call.handed_s - call.begun_s) * 1e6, call.errors
                )

    def _ended(
        self, dimensions: Mapping[str, str], model_us: float, overhead_us: float, errors: tuple[str, ...]
    ) -> None:
        found = self._collected.setdefault(tuple(sorted(dimensions.items())), _Collected())
        found.invocations += 1
        for error in errors:
            found.errors[error] = found.errors.get(error, 0) + 1
        if len(found.model_latency_us) < _MAX_LATENCIES_PER_FLUSH:
            found.model_latency_us.append(model_us)
            found.overhead_latency_us.append(overhead_us)

    def no_capacity(self, component: str) -> None:
        """Recorded at once: scaling from zero waits for exactly this datum."""
        self._directory.record_metric(
            NAMESPACE, "NoCapacityInvocationFailures", 1.0, {"InferenceComponentName": component}
        )

    def take(self) -> Collected:
        """What was collected since the last take, for `hand_over`. On the event loop's thread, like `counting`."""
        taken = Collected(
            self._collected,
            {key: Concurrency(one.now, one.most, one.least, one.per_copy) for key, one in self._concurrency.items()},
        )
        self._collected = {}
        for key, one in list(self._concurrency.items()):
            if one.now:
                one.most = one.least = one.now
                one.per_copy = 0.0
            else:
                del self._concurrency[key]
        return taken

    def hand_over(self, collected: Collected, serving: Iterable[Target], at_s: float | None = None) -> None:
        """Put the data into CloudWatch at `at_s` of the cloud's clock; `serving` are all targets with copies.

        From any thread.
        """
        for key, found in collected.invocations.items():
            dimensions = dict(key)
            self._record("Invocations", float(found.invocations), dimensions, at_s)
            for name in ERRORS:  # a 1 for every failure and a 0 for every other invocation, so that averages are shares
                failed = found.errors.get(name, 0)
                for value, count in ((1.0, failed), (0.0, found.invocations - failed)):
                    if count:
                        self._record(name, value, dimensions, at_s, count)
            for name, values in (
                ("ModelLatency", found.model_latency_us),
                ("OverheadLatency", found.overhead_latency_us),
            ):
                for value in values:
                    self._record(name, value, dimensions, at_s)
        idle = Concurrency()
        for target in serving:
            if target.copies:
                self._record_load(target, collected.concurrency.get(target.key, idle), at_s)

    def _record_load(self, target: Target, load: Concurrency, at_s: float | None) -> None:
        """What the scaling policies look at, for each copy (a component's) or instance (a plain variant's)."""
        of_component = target.component_name is not None
        concurrency = "ConcurrentRequestsPerCopy" if of_component else "ConcurrentRequestsPerModel"
        dimensions = target.dimensions[0]
        for requests in sorted({load.least, load.most}):
            self._record(concurrency, requests / target.copies, dimensions, at_s)
        invocations = "InvocationsPerCopy" if of_component else "InvocationsPerInstance"
        self._record(invocations, load.per_copy, dimensions, at_s)

    def _record(
        self, name: str, value: float, dimensions: Mapping[str, str], at_s: float | None, count: int = 1
    ) -> None:
        self._directory.record_metric(
            NAMESPACE, name, value, dimensions, unit=_UNITS.get(name, "None"), at_s=at_s, count=count
        )
