"""Calibrate on a real vLLM's levels 1, 2 and 4, predict 8, 16 and 32, and write docs/accuracy-vllm.md.

    make extrapolate-vllm        # or .venv/bin/python scripts/vllm_extrapolation.py --rounds 9

Serves a tiny random model on this machine's CPU and drives it with our own benchmark. Timings drift by a third between
minutes, so levels are interleaved: each round goes through all of them, every other round backwards, and a level counts
with the median of that half of its valid runs in which other processes took least of the machine. The calibration sees
the lowest three levels only; the rest is the step model's structure: the batch, its limit, the queue. On a machine with
other work, `NICE=-10` (as root) gives both sides the right of way.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from vllm_study import (
    BIN,
    HARDWARE,
    NICE,
    REPOSITORY,
    others_of,
    pinned,
    rounds_of,
    served,
    study,
    vllm_version,
    watched,
)

from loadproof.bench.imports import read_measured
from loadproof.capacity import deployment_of, find_knee
from loadproof.capacity.workload import PlannedWorkload
from loadproof.errors import InputError
from loadproof.profiles import load_calibration, load_profile
from loadproof.profiles.schema import Calibration
from loadproof.sessions import equal_requests
from loadproof.simulation.replay import replayed

PROFILE = REPOSITORY / "scripts" / "real_server" / "extrapolation.yaml"
PAGE = REPOSITORY / "docs" / "accuracy-vllm.md"
SEEN, UNSEEN = (1, 2, 4), (8, 16, 32)
BAR = 0.25
ROUNDS_OF_A_LEVEL = 3  # requests a client sends, so that ramp and tail are a small part
FEWEST_REQUESTS = 8
FEWEST_RUNS = 3


@dataclass(frozen=True, slots=True)
class Figures:
    """Means of one level: tokens/s and ms."""

    output_tokens_per_s: float
    ttft_ms: float
    tpot_ms: float
    e2e_ms: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one level: prompt tokens as the server counted them, what it measured, and how many cores other
    processes took meanwhile."""

    folder: Path
    others_cores: float
    input_tokens: float
    figures: Figures


@dataclass(frozen=True, slots=True)
class Study:
    """What was found: each level's valid runs, those of them that count, what was predicted from the lowest ones."""

    valid: Mapping[int, Sequence[Run]]
    found: Mapping[int, Sequence[Run]]
    predicted: Mapping[int, Figures]
    calibration: Calibration
    prompt: int
    priority: str


NAMES = ("output_tokens_per_s", "ttft_ms", "tpot_ms", "e2e_ms")
HEADINGS = ("tokens/s", "TTFT ms", "TPOT ms", "E2E ms")


def main() -> None:
    study(str(__doc__), "vllm-extrapolation", PAGE, measure, report, rounds=9)


def measure(work: Path, rounds: int) -> None:
    """`rounds` runs of every level into `work`."""
    (work / "nice").write_text(NICE, encoding="utf-8")
    levels = (*SEEN, *UNSEEN)
    with served(work) as (url, server):
        bench(url, 4, work / "warm")
        for number in rounds_of(rounds):
            for concurrency in levels if number % 2 == 0 else reversed(levels):
                watched(server, work / f"{concurrency:02d}-{number}", partial(bench, url, concurrency))


def bench(url: str, concurrency: int, out: Path) -> None:
    """One level with `loadproof bench`, on another core than the server's where there is one."""
    requests = max(FEWEST_REQUESTS, ROUNDS_OF_A_LEVEL * concurrency)
    options = {
        "--target": url,
        "--protocol": "openai",
        "--model": "tiny",
        "--concurrency": concurrency,
        "--requests-per-level": requests,
        "--input-tokens": 12,
        "--output-tokens": 64,
        "--warmup": min(4, concurrency),
        "--out": out,
        "--format": "json",
    }
    words = [str(part) for pair in options.items() for part in pair]
    done = subprocess.run([*pinned(), BIN / "loadproof", "bench", *words], capture_output=True, text=True)
    if not (out / "summary.json").is_file():  # a run that is judged by nobody has an exit code of its own
        sys.exit(f"benchmark at {concurrency}: exit {done.returncode}\n{done.stderr[-2000:]}")


