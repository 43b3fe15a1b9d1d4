"""What the hash tree over its requests costs the client: its share of the process's CPU, in one run of load.

    .venv/bin/python tests/perf/hash_tree_cpu.py [--streams 16,64] [--seconds 20] [--tokens 64] [--pairs 0]

Against the truth server. Every append is timed where it happens, the reading of the clock included, which flatters
nobody; what it is divided by is the CPU of the client's process while it sends, judging left out. `--pairs` also runs
with and without the tree in turns: the difference holds whatever the timing does not see, and the machine's noise.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from unittest import mock

import truth_server
from truth_server import TOKENS

from loadproof.bench import job
from loadproof.bench.measure.hash_tree import HashTree
from loadproof.bench.objectives import Objective
from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens
from loadproof.loads import Load


class TimedTree(HashTree):
    spent_s = 0.0

    def append(self, line: bytes) -> None:
        began_s = time.thread_time()
        super().append(line)
        TimedTree.spent_s += time.thread_time() - began_s


class NoTree(HashTree):
    def append(self, line: bytes) -> None:
        pass


def measure(streams: int, seconds: float, tokens: int, tree: type[HashTree] = TimedTree) -> dict[str, float]:
    TimedTree.spent_s, whole_s = 0.0, 0.0

    def judged(folder: Path, **_: object) -> None:
        nonlocal whole_s
        whole_s = time.process_time() - began_s

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = truth_server.build(folder)
        with truth_server.running(program, folder, truth_server.tgi_pieces(tokens)) as server:
            spec = BenchmarkSpec(
                Target("sagemaker", "truth", "tgi", endpoint_url=f"http://127.0.0.1:{server.port}"),
                WorkloadSpec(fixed_tokens(64), fixed_tokens(tokens)),
                concurrency=(streams,),
                loads=(Load(concurrency=streams, duration_s=seconds),),
                requests_per_level=1,
                warmup_requests=0,
                objectives=(Objective("ttft_p95_ms", 200.0),),
            )
            with (
                mock.patch("loadproof.bench.measure.records.HashTree", tree),
                mock.patch.object(job, "_judged", judged),
            ):
                began_s = time.process_time()
                job.run_benchmark(spec, lambda line: None, folder / "run")
            server.stop()
        size = (folder / "run" / "requests.jsonl").stat().st_size
        count = (folder / "run" / "requests.jsonl").read_bytes().count(b"\n")
    return {
        "requests": count,
        "bytes_a_request": size / count,
        "client_cpu_ms_a_request": whole_s / count * 1e3,
        "tree_us_a_request": TimedTree.spent_s / count * 1e6,
        "tree_percent": TimedTree.spent_s / whole_s * 100,
    }


def pair(streams: int, seconds: float, tokens: int, number: int) -> float:
    """How much more of the processor a request takes with the tree, in percent; which goes first alternates."""
    trees: list[type[HashTree]] = [HashTree, NoTree]
    spent = {tree: measure(streams, seconds, tokens, tree) for tree in (trees if number % 2 else trees[::-1])}
    each_ms = [spent[tree]["client_cpu_ms_a_request"] for tree in trees]
    return (each_ms[0] / each_ms[1] - 1) * 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="16,64")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of each answer")
    parser.add_argument("--pairs", type=int, default=0, help="runs with and without the tree, in turns")
    arguments = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    for streams in map(int, arguments.streams.split(",")):
        try:
            figures = measure(streams, arguments.seconds, arguments.tokens)
        except truth_server.NoCompilerError as error:
            sys.exit(str(error))
        print(f"{streams} streams")
        for name, value in figures.items():
            print(f"{name:>24}  {value:,.3f}", flush=True)
        if arguments.pairs:
            shares = [pair(streams, arguments.seconds, arguments.tokens, at) for at in range(arguments.pairs)]
            spread = ", ".join(f"{share:+.1f}" for share in sorted(shares))
            print(f"{'paired_percent':>24}  {median(shares):+.2f} (of {spread})", flush=True)
        if figures["tree_percent"] > 1:
            sys.exit("the tree costs more than 1% of the client")


if __name__ == "__main__":
    main()
