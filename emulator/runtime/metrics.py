"""The runtime's own CloudWatch data, collected in memory and handed over every few seconds, never on the hot path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from emulator.directory import Directory

NAMESPACE = "AWS/SageMaker"
# CloudWatch keeps statistics, not requests: past this many latencies per flush a sample is as good.
_MAX_LATENCIES_PER_FLUSH = 500


@dataclass(slots=True)
class _Collected:
    invocations: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    model_latency_us: list[float] = field(default_factory=list)
    overhead_latency_us: list[float] = field(default_factory=list)


# The key is the sorted dimensions of the variant or the component.
Collected = dict[tuple[tuple[str, str], ...], _Collected]


class Metrics:
    """Counts and latencies per resource."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._collected: Collected = {}

    def invoked(self, dimensions: Mapping[str, str], model_us: float, overhead_us: float, error: str | None) -> None:
        """One invocation ended. Latencies in microseconds; `error` names an error metric, None when all was well."""
        found = self._collected.setdefault(tuple(sorted(dimensions.items())), _Collected())
        found.invocations += 1
        if error is not None:
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
        """What was collected since the last take, for `hand_over`. On the event loop's thread, like `invoked`."""
        collected, self._collected = self._collected, {}
        return collected

    def hand_over(self, collected: Collected) -> None:
        """Put the data into CloudWatch, one by one. From any thread."""
        for key, found in collected.items():
            dimensions = dict(key)
            self._record("Invocations", float(found.invocations), dimensions)
            for name, count in found.errors.items():
                self._record(name, float(count), dimensions)
            for name, values in (
                ("ModelLatency", found.model_latency_us),
                ("OverheadLatency", found.overhead_latency_us),
            ):
                for value in values:
                    self._record(name, value, dimensions)

    def _record(self, name: str, value: float, dimensions: Mapping[str, str]) -> None:
        self._directory.record_metric(NAMESPACE, name, value, dimensions)