def report(work: Path) -> str:
    """The page, from the runs in `work`: calibrates on the SEEN levels, then plans the profile with the result."""
    valid = measured_runs(work)
    found = {level: less_disturbed(runs) for level, runs in valid.items()}
    calibration = work / "calibration.yaml"
    shutil.copy(PROFILE, work / PROFILE.name)
    runs = [run.folder for level in SEEN for run in found[level]]
    command = [str(BIN / "loadproof"), "calibrate", *map(str, runs), "--profile", str(bare_profile(work))]
    subprocess.run(
        [*command, "--hardware", HARDWARE, "--output", str(calibration)], check=True, stdout=subprocess.DEVNULL
    )

    profile = load_profile(work / PROFILE.name)
    prompt = round(median(run.input_tokens for runs in found.values() for run in runs))
    deployment, answer = deployment_of(profile), profile.workload.output_tokens
    assert isinstance(answer, int)
    load = replayed(PlannedWorkload(prompt, answer, mixture=equal_requests(prompt, answer)))
    foreseen = [load.level(deployment, level) for level in (*SEEN, *UNSEEN)]
    predicted = {
        level.concurrency: Figures(*(getattr(level, name) for name in NAMES)) for level in foreseen if level is not None
    }
    priority = (work / "nice").read_text(encoding="utf-8")
    return page(Study(valid, found, predicted, load_calibration(calibration), prompt, priority))


def bare_profile(work: Path) -> Path:
    """The profile without its calibration, which is not there yet."""
    bare = work / "uncalibrated.yaml"
    text = PROFILE.read_text(encoding="utf-8")
    bare.write_text(text.replace("calibration: calibration.yaml\n", ""), encoding="utf-8")
    return bare


def measured_runs(work: Path) -> dict[int, list[Run]]:
    """Each level's valid runs. One whose client was late is invalid: it measured the machine's other work."""
    found: dict[int, list[Run]] = {level: [] for level in (*SEEN, *UNSEEN)}
    for level, runs in found.items():
        for folder in sorted(work.glob(f"{level:02d}-*")):
            try:
                (one,) = read_measured(folder)
            except InputError:
                continue
            means = (one.output_tokens_per_s, one.ttft_ms.mean, one.tpot_ms.mean, one.e2e_ms.mean)
            assert one.input_tokens is not None
            assert None not in means
            figures = Figures(*means)  # type: ignore[arg-type]
            runs.append(Run(folder, others_of(folder), one.input_tokens, figures))
        if len(runs) < FEWEST_RUNS:
            sys.exit(f"level {level}: {len(runs)} valid runs; the machine is too busy, run it again on a quiet one")
    return found


