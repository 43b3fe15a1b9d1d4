"""A command with its CPU time and memory over time, children included."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import psutil

INTERVAL_S = 0.05


@dataclass(frozen=True, slots=True)
class SampledRun:
    """One command that ended. `times_ns` (CLOCK_MONOTONIC), `cpu_s` (user + system) and `rss_mb` go together."""

    stdout: str
    exit_code: int
    times_ns: np.ndarray
    cpu_s: np.ndarray
    rss_mb: np.ndarray

    def cpu_s_at(self, time_ns: int) -> float:
        return float(np.interp(time_ns, self.times_ns, self.cpu_s))

    def rss_growth_mb_per_hour(self, from_ns: int, to_ns: int) -> float:
        """Slope of a straight line through the samples in the window."""
        window = (self.times_ns >= from_ns) & (self.times_ns <= to_ns)
        hours = (self.times_ns[window] - from_ns) / 3.6e12
        return float(np.polyfit(hours, self.rss_mb[window], 1)[0])


def run_sampled(
    command: list[str], environment: dict[str, str] | None = None, before: Callable[[], None] | None = None
) -> SampledRun:
    """Run to its end; stderr passes through. Processes that ended keep counting with the last that was seen of them."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, preexec_fn=before)
    rows: list[tuple[int, float, float]] = []
    cpu_s_of: dict[int, float] = {}
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(INTERVAL_S):
            with suppress(psutil.Error):
                root = psutil.Process(process.pid)
                rss = 0
                for one in (root, *root.children(recursive=True)):
                    with suppress(psutil.Error), one.oneshot():
                        used = one.cpu_times()
                        cpu_s_of[one.pid] = used.user + used.system
                        rss += one.memory_info().rss
                rows.append((time.perf_counter_ns(), sum(cpu_s_of.values()), rss / 2**20))

    sampler = threading.Thread(target=sample)
    sampler.start()
    stdout, _ = process.communicate()
    ended.set()
    sampler.join()
    times, cpu, rss = zip(*rows, strict=True)
    return SampledRun(stdout, process.returncode, np.array(times), np.array(cpu), np.array(rss))
