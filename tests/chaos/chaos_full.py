"""`make chaos`: every arm at full size, one after the other, and docs/chaos.md written from what came out.

`python chaos_full.py [--messages N] [--kills N] [--seeds N] [--only WORD [--renew]] [--out PATH]`; exit 1 where a check
failed. `--renew` puts the rows of a part run in the place of the page's own.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from chaos_crashes import KILLS, Outcome, Start, crash_loop, cut_drain, frozen, kills, long_generation, terms
from chaos_faults import attempts, errors, half_open, outage, stall, store_down, throttle, zero
from chaos_messages import bodies, frames, redrive, sizes
from chaos_mutants import CAUGHT
from chaos_world import ROOT, stores, world
from sim_night import defects, simulated

PAGE = ROOT / "docs" / "chaos.md"
HEAD = """\
<!-- Written by `make chaos` (tests/chaos/chaos_full.py). Do not edit. -->
# Chaos: the buffer under faults

The consumer's real package runs in real processes that are killed, stopped and starved, fed like Lambda's event source
mapping feeds them, against an SQS, an S3 and a DynamoDB on loopback and a scripted model whose log is the truth: every
generation is in it with its key and the process that asked. A repeat counts as explained only where the process that
asked died with that key in hand. A bucket with versions counts how often each result was written. `make test` runs the
same arms in small, and `tests/chaos/chaos_mutants.py` breaks the consumer to show that the checks see it.

The same code also runs in virtual time: `tests/chaos/sim_run.py` takes consumers, SQS's engine, a table, a bucket and
a model through schedules drawn from a seed: crashes at any call, SIGTERM, freezes, skewed clocks, stores that are
slow, down or answer an error after they did what was asked, stale reads, duplicate and undeleted messages,
deployments with both versions at work, throttles, starvation. Three of ten press on one promise of [the buffer's
page](buffer.md) each (`sim_themes.py`): bursts of time-outs, kept answers, stolen leases, lost rights, deadlines,
results taken away, age, long messages, endless answers. Each request, answer and message that is sent on is
judged when it is done (`sim_judges.py`), the rest at the end. One that breaks the contract is made small.
`make test` runs 2,000, `make chaos` a million, and `tests/chaos/sim_mutants.py` plants defects.

What this does not show: AWS itself. S3 and DynamoDB are moto's, SQS is Loadproof's own, and Lambda's poller is a short
loop. A process that dies between receiving and its first heartbeat leaves its messages hidden for the queue's own
visibility timeout (an hour, as Lambda asks of its queues); here that is 20 s, so that a run ends.

