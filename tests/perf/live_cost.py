"""What the live view and the `--live` stream cost the client: CPU of the same levels with and without, in one run.

    .venv/bin/python tests/perf/live_cost.py [--streams 64,256] [--pairs 10] [--seconds 6]

Levels of one run against the truth server come in pairs, one watched (full screen of 80 x 24 on a pseudo-terminal, JSON
lines into a file, the verdict so far) and one not, in an order drawn for each pair. CPU is that of the client's process
from a level's first request to its last line; its final judging, which both need, is in neither.
"""

from __future__ import annotations

import argparse
import os
import pty
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np
import truth_server
from rich.console import Console
from truth_server import ITL_MS, TOKENS, TTFT_MS

from loadproof.bench.job import run_benchmark
from loadproof.bench.live.meter import Meter
from loadproof.bench.live.stream import Stream
from loadproof.bench.live.view import View
from loadproof.bench.load import sweep
from loadproof.bench.objectives import Objective
from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens
from loadproof.loads import Load

REQUEST_S = (TTFT_MS + ITL_MS * (TOKENS - 1)) / 1e3


@dataclass
class Levels:
    """Makes each level's meter, a silent one for half of them, and keeps what each level took."""

    watched: list[bool]
    cpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)

    def meter(self, *given: object) -> Metered:
        return Metered(self, Meter(*given) if self.watched[len(self.cpu_s)] else None)  # type: ignore[arg-type]


@dataclass
class Metered:
    """A level with its figures; `meter` None: nobody watches."""

    levels: Levels
    meter: Meter | None
    cpu_s: float = field(default_factory=time.process_time)
    began_s: float = field(default_factory=time.monotonic)

    def add(self, record: object) -> None:
        if self.meter is not None:
            self.meter.add(record)  # type: ignore[arg-type]

    def arm(self) -> None:
        if self.meter is not None:
            self.meter.arm()

    def end(self) -> None:
        if self.meter is not None:
            self.meter.end()
        self.levels.cpu_s.append(time.process_time() - self.cpu_s)
        self.levels.wall_s.append(time.monotonic() - self.began_s)


def measure(streams: int, pairs: int, seconds: float) -> dict[str, float]:
    """Figures of one run of `pairs` pairs of levels."""
    order = random.Random(streams)
    watched = [kind for _ in range(pairs) for kind in order.sample((True, False), 2)]
    levels = Levels(watched)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, pieces = truth_server.build(folder), truth_server.tgi_pieces()
        with truth_server.running(program, folder, pieces) as server:
            requests = max(1, round(seconds / REQUEST_S)) * streams
            spec = BenchmarkSpec(
                Target("sagemaker", "truth", "tgi", endpoint_url=f"http://127.0.0.1:{server.port}"),
                WorkloadSpec(fixed_tokens(64), fixed_tokens(TOKENS)),
                concurrency=(streams,),
                loads=(Load(concurrency=streams, requests=requests),) * len(watched),
                requests_per_level=requests,
                warmup_requests=0,
                objectives=(
                    Objective("ttft_p95_ms", 200.0),
                    Objective("itl_p99_ms", 50.0),
                    Objective("e2e_p95_ms", 2e3),
                ),
            )
            ours, theirs = pty.openpty()
            with subprocess.Popen(["cat"], stdin=ours, stdout=subprocess.DEVNULL) as reader:
                with os.fdopen(theirs, "w") as file, mock.patch.object(sweep, "Meter", levels.meter):
                    console = Console(file=file, width=80, height=24, force_terminal=True, highlight=False)
                    with View(console, Stream(str(folder / "live.jsonl"))) as view:
                        run_benchmark(spec, view.tell, folder / "run")
                reader.kill()
            os.close(ours)
            server.stop()
            lines = len((folder / "live.jsonl").read_bytes().splitlines())
    return _figures(np.array(watched), np.array(levels.cpu_s), np.array(levels.wall_s)) | {"lines": lines}


def _figures(watched: np.ndarray, cpu_s: np.ndarray, wall_s: np.ndarray) -> dict[str, float]:
    with_it, without = cpu_s[watched], cpu_s[~watched]
    ratios = with_it / without
    drawn = np.random.default_rng(0).integers(0, len(ratios), (2000, len(ratios)))
    sums = with_it[drawn].sum(axis=1) / without[drawn].sum(axis=1)
    low, high = np.percentile(sums, (2.5, 97.5))
    return {
        "pairs": len(ratios),
        "cores_used": float(without.sum() / wall_s[~watched].sum()),
        "more_cpu_percent": float(with_it.sum() / without.sum() - 1) * 100,
        "low_percent": float(low - 1) * 100,
        "high_percent": float(high - 1) * 100,
        "median_percent": float(np.median(ratios) - 1) * 100,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="64,256")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=6.0)
    arguments = parser.parse_args()
    for streams in map(int, arguments.streams.split(",")):
        try:
            figures = measure(streams, arguments.pairs, arguments.seconds)
        except truth_server.NoCompilerError as error:
            sys.exit(str(error))
        print(f"{streams} streams, load average {os.getloadavg()[0]:.1f}")
        for name, value in figures.items():
            print(f"{name:>20}  {value:,.2f}")


if __name__ == "__main__":
    main()
