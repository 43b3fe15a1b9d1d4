"""Metrics as lines of the log (CloudWatch's embedded metric format): no call, and none lost with a throttled API."""

from __future__ import annotations

import json
import threading
from typing import Final

NAMESPACE: Final = "Loadproof/Buffer"
UNITS: Final = {
    "Invocations": "Count",  # requests sent to the model
    "Stored": "Count",  # results written
    "DuplicatesAvoided": "Count",  # messages whose result was there already
    "WastedGenerations": "Count",  # answers that came second
    "Poisoned": "Count",
    "Expired": "Count",
    "Postponed": "Count",
    "Age": "Seconds",  # from the first send to the end of a turn, whatever the end
    "QueueWait": "Seconds",  # from the first send to the first invocation
}
_MOST_VALUES: Final = 100  # in one metric of one line


class Metrics:
    """Values of one process until the next flush. Thread-safe."""

    def __init__(self, buffer: str) -> None:
        self._buffer = buffer
        self._lock = threading.Lock()
        self._values: dict[str, list[float]] = {}

    def add(self, name: str, value: float = 1) -> None:
        """Counts are summed, durations kept one by one for their percentiles."""
        with self._lock:
            values = self._values.setdefault(name, [])
            if UNITS[name] == "Count" and values:
                values[0] += value
            else:
                values.append(value)

    def flush(self, now_s: float) -> list[str]:
        """The lines to print, and nothing is held any more."""
        with self._lock:
            values, self._values = self._values, {}
        lines = []
        while values:
            lines.append(self._line({name: held[:_MOST_VALUES] for name, held in values.items()}, now_s))
            values = {name: held[_MOST_VALUES:] for name, held in values.items() if len(held) > _MOST_VALUES}
        return lines

    def _line(self, values: dict[str, list[float]], now_s: float) -> str:
        metrics = [{"Name": name, "Unit": UNITS[name]} for name in values]
        shape = {"Namespace": NAMESPACE, "Dimensions": [["Buffer"]], "Metrics": metrics}
        told = {name: held[0] if len(held) == 1 else held for name, held in values.items()}
        head = {"_aws": {"Timestamp": int(now_s * 1000), "CloudWatchMetrics": [shape]}, "Buffer": self._buffer}
        return json.dumps(head | told)