"""


def main() -> int:
    """Run what was asked for and write the page."""
    parser = argparse.ArgumentParser(description="The chaos suite at full size.")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--schedules", type=int, default=1_000_000, help="that are simulated")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--only", default="", help="arms and mutants whose name holds this word; written only with --renew or --out"
    )
    parser.add_argument("--renew", action="store_true", help="with --only: replace these rows of docs/chaos.md")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    numbers = itertools.count()
    rows: list[tuple[Outcome, str]] = []
    began = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as folder, stores() as where:

        def start(setting, **behaviour):  # type: ignore[no-untyped-def]
            return world(where, Path(folder) / f"{next(numbers)}.jsonl", setting, **behaviour)

        for name, arm in _arms(asked.messages, asked.kills, asked.seeds, asked.schedules).items():
            if asked.only in name:
                rows.append(_run(name, arm, start))
        caught = _mutants(start, Path(folder), asked.only)
    if asked.renew:
        PAGE.write_text(_renewed(PAGE.read_text(encoding="utf-8"), [*_rows(rows), *caught], began), encoding="utf-8")
    out = asked.out or (None if asked.only else PAGE)
    if out is not None:
        out.write_text(_page(began, rows, caught), encoding="utf-8")
    return int(any(outcome.missed for outcome, _ in rows) or any("not caught" in row for row in caught))


def _arms(messages: int, times: int, seeds: int, schedules: int) -> dict[str, Callable[[Start], Outcome]]:
    def killing(seed: int) -> Callable[[Start], Outcome]:
        return lambda start: kills(start, replace(KILLS, seed=seed), messages=messages, times=times)

    share = max(1, messages // 10)
    return {f"kills {seed}": killing(seed) for seed in range(1, seeds + 1)} | {
        "terms": lambda start: terms(start, messages=share, times=max(1, times // 4), slack_s=1),
        "short drain": lambda start: cut_drain(start, slack_s=1),
        "long generation": lambda start: long_generation(start, leases=10),
        "crash loop": crash_loop,
        "frozen": frozen,
        "500s": lambda start: errors(start, messages=share),
        "attempts": attempts,
        "503s": lambda start: outage(start, messages=60, down_s=60, slack_s=1),
        "throttled": lambda start: throttle(start, messages=150, processes=16, at_most=4, least_goodput=0.9),
        "scale from zero": lambda start: zero(start, away_s=150),
        "stall": lambda start: stall(start, idle_s=60, slack_s=5),
        "half-open": lambda start: half_open(start, idle_s=60, slack_s=5),
        "frames": lambda start: frames(start, cut_step=1, flip_step=1),
        "bodies": bodies,
        "sizes": sizes,
        "store down": lambda start: store_down(start, down_s=10),
        "store down, past the function's time": lambda start: store_down(start, down_s=25, function_s=20),
        "redrive": redrive,
        "simulated": lambda _: simulated(schedules),
        "planted": lambda _: defects(),
    }


def _run(name: str, arm: Callable[[Start], Outcome], start: Start) -> tuple[Outcome, str]:
    """One arm; what breaks is a row too, so that the others are still run."""
    began_s = time.monotonic()
    try:
        outcome = arm(start)
    except Exception as error:
        outcome = Outcome(name, f"{type(error).__name__}: {error}", ("could not be run",))
    verdict = "reached" if not outcome.missed else f"**missed: {', '.join(outcome.missed)}**"
    print(f"{time.monotonic() - began_s:6.0f} s  {outcome.fault}: {outcome.figures}; {verdict}", flush=True)
    return outcome, verdict


def _mutants(start: Start, folder: Path, word: str) -> list[str]:
    """A row for each whose name holds the word: the check that must fail, and what came."""
    rows = []
    for name, (arm, check) in CAUGHT.items():
        if word not in name:
            continue
        place = folder / name.replace(" ", "-")
        place.mkdir()
        outcome = arm(start, place)
        verdict = "caught" if check in outcome.missed else "**not caught**"
        print(f"mutant {name}: {verdict}; {outcome.figures}", flush=True)
        rows.append(f"| {name} | {outcome.fault} | {check}: {verdict} | {outcome.figures} |")
    return rows


def _page(began: datetime, rows: list[tuple[Outcome, str]], caught: list[str]) -> str:
    minutes = (datetime.now(UTC) - began).total_seconds() / 60
    machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    lines = [f"Last run: {began:%Y-%m-%d %H:%M} UTC, {minutes:.0f} minutes on {machine}.", ""]
    lines += ["| fault | what came of it | |", "|---|---|---|"]
    lines += _rows(rows)
    lines += ["", "## Mutants", "", "The consumer, or its queue, with one thing broken: the check must fail.", ""]
    lines += ["| mutant | arm | check | what came of it |", "|---|---|---|---|", *caught]
    return HEAD + "\n".join(lines) + "\n"


def _rows(rows: list[tuple[Outcome, str]]) -> list[str]:
    return [f"| {outcome.fault} | {outcome.figures} | {verdict} |" for outcome, verdict in rows]


def _renewed(page: str, rows: list[str], began: datetime) -> str:
    """The page with these rows in the place of those of the same fault or mutant, each with the time of its own run."""
    new = {_subject(row): f"{row.removesuffix(' |')} (run again {began:%Y-%m-%d %H:%M} UTC) |" for row in rows}
    lines = [new.pop(_subject(line), line) for line in page.split("\n")]
    if new:
        raise SystemExit(f"{PAGE} has no row of: {'; '.join(new)}; run all of them, with the sizes of the page")
    return "\n".join(lines)


def _subject(row: str) -> str:
    return row.split(" | ", maxsplit=1)[0].removeprefix("| ")


if __name__ == "__main__":
    sys.exit(main())
