"""What the live view and the `--live` stream cost the client: CPU of one load's slices with and without, in one run.

    .venv/bin/python tests/perf/live_cost.py [--streams 64,256] [--pairs 50] [--slice-s 2.62]

One level against the truth server is cut into slices that come in pairs, one watched (full screen of 80 x 24 on a
pseudo-terminal, JSON lines into a file, the verdict so far) and one not, in an order drawn for each pair. CPU is that
of the client's process in a slice. The level's last verdict is in none: it is bounded as those before it are.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pty
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import truth_server
from rich.console import Console
from truth_server import ITL_MS, TOKENS, TTFT_MS

from loadproof.bench.job import run_benchmark
from loadproof.bench.live.meter import MOST_SHARE, Budget, Meter, Watch
from loadproof.bench.live.stream import Stream
from loadproof.bench.live.view import View
from loadproof.bench.load import sweep
from loadproof.bench.objectives import Objective
from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens
from loadproof.loads import Load

REQUEST_S = (TTFT_MS + ITL_MS * (TOKENS - 1)) / 1e3
SETTLE_S = 4.0  # the slots open over one request's time, so that no two are in step, and Python gets warm


@dataclass
class Switched:
    """A level's meter that is at work in every other slice, and what the slices took."""

    watched: list[bool]
    slice_s: float
    cores: list[float] = field(default_factory=list)
    meter: Meter | None = None
    on: bool = True
    unwatched_s: float = field(default_factory=time.process_time)

    def __call__(self, *given: Any) -> Switched:
        """In place of the class: the level's meter is made here."""
        watch: Watch = given[0]
        # What may be spent follows from the CPU of watched slices alone, as where all are watched.
        watch.lines, watch.verdicts = (Budget(MOST_SHARE, self._watched_s) for _ in range(2))
        self.meter = Meter(*given)
        return self

    def _watched_s(self) -> float:
        return time.process_time() - self.unwatched_s

    def add(self, record: object) -> None:
        if self.on and self.meter is not None:
            self.meter.add(record)  # type: ignore[arg-type]

    def arm(self) -> None:
        assert self.meter is not None
        self.meter.arm()
        asyncio.get_running_loop().call_later(SETTLE_S, self._next, None)

    def end(self) -> None:
        assert self.meter is not None
        self.meter.end()

    def _next(self, began: tuple[float, float] | None) -> None:
        assert self.meter is not None
        now_s = time.process_time()
        if began is not None:
            self.cores.append((now_s - began[0]) / (time.monotonic() - began[1]))
            self.unwatched_s += 0.0 if self.on else now_s - began[0]
        if len(self.cores) == len(self.watched):
            return
        if self.on:
            self.meter._timer.cancel()  # type: ignore[union-attr]
        self.on = self.watched[len(self.cores)]
        if self.on:
            self.meter.arm()
        asyncio.get_running_loop().call_later(self.slice_s, self._next, (time.process_time(), time.monotonic()))


@contextmanager
def terminal() -> Iterator[Console]:
    """A pseudo-terminal that another process reads, as a terminal's program does."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(["cat"], stdin=ours, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as reader:
        with os.fdopen(theirs, "w") as file:
            yield Console(file=file, width=80, height=24, force_terminal=True, highlight=False)
        reader.kill()
    os.close(ours)


def measure(streams: int, pairs: int, slice_s: float) -> dict[str, float]:
    order = random.Random(streams)
    switched = Switched([kind for _ in range(pairs) for kind in order.sample((True, False), 2)], slice_s)
    duration_s = SETTLE_S + 2 * pairs * slice_s * 1.05  # timers are late, and add up
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = truth_server.build(folder)
        with truth_server.running(program, folder, truth_server.tgi_pieces()) as server, terminal() as console:
            spec = BenchmarkSpec(
                Target("sagemaker", "truth", "tgi", endpoint_url=f"http://127.0.0.1:{server.port}"),
                WorkloadSpec(fixed_tokens(64), fixed_tokens(TOKENS)),
                concurrency=(streams,),
                loads=(Load(concurrency=streams, ramp_s=REQUEST_S, duration_s=duration_s),),
                requests_per_level=1,
                warmup_requests=0,
                objectives=(
                    Objective("ttft_p95_ms", 200.0),
                    Objective("itl_p99_ms", 50.0),
                    Objective("e2e_p95_ms", 2e3),
                ),
            )
            with mock.patch.object(sweep, "Meter", switched), View(console, Stream(str(folder / "live.jsonl"))) as view:
                run_benchmark(spec, view.tell, folder / "run")
            lines = len((folder / "live.jsonl").read_bytes().splitlines())
            server.stop()
    whole = len(switched.cores) // 2 * 2  # a busy machine does not come to all of them
    return _figures(np.array(switched.watched[:whole]), np.array(switched.cores[:whole])) | {"lines": lines}


def _figures(watched: np.ndarray, cores: np.ndarray) -> dict[str, float]:
    with_it, without = cores[watched], cores[~watched]
    drawn = np.random.default_rng(0).integers(0, len(without), (4000, len(without)))
    low, high = np.percentile(with_it[drawn].sum(axis=1) / without[drawn].sum(axis=1), (2.5, 97.5))
    return {
        "pairs": len(without),
        "cores_used": float(without.mean()),
        "more_cpu_percent": float(with_it.sum() / without.sum() - 1) * 100,
        "low_percent": float(low - 1) * 100,
        "high_percent": float(high - 1) * 100,
        "median_percent": float(np.median(with_it / without) - 1) * 100,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="64,256")
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--slice-s", type=float, default=2 * REQUEST_S)
    arguments = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    for streams in map(int, arguments.streams.split(",")):
        try:
            figures = measure(streams, arguments.pairs, arguments.slice_s)
        except truth_server.NoCompilerError as error:
            sys.exit(str(error))
        print(f"{streams} streams, load average {os.getloadavg()[0]:.1f}")
        for name, value in figures.items():
            print(f"{name:>20}  {value:,.2f}", flush=True)


if __name__ == "__main__":
    main()
