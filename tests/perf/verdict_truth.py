"""Are verdicts right on a machine that is busy? Whole runs against the truth server, with cores burned beside them.

    .venv/bin/python tests/perf/verdict_truth.py [--burned 1] [--rounds 1] [--write]

Each run is judged by bounds that the endpoint meets by far, just meets, just misses or misses by far, on TTFT and E2E
(100 ms and more). The server's log of that very run is the truth: PASS is wrong where its percentile exceeds the
bound, FAIL where it does not. `--write` puts the table into docs/benchmark.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import truth_server

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmark.md"
BEGIN, END = "<!-- verdict_truth.py -->\n", "<!-- end of verdict_truth.py -->\n"
GAP_MS = 20.0
STREAMS = ((2, 20, "p90"), (8, 6, "p90"), (32, 3, "p95"), (64, 3, "p95"))  # in flight, rounds, statistic
FACTORS = (0.3, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 3.0)  # of bound over what the server was told to do
VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")


@dataclass(frozen=True, slots=True)
class Judged:
    """One objective of one run: what was said, and what the server's log says."""

    streams: int
    name: str
    factor: float
    bound_ms: float
    truth_ms: float
    observed_ms: float
    share_ms: float
    verdict: str
    run_verdict: str
    offered: float

    @property
    def wrong(self) -> bool:
        met = self.truth_ms <= self.bound_ms
        return (self.verdict == "PASS" and not met) or (self.verdict == "FAIL" and met)


@contextmanager
def burned(cores: int) -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def run_once(program: Path, streams: int, rounds: int, statistic: str, factor: float, ttft_ms: float) -> list[Judged]:
    """One closed loop against a server of its own, with a bound on TTFT and one on E2E."""
    tokens = 16 if streams == STREAMS[0][0] else 40
    e2e_ms = ttft_ms + GAP_MS * (tokens - 1)
    bounds = {f"ttft_{statistic}_ms": factor * ttft_ms, f"e2e_{statistic}_ms": factor * e2e_ms}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pieces = truth_server.tgi_pieces(tokens)
        with truth_server.running(program, folder, pieces, ttft_ms=ttft_ms, gap_ms=GAP_MS) as server:
            words = f"bench --target sagemaker://truth --endpoint-url http://localhost:{server.port} --protocol tgi "
            words += f"--warmup 0 --concurrency {streams} --requests-per-level {rounds * streams} --format json "
            words += f"--output-tokens {tokens} --out {folder / 'run'}"
            for bound in bounds.items():
                words += " --objective {}={:g}".format(*bound)
            keys = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
            command = [sys.executable, "-c", "from loadproof.cli.main import main; main()", *words.split()]
            said = subprocess.run(command, env=os.environ | keys, capture_output=True, text=True, check=False)
            truth = server.stop()
    if not said.stdout:
        raise SystemExit(said.stderr)
    summary = json.loads(said.stdout)
    rank = float(statistic[1:])
    e2e = (truth.sent_ns[:, -1] - truth.arrived_ns) / 1e6
    truths = {"ttft": float(np.percentile(truth.ttft_ms(), rank)), "e2e": float(np.percentile(e2e, rank))}
    return [
        Judged(
            streams, row["name"], factor, row["bound"], truths[row["name"].split("_")[0]], row["observed"],
            row["client_share"], row["verdict"], summary["verdict"]["outcome"], summary["levels"][0]["offered"],
        )
        for row in summary["objectives"]
    ]  # fmt: skip


def table(found: Sequence[Judged], cores: int) -> str:
    """Verdicts by how far the bound is from what the server did."""
    runs = len(found) // 2
    lines = [
        f"{runs} runs with {cores} of {os.cpu_count()} cores burned beside them, two objectives each, "
        f"{sum(one.wrong for one in found)} verdicts wrong.\n",
        "| in flight | bound over truth | objectives | PASS | FAIL | INCONCLUSIVE | INVALID | wrong | "
        "client's share, median / most | load offered, least |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    kinds = {
        "missed by far (0.3)": (0.3,), "missed (0.8, 0.9)": (0.8, 0.9), "just missed (0.95)": (0.95,),
        "just met (1.05)": (1.05,), "met (1.1, 1.25)": (1.1, 1.25), "met by far (3)": (3.0,),
    }  # fmt: skip
    for streams, *_ in STREAMS:
        for words, factors in kinds.items():
            ours = [one for one in found if one.streams == streams and one.factor in factors]
            if not ours:
                continue
            counts = Counter(one.verdict for one in ours)
            shares = [one.share_ms for one in ours]
            cells = [streams, words, len(ours), *(counts[one] for one in VERDICTS), sum(one.wrong for one in ours)]
            cells += [f"{np.median(shares):.1f} / {max(shares):.1f} ms", f"{min(one.offered for one in ours):.1%}"]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--burned", type=int, default=1, help="cores")
    parser.add_argument("--rounds", type=int, default=1, help="over all cases")
    parser.add_argument("--write", action="store_true", help=f"the table into {PAGE.name}")
    given = parser.parse_args()
    found: list[Judged] = []
    with tempfile.TemporaryDirectory() as name, burned(given.burned):
        program = truth_server.build(Path(name))
        for number in range(given.rounds):
            for place, factor in enumerate(FACTORS):
                for streams, rounds, statistic in STREAMS:
                    ttft_ms = 400.0 if (place + number) % 2 else 350.0  # 0.3 of it is 100 ms and more
                    found += run_once(program, streams, rounds, statistic, factor, ttft_ms)
                    for one in found[-2:]:
                        print(one, "WRONG" if one.wrong else "", file=sys.stderr)
    text = table(found, given.burned)
    print(text)
    if given.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
