"""`auto` beside the best fixed number in flight, on servers of many shapes in virtual time; writes docs/run-pace.md.

    .venv/bin/python tests/perf/pace_shapes.py [--quick] [--auto-only] [--consumer]

None of these servers was used to choose a constant of the search; `--quick` takes two of them and writes nothing.
`--auto-only` takes the best fixed numbers from the page as it stands, for they do not depend on the search;
`--consumer` writes only the part about the buffer's consumer anew, with those numbers.
Nothing here depends on the machine's speed, so the page is the same everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat
from math import inf
from pathlib import Path
from random import Random
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / name) for name in (".", "invocation", "constructs/buffer"))]

from consumer_fleet import BATCH, ConsumerFleet  # noqa: E402
from server_shapes import Client, Run, Shape, Size, work_of  # noqa: E402

from loadproof.invocation.concurrency import Pace  # noqa: E402
from loadproof.invocation.many import MOST_IN_FLIGHT, pace_of  # noqa: E402

PAGE = ROOT / "docs" / "run-pace.md"
SEEDS = (11, 12, 13)
DRAWS = 12
_TOO_MANY = 2.5
_ENOUGH = 0.99  # the best number is the smallest that brings so much of the most


@dataclass(frozen=True, slots=True)
class Case:
    shape: Shape
    work: list[Size]
    said: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """`number`: the best fixed one, at each time from `from_s` on. `shares`: throughput of `auto`, one a seed."""

    case: Case
    number: int
    tokens_per_s: float
    shares: list[float]
    most: float  # in flight after a minute, as a multiple of the best number then


def cases() -> list[Case]:
    usual = work_of(3600, (50, 600), (40, 300), 5)
    return [
        Case(
            Shape("slows with the square, short list", token_s=0.02, knee=24, power=2),
            [Size(30, 64)] * 400,
            "20 ms a token up to 24 in flight, then with the square; 400 answers of 64 tokens",
        ),
        Case(
            Shape("hard capacity", token_s=0.025, slots=52), usual[:2400], "52 are served, the others wait at the door"
        ),
        Case(
            Shape("slows in proportion", token_s=0.025, knee=18), usual[:1200], "past 18 a token takes n / 18 as long"
        ),
        Case(Shape("slows with the square", token_s=0.03, knee=36, power=2), usual[:1800], "past 36 (n / 36)² as long"),
        Case(
            Shape("memory cliff", token_s=0.025, slope_s=0.0001, memory_tokens=50_000),
            work_of(2000, (300, 900), (150, 450), 6),
            "room for 50,000 tokens; past that the newest is put aside and computed again",
        ),
        Case(Shape("throttles", token_s=0.02, held=30), usual[:2400], "429 for the 31st"),
        Case(
            Shape("throttles, Retry-After", token_s=0.02, per_s=3.0, burst=5, retry_after_s=1.0),
            usual[:1000],
            "429 past 3 requests a second, with `Retry-After: 1`",
        ),
        Case(
            Shape("prompts bind", token_s=0.018, slope_s=0.0002, prompt_tokens_per_s=9000),
            work_of(1500, (200, 6000), (10, 100), 7),
            "9,000 prompt tokens a second, prompts of 200 to 6,000",
        ),
        Case(
            Shape("capacity halves", token_s=0.02, slots=44, scale=((0, 1), (240, 0.5))),
            usual,
            "44 served at once, 22 after four minutes",
        ),
        Case(
            Shape("capacity doubles", token_s=0.02, slots=26, scale=((0, 1), (240, 2))),
            usual,
            "26 served at once, 52 after four minutes",
        ),
        Case(
            Shape("long answers", token_s=0.025, knee=30, power=1.3),
            work_of(300, (50, 300), (1000, 3000), 8),
            "answers of 1,000 to 3,000 tokens, slowing past 30",
        ),
        Case(
            Shape("from zero copies", token_s=0.02, slots=20, up_at_s=240, scale=((0, 1), (400, 2))),
            usual[:3000],
            "no copy for four minutes, then one of 20, then two",
        ),
    ]


def draws() -> Iterator[Case]:
    """Shapes drawn at random: what slows, what binds and what is asked."""
    for seed in range(DRAWS):
        draw = Random(1000 + seed)
        shape = Shape(f"draw {seed}", token_s=draw.uniform(0.01, 0.05), slope_s=draw.choice([0, 0, 0.0001, 0.0003]))
        size = round(8 * 12 ** draw.random())
        kind = draw.choice(["slots", "knee", "held", "memory", "changes"])
        long = draw.choice([80, 160, 320])
        if kind == "slots":
            shape = replace(shape, slots=size)
        elif kind == "knee":
            shape = replace(shape, knee=size, power=draw.uniform(1, 2))
        elif kind == "held":
            shape = replace(shape, held=size)
        elif kind == "memory":
            shape = replace(shape, memory_tokens=size * (400 + long))
        else:
            shape = replace(shape, knee=size, power=1.5, scale=((0, 1), (200, draw.choice([0.5, 2.0]))))
        number = round(300 * size / shape.token_s / long / (1 + shape.slope_s * size / shape.token_s))
        yield Case(shape, work_of(min(6000, number), (50, 500), (long // 2, long * 3 // 2), seed), kind)


def fixed(case: Case) -> list[tuple[int, Run]]:
    """Runs at fixed numbers, until more does not help any more."""
    runs: list[tuple[int, Run]] = []
    number = 8.0
    while number <= MOST_IN_FLIGHT:
        runs.append((round(number), Client(case.shape, case.work, Pace(round(number)), 1).complete(2500)))
        rates = [run.tokens_per_s for _, run in runs]
        if len(rates) > 4 and max(rates[-3:]) < 1.003 * max(rates[:-3]):
            break
        number *= 1.25
    return runs


def best_fixed(case: Case) -> tuple[int, float]:
    """The number, and the most tokens/s of any."""
    if {"--auto-only", "--consumer"} & set(sys.argv):
        rows = [line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines()]
        name = f"| {case.shape.name}"
        return next((int(cells[2]), float(cells[3].replace(",", ""))) for cells in rows if cells[0] == name)
    runs = fixed(case)
    best = max(run.tokens_per_s for _, run in runs)
    return next(number for number, run in runs if run.tokens_per_s >= _ENOUGH * best), best


def judge(case: Case, seeds: Sequence[int] = SEEDS) -> Judged:
    number, best = best_fixed(case)
    most, shares = 0.0, []
    for seed in seeds:
        run = Client(case.shape, case.work, pace_of("auto"), seed).complete()
        shares.append(run.tokens_per_s / best)
        most = max(most, _most(case.shape, number, run))
    judged = Judged(case, number, best, shares, most)
    print(case.shape.name, case.said, number, f"{best:,.0f}", [f"{s:.1%}" for s in shares], f"{most:.2f}", flush=True)
    return judged


def _most(shape: Shape, number: int, run: Run) -> float:
    """A minute after the first copy was up and after each change, beside the best number of that capacity."""
    times = [max(from_s, shape.up_at_s) for from_s, _ in shape.scale] or [shape.up_at_s]
    scales = [factor for _, factor in shape.scale] or [1.0]
    largest = max(scales)
    ends = [*times[1:], inf]
    spans = zip(times, ends, scales, strict=True)
    return max(run.most_after(from_s + 60, to_s) / (number * scale / largest) for from_s, to_s, scale in spans)


def consumer_row(case: Case) -> str:
    """Slots for two and a half times the best number, held back by refusals alone and steered by what streams bring."""
    number, best = best_fixed(case)
    slots, shares, settled = round(_TOO_MANY * number), [], 0.0
    longest_s = 4 * sum(size.answer for size in case.work) / best + 600
    for steered in (False, True):
        run = ConsumerFleet(case.shape, case.work, slots, SEEDS[0], steered=steered).complete(longest_s)
        shares.append(run.tokens_per_s / best)
        settled = median(n for at_s, n in run.in_flight if at_s > run.took_s / 2) / number
    cells = [case.shape.name, number, slots, f"{shares[0]:.1%}", f"{shares[1]:.1%}", f"{settled:.2f}×"]
    print(*cells, flush=True)
    return f"| {' | '.join(map(str, cells))} |"


def row(one: Judged) -> str:
    shares = sorted(one.shares)
    most = f"{one.most:.2f}×" if one.most else "over before"
    cells = [one.case.shape.name, one.case.said, one.number, f"{one.tokens_per_s:,.0f}"]
    return f"| {' | '.join(map(str, cells))} | {median(shares):.1%} | {shares[0]:.1%} | {most} |"


def page(held_out: Sequence[Judged], drawn: Sequence[Judged]) -> str:
    return TEXT.format(
        rows="\n".join(map(row, held_out)),
        middle=f"{median(median(one.shares) for one in held_out):.1%}",
        lowest=f"{min(min(one.shares) for one in held_out):.1%}",
        short=sum(share < 0.85 for one in held_out for share in one.shares),
        runs=sum(len(one.shares) for one in held_out),
        over=sum(one.most > 2 for one in held_out),
        seeds=len(SEEDS),
        draws=len(drawn),
        drawn_rows="\n".join(map(row, drawn)),
        drawn_middle=f"{median(one.shares[0] for one in drawn):.1%}",
        below=sum(one.shares[0] < 0.85 for one in drawn),
        above=sum(one.most > 2 for one in drawn),
        levels="×1.25",
    )


TEXT = """# What `--concurrency auto` finds

