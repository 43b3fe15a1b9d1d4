"""Calibrate on a real vLLM's single requests, predict loads of other shapes, and write docs/accuracy-loads.md.

    .venv/bin/python scripts/vllm_loads.py --rounds 3        # or make loads-vllm

The server of `vllm_sessions.py` without conversations: requests that arrive at random (Poisson, and in bursts), lengths
that are mixed, both at once. The calibration sees equal requests in a closed loop only; what is predicted is the
twin's. Runs are interleaved, and of each case that half counts in which other processes took least of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

from vllm_sessions import (
    ANSWER,
    PROFILE,
    PROMPT,
    SINGLE,
    bench,
    calibrated,
    less_disturbed,
    records_of,
    single,
)
from vllm_study import REPOSITORY, others_of, percentiles, rounds_of, served, study, watched

from loadproof.capacity import deployment_of
from loadproof.profiles import load_profile
from loadproof.sessions import Mixture, SessionClass, Step
from loadproof.simulation import ClosedLoop, SimulatedRequest, fresh_copies, simulate_fleet
from loadproof.simulation.sizes import request_sizes
from loadproof.simulation.traffic import JITTER_MS, OpenLoop, Process, arrival_times_ms
from loadproof.token_counts import TokenCounts

PAGE = REPOSITORY / "docs" / "accuracy-loads.md"
PROMPTS, ANSWERS = (50, 1200), (8, 150)  # of mixed lengths, each as likely
P50, P95 = 0.15, 0.25  # bars, of TTFT and of E2E
SEEDS = range(5)


@dataclass(frozen=True, slots=True)
class Case:
    """A load: in flight, or requests a second with how bursty they are (1: Poisson)."""

    requests: int
    mixed: bool
    in_flight: int = 0
    rate: float = 0.0
    burstiness: float = 1.0

    @property
    def folder(self) -> str:
        return f"load-{self.in_flight}-{self.rate:g}-{self.burstiness:g}-{self.mixed:d}"

    @property
    def words(self) -> str:
        kind = "Poisson" if self.burstiness == 1 else f"bursts (gamma of shape {self.burstiness:g})"
        load = f"{self.in_flight} in flight" if self.in_flight else f"{self.rate:g}/s, {kind}"
        return f"{load}, {'mixed lengths' if self.mixed else 'equal lengths'}"

    @property
    def options(self) -> list[str]:
        words = ["--rate", f"{self.rate:g}"] if self.rate else []
        words += ["--arrivals", "gamma", "--burstiness", f"{self.burstiness:g}"] if self.burstiness != 1 else []
        lengths = zip(("--input-tokens", "--output-tokens"), (PROMPTS, ANSWERS), strict=True)
        mixed = [word for name, (low, high) in lengths for word in (name, f"uniform:{low}:{high}")]
        return words + (mixed if self.mixed else [])


CASES = (
    Case(120, mixed=False, rate=3),
    Case(180, mixed=False, rate=6),
    Case(120, mixed=False, rate=3, burstiness=0.3),
    Case(64, mixed=True, in_flight=4),
    Case(96, mixed=True, in_flight=12),
    Case(64, mixed=True, rate=1),
    Case(96, mixed=True, rate=2),
)


def main() -> None:
    study(str(__doc__), "vllm-loads", PAGE, measure, report)


def measure(work: Path, rounds: int) -> None:
    """`rounds` runs of every single level and of every case into `work`."""
    with served(work, "--max-model-len", "2048", letters=True) as (url, server):
        base = url.removesuffix("/invocations")
        bench(base, work / "warm", 2, PROMPT, 4)
        for number in rounds_of(rounds):
            for concurrency, prompt in SINGLE:
                folder = work / f"one-{concurrency}-{prompt}-{number}"
                watched(server, folder, partial(single, base, concurrency, prompt))
            for case in CASES:
                watched(server, work / f"{case.folder}-{number}", partial(drive, base, case))


def drive(base: str, case: Case, out: Path) -> None:
    bench(base, out, case.in_flight or None, PROMPT, case.requests, *case.options)


def measured_figures(folders: Sequence[Path]) -> list[float]:
    """TTFT p50, p95, E2E p50, p95 in ms: the median over runs of each run's own."""
    rows = []
    for folder in folders:
        found = records_of(folder)
        e2e_ms = [(one.end_ns - one.intended_ns) / 1e6 for one in found if one.end_ns is not None]
        rows.append((*percentiles([one.ttft_ms or 0.0 for one in found]), *percentiles(e2e_ms)))
    return [median(column) for column in zip(*rows, strict=True)]


