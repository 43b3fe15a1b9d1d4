"""A command with its CPU time and memory over time, children included."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

INTERVAL_S = 0.1
TICKS_PER_S, PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class SampledRun:
    """One command that ended. `times_ns` (CLOCK_MONOTONIC), `cpu_s` (user + system) and `rss_mb` go together."""

    stdout: str
    exit_code: int
    whole_cpu_s: float  # from its start to its end, by the kernel's account of it and its children
    times_ns: np.ndarray
    cpu_s: np.ndarray
    rss_mb: np.ndarray

    def cpu_s_at(self, time_ns: int) -> float:
        return float(np.interp(time_ns, self.times_ns, self.cpu_s))

    def rss_growth_mb_per_hour(self, from_ns: int, to_ns: int) -> float:
        """Slope of a straight line through the samples in the window; NaN for one of less than 20 s."""
        if to_ns - from_ns < 20e9:
            return float("nan")
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
            rss_mb = 0.0
            for one in _tree(process.pid):
                with suppress(OSError):
                    cpu_s_of[one], own_mb = _used(one)
                    rss_mb += own_mb
            rows.append((time.perf_counter_ns(), sum(cpu_s_of.values()), rss_mb))

    sampler = threading.Thread(target=sample)
    sampler.start()
    assert process.stdout is not None
    with process.stdout:
        stdout = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    ended.set()
    sampler.join()
    times, cpu, rss = zip(*rows, strict=True)
    whole_cpu_s = used.ru_utime + used.ru_stime
    return SampledRun(stdout, process.returncode, whole_cpu_s, np.array(times), np.array(cpu), np.array(rss))


def _tree(pid: int) -> Iterator[int]:
    """A process and all below it. Straight from /proc: looking around must not cost what is being measured."""
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def _used(pid: int) -> tuple[float, float]:
    """CPU seconds (user + system) and resident MB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S, int(fields[21]) * PAGE_BYTES / 2**20
