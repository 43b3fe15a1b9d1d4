"""`auto` on simulated servers, whole work lists with the search included; tests/perf/pace_shapes.py has many more."""

from __future__ import annotations

from server_shapes import Client, Run, Shape, Size, work_of

from loadproof.invocation.concurrency import Pace
from loadproof.invocation.many import pace_of
from loadproof.wire.search import Look, Search


def auto(shape: Shape, work: list[Size]) -> Run:
    return Client(shape, work, pace_of("auto"), 1).complete()


def test_a_server_that_slows_down_is_not_flooded() -> None:
    """20 ms a token up to 24 in flight, then with the square: at least 85% of 24 fixed, and never all 400 in flight."""
    shape, work = Shape("square", token_s=0.02, knee=24, power=2), [Size(30, 64)] * 400
    run, fixed = auto(shape, work), Client(shape, work, Pace(24), 1).complete()
    assert run.tokens_per_s >= 0.85 * fixed.tokens_per_s
    assert run.most_after(0) <= 48


def test_a_capacity_that_halves_is_followed() -> None:
    """32 served at once, 16 after two minutes: a minute later at most twice 16 in flight."""
    shape = Shape("halves", slots=32, scale=((0, 1), (120, 0.5)))
    run = auto(shape, work_of(1600, (50, 200), (60, 180)))
    assert run.most_after(180) <= 32


def test_whole_answers_are_enough() -> None:
    """Nothing streams: 12 served at once are found by the answers that end."""
    shape, work = Shape("whole", slots=12, whole=True), work_of(900, (50, 200), (40, 80))
    fixed = Client(shape, work, Pace(12), 1).complete()
    assert auto(shape, work).tokens_per_s >= 0.85 * fixed.tokens_per_s


def test_the_number_doubles_while_throughput_keeps_up() -> None:
    """Eight looks 0.05 s apart with 4 in flight, each answer a part each 20 ms: 4, then 8."""
    search = Search(512)
    for n in range(8):
        now_s = 0.05 * n
        search.look(Look(now_s, now_s, 4, 0, round(4 * now_s / 0.02), 0, 0, 0.0, 0.02), 512)
    assert search.limit == 8