def predicted_figures(work: Path, case: Case, template: int) -> list[float]:
    """The twin's, as a user has it: of the distributions, not the draws; over five runs as long as the measured one."""
    deployment = replace(deployment_of(load_profile(work / PROFILE.name)), copies=1)
    prompt, answer = TokenCounts("fixed", float(PROMPT + template)), TokenCounts("fixed", float(ANSWER))
    if case.mixed:
        (low, high), (least, most) = PROMPTS, ANSWERS
        prompt = TokenCounts("uniform", (low + high) / 2 + template, 0, low + template, high + template)
        answer = TokenCounts("uniform", (least + most) / 2, 0, least, most)
    mixture = Mixture((SessionClass((Step(prompt, answer),)),))
    ttfts, e2es = list[float](), list[float]()
    for seed in SEEDS:
        kind: Process = "poisson" if case.burstiness == 1 else "gamma"
        loop = (
            ClosedLoop(case.in_flight, jitter_ms=JITTER_MS, seed=seed)
            if case.in_flight
            else OpenLoop(arrival_times_ms(kind, case.rate, burstiness=case.burstiness, seed=seed))
        )
        copies = fresh_copies(deployment)
        sizes = islice(request_sizes(mixture, seed), case.requests)
        played = [one for one in simulate_fleet(copies, loop, sizes, seed=seed) if isinstance(one, SimulatedRequest)]
        ttfts += [one.ttft_ms for one in played]
        e2es += [one.e2e_ms for one in played]
    return [*percentiles(ttfts), *percentiles(e2es)]


def report(work: Path) -> str:
    band = calibrated(work)
    lines, misses, others = [], list[str](), list[float]()
    alike = [folder for folder in sorted(work.glob("one-*")) if f"-{PROMPT}-" in folder.name]
    template = round(median(one.input_tokens or 0 for folder in alike for one in records_of(folder))) - PROMPT
    names = ("TTFT p50", "TTFT p95", "E2E p50", "E2E p95")
    for case in CASES:
        folders = sorted(work.glob(f"{case.folder}-[0-9]*"))
        kept = less_disturbed(folders)
        others += map(others_of, kept)
        cells = [case.words]
        pairs = zip(measured_figures(kept), predicted_figures(work, case, template), strict=True)
        for name, bar, (measured, foreseen) in zip(names, (P50, P95) * 2, pairs, strict=True):
            off = foreseen / measured - 1
            missed = abs(off) > bar
            misses += [f"{name} of {case.words}"] if missed else []
            cells += [f"{measured:,.0f}", f"{foreseen:,.0f} ({off:+.0%}{' **miss**' if missed else ''})"]
        lines.append(f"| {' | '.join(cells)} | {len(kept)} of {len(folders)} |")
    verdict = "met by all" if not misses else f"missed by {len(misses)} of {4 * len(CASES)}: {'; '.join(misses)}"
    table = "\n".join(lines)
    return f"""\
<!-- Generated by scripts/vllm_loads.py (`make loads-vllm`). Do not edit. -->
# A real vLLM under loads that the calibration never saw

The server of [accuracy of sessions](accuracy-sessions.md). `loadproof calibrate` saw {len(SINGLE)} closed loops of
equal requests ({PROMPT} and {5 * PROMPT} letters, at most four in flight). Here requests of {PROMPT} letters and
answers of {ANSWER} arrive at random or in bursts, and lengths are mixed: prompts of {PROMPTS[0]} to {PROMPTS[1]}
letters, answers of {ANSWERS[0]} to {ANSWERS[1]}, each as likely.
*Predicted* is the twin's, of the distributions; it does not know the draws.

**Bars: p50 within {P50:.0%}, p95 within {P95:.0%}; {verdict}.**

| load | TTFT p50 ms | *predicted* | p95 | *predicted* | E2E p50 ms | *predicted* | p95 | *predicted* | runs |
|---|---|---|---|---|---|---|---|---|---|
{table}

A row is the median of those runs in which other processes took least of the machine. The calibration's own band of
TTFT is {band:.0%}. Others took {min(others):.2f} to {max(others):.2f} of {os.cpu_count()} cores during these runs
(median {median(others):.2f}).
"""


if __name__ == "__main__":
    main()
