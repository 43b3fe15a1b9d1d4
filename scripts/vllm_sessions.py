"""Calibrate on a real vLLM's single turns, predict six-turn conversations over its cache of prompts, and write
docs/accuracy-sessions.md.

    .venv/bin/python scripts/vllm_sessions.py --rounds 3

Serves a tiny random model, a letter a token, on this machine's CPU, and drives it with our own benchmark in chat
messages. How much of the prompts was found is the server's own count (`vllm:prefix_cache_hits`). The calibration sees
single requests only; what is predicted is the twin's, over a cache of the size that the server was given. Runs are
interleaved, and of each case that half counts in which other processes took least of the machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from vllm_study import (
    BIN,
    HARDWARE,
    NICE,
    REPOSITORY,
    others_of,
    percentiles,
    pinned,
    rounds_of,
    served,
    study,
    vector_units,
    vllm_version,
    watched,
)

from loadproof.bench.measure.records import RequestRecord, read_records
from loadproof.capacity import StepTimes, deployment_of
from loadproof.capacity.memory import batch_limits
from loadproof.profiles import load_profile
from loadproof.sessions import Mixture, SessionClass, Step
from loadproof.simulation import ClosedLoop, SimulatedRequest, scheduler_for, simulate_fleet
from loadproof.simulation.routing import Prefixes
from loadproof.simulation.sizes import so_many
from loadproof.simulation.traffic import JITTER_MS
from loadproof.token_counts import TokenCounts

PROFILE = REPOSITORY / "scripts" / "real_server" / "sessions.yaml"
PAGE = REPOSITORY / "docs" / "accuracy-sessions.md"
TURNS, PROMPT, ANSWER, BLOCK = 6, 200, 48, 32
SINGLE = ((1, PROMPT), (2, PROMPT), (4, PROMPT), (1, 5 * PROMPT), (4, 5 * PROMPT))  # (in flight, prompt tokens)
AMPLE, TIGHT = 2048, 192  # blocks of the server's cache
BARS = 0.03, 0.15, 0.25  # of the hit rate in points, of TTFT p50 and p95


@dataclass(frozen=True, slots=True)
class Case:
    """Conversations held at once, the reader's seconds, and the blocks that the server's cache has."""

    sessions: int
    think_s: float
    blocks: int

    @property
    def folder(self) -> str:
        return f"talk-{self.sessions}-{self.think_s:g}-{self.blocks}"

    @property
    def words(self) -> str:
        think = f", {self.think_s:g} s of thought" if self.think_s else ""
        return f"{self.sessions} held{think}, cache of {self.blocks * BLOCK:,} tokens"


CASES = (Case(1, 0, AMPLE), Case(4, 0, AMPLE), Case(8, 0, AMPLE), Case(8, 2, AMPLE), Case(8, 2, TIGHT))


@dataclass(frozen=True, slots=True)
class Figures:
    """Share of prompt tokens found in the cache; TTFT in ms."""

    found: float
    p50_ms: float
    p95_ms: float


def main() -> None:
    study(str(__doc__), "vllm-sessions", PAGE, measure, report)


def measure(work: Path, rounds: int) -> None:
    """`rounds` runs of every single level and of every case into `work`."""
    for blocks in (AMPLE, TIGHT):
        options = ("--max-model-len", "2048", "--enable-prefix-caching", "--block-size", str(BLOCK))
        with served(work, *options, "--num-gpu-blocks-override", str(blocks), letters=True) as (url, server):
            base = url.removesuffix("/invocations")
            bench(base, work / f"warm-{blocks}", 2, PROMPT, 4)
            for number in rounds_of(rounds):
                for concurrency, prompt in SINGLE if blocks == AMPLE else ():
                    folder = work / f"one-{concurrency}-{prompt}-{number}"
                    watched(server, folder, partial(single, base, concurrency, prompt))
                for case in CASES:
                    if case.blocks == blocks:
                        watched(server, work / f"{case.folder}-{number}", partial(talk, base, case))


def single(base: str, concurrency: int, prompt: int, out: Path) -> None:
    bench(base, out, concurrency, prompt, max(8, 4 * concurrency))


def talk(base: str, case: Case, out: Path) -> None:
    """Three conversations for each that is held; the server's own count of tokens asked for and found."""
    before = cache_counts(base)
    requests = 3 * max(2, case.sessions) * TURNS
    bench(base, out, case.sessions, PROMPT, requests, "--turns", str(TURNS), "--think-time-s", str(case.think_s))
    asked, found = (after - count for after, count in zip(cache_counts(base), before, strict=True))
    (out / "cache.json").write_text(json.dumps({"asked": asked, "found": found}), encoding="utf-8")