Written by `tests/perf/pace_shapes.py`: whole work lists, the search included, on simulated servers in virtual time.
The search was tuned on other servers; none of these was used for a constant of it. *Best* is the smallest of fixed
numbers {levels} apart that brings 99% of the most; throughput is that of the whole list beside the best fixed one, in
the middle and at worst of {seeds} runs; the last column is the most in flight, from a minute after the first copy was
up and a minute after each change, as a multiple of the best number.

| server | what it does | best | tokens/s | `auto`, median | worst | most in flight |
| --- | --- | --- | --- | --- | --- | --- |
{rows}

The median over these servers is {middle}, the lowest run {lowest}. Asked for: 95%, 85% and at most 2×; runs below 85%:
{short} of {runs}; servers above 2×: {over}. A figure above 100% is of a server that no fixed number fits all the time.

## Drawn at random

{draws} servers with capacity, speed, sizes and kind drawn at random, one run each: median {drawn_middle},
{below} below 85%, {above} above 2×.

| server | kind | best | tokens/s | `auto`, median | worst | most in flight |
| --- | --- | --- | --- | --- | --- | --- |
{drawn_rows}
"""


CONSUMER = """
## The buffer's consumer

The same servers and work lists behind a buffer whose consumers have slots for {times} times the best number, {batch} to
a process: throughput of the whole list beside the best fixed number, once with refusals alone to hold them back, once
steered by what all their streams bring; and what is in flight in the later half, in the middle, as a multiple of the
best number. A search from too many down takes minutes where answers do: what is in flight cannot be called back.

| server | best | slots | refusals alone | steered | in flight |
| --- | --- | --- | --- | --- | --- |
{rows}
"""


def main() -> None:
    if "--quick" in sys.argv:
        for case in cases()[:2]:
            judge(case, SEEDS[:1])
        return
    with ProcessPoolExecutor(4) as pool:
        if "--consumer" in sys.argv:
            text = PAGE.read_text(encoding="utf-8").split(CONSUMER[:20])[0]
        else:
            held_out = pool.map(judge, cases())
            drawn = pool.map(judge, draws(), repeat(SEEDS[:1]))
            text = page(list(held_out), list(drawn))
        rows = "\n".join(pool.map(consumer_row, cases()))
    PAGE.write_text(text + CONSUMER.format(times=_TOO_MANY, batch=BATCH, rows=rows), encoding="utf-8")


if __name__ == "__main__":
    main()
