"""The arms as `make test` runs them: small, and several at a time, for most of what they do is waiting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from chaos_crashes import (
    CRASH_LOOP,
    FROZEN,
    KILLS,
    LONG,
    Outcome,
    Start,
    crash_loop,
    cut_drain,
    frozen,
    kills,
    long_generation,
    terms,
)
from chaos_faults import attempts, errors, half_open, outage, stall, store_down, throttle, zero
from chaos_messages import bodies, frames, redrive, sizes
from chaos_mutants import mutant
from chaos_world import Setting

_SLACK_S = 4.0  # less than the lease and its five seconds, after which a message would come back by itself
Arm = Callable[[Start, Path], Outcome]  # the folder is for a mutant's code

HELD: dict[str, Arm] = {
    "kill -9": lambda start, _: kills(start, messages=120, times=6),
    "SIGTERM": lambda start, _: terms(start, messages=60, times=4, slack_s=_SLACK_S),
    "SIGTERM, short drain": lambda start, _: cut_drain(start, slack_s=_SLACK_S),
    "long generation": lambda start, _: long_generation(start, leases=10),
    "crash loop": lambda start, _: crash_loop(start),
    "frozen": lambda start, _: frozen(start),
    "500s": lambda start, _: errors(start, messages=80),
    "attempts": lambda start, _: attempts(start),
    "503s": lambda start, _: outage(start, down_s=12, slack_s=_SLACK_S),
    "throttled": lambda start, _: throttle(start, messages=40, least_goodput=0.4),
    "scale from zero": lambda start, _: zero(start, away_s=8),
    "stall": lambda start, _: stall(start, idle_s=1, slack_s=5 + _SLACK_S),
    "half-open": lambda start, _: half_open(start, idle_s=1, slack_s=5 + _SLACK_S),
    "store down": lambda start, _: store_down(start, down_s=3),
    "bodies": lambda start, _: bodies(start),
    "sizes": lambda start, _: sizes(start),
    "redrive": lambda start, _: redrive(start),
    "frames": lambda start, _: frames(start, cut_step=3, flip_step=37),
}


def _with(name: str, setting: Setting, arm: Callable[[Start, Setting], Outcome]) -> Arm:
    return lambda start, folder: arm(start, replace(setting, runtime=mutant(name, folder)))


def _kills(start: Start, setting: Setting) -> Outcome:
    return kills(start, setting, messages=80, times=4)


# By mutant: the arm that it is put through, and the check that must fail there.
CAUGHT: dict[str, tuple[Arm, str]] = {
    "delete first": (_with("delete first", KILLS, _kills), "lost"),
    "no claim": (_with("no claim", KILLS, _kills), "unexplained"),
    "no heartbeat": (
        _with("no heartbeat", LONG, lambda start, setting: long_generation(start, setting)),
        "unexplained",
    ),
    "unconditional put": (_with("unconditional put", FROZEN, frozen), "double"),
    "retry inside botocore": (
        _with("retry inside botocore", Setting(processes=1, max_attempts=3), attempts),
        "requests",
    ),
    "max receive 3": (lambda start, _: crash_loop(start, replace(CRASH_LOOP, max_receive_count=3)), "dead"),
}