def cache_counts(base: str) -> tuple[float, float]:
    """(prompt tokens looked up, found) since the server began."""
    with urllib.request.urlopen(f"{base}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    names = ("prefix_cache_queries", "prefix_cache_hits")
    found = [re.search(rf"^vllm:{name}(?:_total)?{{[^}}]*}} (\S+)$", text, re.MULTILINE) for name in names]
    assert found[0]
    assert found[1]
    return float(found[0][1]), float(found[1][1])


def bench(base: str, out: Path, concurrency: int | None, prompt: int, requests: int, *more: str) -> None:
    options = {
        "--target": f"{base}/v1/chat/completions",
        "--protocol": "openai",
        "--model": "tiny",
        **({"--concurrency": concurrency} if concurrency else {}),
        "--requests-per-level": requests,
        **({} if "--input-tokens" in more else {"--input-tokens": prompt, "--output-tokens": ANSWER}),
        "--tokenizer": out.parent / "model" / "tokenizer.json",
        "--warmup": 0,
        "--out": out,
        "--format": "json",
    }
    words = [str(part) for pair in options.items() for part in pair]
    done = subprocess.run([*pinned(), BIN / "loadproof", "bench", *words, *more], capture_output=True, text=True)
    if not (out / "summary.json").is_file():  # a run that is judged by nobody has an exit code of its own
        sys.exit(f"benchmark {out.name}: exit {done.returncode}\n{done.stderr[-2000:]}")


def less_disturbed(folders: Sequence[Path]) -> list[Path]:
    """The half with the least of the machine taken by others. What a run measured has no say in whether it counts."""
    ordered = sorted(folders, key=others_of)
    return ordered[: max(2, (len(ordered) + 1) // 2)]


def records_of(folder: Path) -> list[RequestRecord]:
    return [one for one in read_records(folder / "requests.jsonl").records if one.phase == "measured" and one.ok]


def measured_figures(folders: Sequence[Path]) -> Figures:
    """The median over runs of each run's own."""
    rows = []
    for folder in folders:
        counts = json.loads((folder / "cache.json").read_text())
        rows.append(
            (counts["found"] / counts["asked"], *percentiles([one.ttft_ms or 0.0 for one in records_of(folder)]))
        )
    return Figures(*(median(row[place] for row in rows) for place in range(3)))


def predicted_figures(work: Path, case: Case, new_tokens: int) -> Figures:
    """The twin over a cache of that size: as many conversations as a run has, five runs of them together."""
    deployment = replace(deployment_of(load_profile(work / PROFILE.name)), copies=1)
    limits = replace(batch_limits(deployment), kv_token_capacity=case.blocks * BLOCK)
    prompt, answer = (TokenCounts("fixed", float(tokens)) for tokens in (new_tokens, ANSWER))
    turns = [Step(prompt, answer), *(Step(prompt, answer, (turn,), case.think_s) for turn in range(TURNS - 1))]
    mixture, prefixes, found = Mixture((SessionClass(tuple(turns)),)), Prefixes(BLOCK), list[float]()
    for seed in range(5):
        loop = ClosedLoop(case.sessions, jitter_ms=JITTER_MS, seed=seed)
        sizes = so_many(mixture, 3 * max(2, case.sessions) * TURNS, seed, BLOCK)
        copies = [scheduler_for(StepTimes(deployment), limits, outside_ms=deployment.server.ttft_ms)]
        played = simulate_fleet(copies, loop, sizes, prefixes=prefixes, seed=seed)
        found += [one.ttft_ms for one in played if isinstance(one, SimulatedRequest)]
    return Figures(prefixes.counts.found_share, *percentiles(found))


def calibrated(work: Path) -> float:
    """Fit the single levels; the calibration's own TTFT band."""
    shutil.copy(PROFILE, work / PROFILE.name)
    bare = work / "uncalibrated.yaml"
    bare.write_text(PROFILE.read_text(encoding="utf-8").replace("calibration: calibration.yaml\n", ""), "utf-8")
    runs = [
        folder
        for concurrency, prompt in SINGLE
        for folder in less_disturbed(sorted(work.glob(f"one-{concurrency}-{prompt}-*")))
    ]
    output = work / "calibration.yaml"
    command = [str(BIN / "loadproof"), "calibrate", *map(str, runs), "--profile", str(bare)]
    subprocess.run([*command, "--hardware", HARDWARE, "--output", str(output)], check=True, stdout=subprocess.DEVNULL)
    calibration = load_profile(work / PROFILE.name)
    assert calibration is not None
    found = re.search(r"^ttft_band: (\S+)", output.read_text(encoding="utf-8"), re.MULTILINE)
    return float(found[1]) if found else 0.0


def report(work: Path) -> str:
    band = calibrated(work)
    lines, misses, others = [], list[str](), list[float]()
    for case in CASES:
        folders = sorted(work.glob(f"{case.folder}-[0-9]*"))
        kept = less_disturbed(folders)
        others += map(others_of, kept)
        first = [one.input_tokens for folder in kept for one in records_of(folder) if one.turn == 0]
        new_tokens = round(median(count for count in first if count))
        measured, foreseen = measured_figures(kept), predicted_figures(work, case, new_tokens)
        apart = [foreseen.found - measured.found]
        apart += [foreseen.p50_ms / measured.p50_ms - 1, foreseen.p95_ms / measured.p95_ms - 1]
        misses += [
            f"{name} of {case.words}"
            for name, off, bar in zip(("hit rate", "TTFT p50", "TTFT p95"), apart, BARS, strict=True)
            if abs(off) > bar
        ]
        marks = ["" if abs(off) <= bar else " **miss**" for off, bar in zip(apart, BARS, strict=True)]
        cells = [
            case.words,
            f"{measured.found:.1%}",
            f"{foreseen.found:.1%} ({100 * apart[0]:+.1f} points{marks[0]})",
            f"{measured.p50_ms:,.0f}",
            f"{foreseen.p50_ms:,.0f} ({apart[1]:+.0%}{marks[1]})",
            f"{measured.p95_ms:,.0f}",
            f"{foreseen.p95_ms:,.0f} ({apart[2]:+.0%}{marks[2]})",
            f"{len(kept)} of {len(folders)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    verdict = "met by all" if not misses else f"missed by {len(misses)} of {3 * len(CASES)}: {'; '.join(misses)}"
    table = "\n".join(lines)
    return f"""\
<!-- Generated by scripts/vllm_sessions.py (`make sessions-vllm`). Do not edit. -->
# A real vLLM's cache of prompts, under conversations of six turns

A random-weight Llama of 26 M parameters, a letter a token, on vLLM (CPU build {vllm_version()}), one core, prefix
caching in blocks of {BLOCK}; {TURNS} turns of {PROMPT} letters and a chat template's, answers of {ANSWER}, in chat
messages, each turn with all before it. `loadproof calibrate` saw single requests of {PROMPT} and {5 * PROMPT} letters
and no conversation. What was found in the cache is the server's own count over a run; what is *predicted* is the
twin's, with the server's number of blocks.

**Bars: hit rate within {100 * BARS[0]:.0f} points, TTFT p50 within {BARS[1]:.0%}, p95 within {BARS[2]:.0%};
{verdict}.**

| conversations | found | *predicted* | TTFT p50 ms | *predicted* | TTFT p95 ms | *predicted* | runs |
|---|---|---|---|---|---|---|---|
{table}

A row is the median of those runs in which other processes took least of the machine. The calibration's own band of
TTFT is {band:.0%}.

Conditions: {os.cpu_count()} cores, Python {sys.version_info.major}.{sys.version_info.minor}; others took
{min(others):.2f} to {max(others):.2f} cores during these runs (median {median(others):.2f}); vLLM and client at nice
{NICE}; the processor's widest vector unit: {vector_units()}.
"""


if __name__ == "__main__":
    main()