def less_disturbed(runs: Sequence[Run]) -> list[Run]:
    """The half with the least of the machine taken by others. What a run measured has no say in whether it counts."""
    return sorted(runs, key=lambda run: run.others_cores)[: max(FEWEST_RUNS, (len(runs) + 1) // 2)]


def medians(found: Mapping[int, Sequence[Run]]) -> dict[int, Figures]:
    return {
        level: Figures(*(median(getattr(run.figures, name) for run in runs) for name in NAMES))
        for level, runs in found.items()
    }


def page(study: Study) -> str:
    measured = medians(study.found)
    verdict, error = verdict_on(study.predicted, measured, "{} of {}")
    verdict_of_all, error_of_all = verdict_on(study.predicted, medians(study.valid), "{} of them")
    knees = [knee_of(measured), knee_of(study.predicted)]
    same = "the same" if knees[0] == knees[1] else "**not the same**"
    counts = sorted({len(runs) for runs in study.found.values()})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    others = [run.others_cores for runs in study.found.values() for run in runs]
    server, core = study.calibration.parameters, study.calibration.hardware
    assert core is not None
    return f"""\
<!-- Generated by scripts/vllm_extrapolation.py (`make extrapolate-vllm`). Do not edit. -->
# A real vLLM, calibrated on its lowest levels and predicted beyond them

A random-weight Llama of 26 M parameters on vLLM (CPU build {vllm_version()}), one core, `max_num_seqs` 16;
{study.prompt} prompt and 64 answer tokens, closed loop, the client on another core of the same machine. A level
is the median of {runs} interleaved runs, their range in brackets: the half in which other
processes took least of the machine, whatever they measured. `loadproof calibrate` saw the levels
{", ".join(map(str, SEEN))} and nothing else: two parameters of the server and two of the core are fitted to them.

**Bar: {BAR:.0%} on levels it did not see; {verdict}.** Median absolute error there {error:.1%}.
Against the median of all valid runs, disturbed ones too: {verdict_of_all},
median absolute error {error_of_all:.1%}.

Latencies are those of a level's steady state (MSER-5, [benchmark.md](benchmark.md)) where it has the 50
requests to find one: at 32 the first 16 requests find no queue and would make the wait look shorter.

{table(study, measured)}

Knee measured: {knees[0] or "not reached"}; *predicted*: {knees[1] or "not reached"} ({same}; the sequence limit
is 16; rule: the last doubling of the load that brings a quarter more tokens).

Fitted: {server.step_ms:.3g} ms a step, {server.step_ms_per_sequence:.3g} ms a sequence,
{core.bandwidth_gb_per_s:.3g} GB/s and {core.bf16_tflops:.3g} TFLOP/s reached by the core. The calibration's
own bands: {study.calibration.band:.0%}, TTFT {study.calibration.ttft_band:.0%}.

Conditions: {os.cpu_count()} cores, Python {sys.version_info.major}.{sys.version_info.minor}; others
took {min(others):.2f} to {max(others):.2f} cores during these runs (median {median(others):.2f});
vLLM and client at nice {study.priority}.
"""


def table(study: Study, measured: Mapping[int, Figures]) -> str:
    lines = ["| in flight | | " + " | ".join(HEADINGS) + " |", "|---|---|" + "---|" * len(HEADINGS)]
    for level in (*SEEN, *UNSEEN):
        cells, foreseen = [], []
        for name in NAMES:
            runs = [getattr(run.figures, name) for run in study.found[level]]
            cells.append(f"{getattr(measured[level], name):,.1f} ({min(runs):,.1f} .. {max(runs):,.1f})")
            share = error(study.predicted[level], measured[level], name)
            miss = " **miss**" if abs(share) > BAR else ""
            foreseen.append(f"{getattr(study.predicted[level], name):,.1f} ({share:+.1%}{miss})")
        lines.append(f"| {level} | measured | " + " | ".join(cells) + " |")
        lines.append(f"| | {'fitted' if level in SEEN else '*predicted*'} | " + " | ".join(foreseen) + " |")
    return "\n".join(lines)


def knee_of(curve: Mapping[int, Figures]) -> int | None:
    """Its requests in flight; None where it was not reached."""
    knee = find_knee([(level, figures.output_tokens_per_s, figures.e2e_ms) for level, figures in curve.items()])
    return knee.concurrency if knee is not None and knee.reached else None


def verdict_on(predicted: Mapping[int, Figures], measured: Mapping[int, Figures], of: str) -> tuple[str, float]:
    """(what misses the bar on the levels that the calibration did not see, the median absolute error there)."""
    named = {
        f"{heading} at {level}": error(predicted[level], measured[level], name)
        for level in UNSEEN
        for name, heading in zip(NAMES, HEADINGS, strict=True)
    }
    misses = [name for name, share in named.items() if abs(share) > BAR]
    said = f"missed by {of.format(len(misses), len(named))}: {', '.join(misses)}" if misses else "met by all"
    return said, median(map(abs, named.values()))


def error(predicted: Figures, measured: Figures, name: str) -> float:
    return float(getattr(predicted, name) / getattr(measured, name) - 1)


if __name__ == "__main__":
    main()
