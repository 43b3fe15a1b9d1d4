"""The arms as `make test` runs them: one a fault, small, and several at a time, for most of what they do is waiting."""

from __future__ import annotations

from collections.abc import Callable

from chaos_crashes import (
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

_SLACK_S = 30.0  # how late is late is judged by `make chaos`, on a machine of its own; here no promise hangs on it
Arm = Callable[[Start], Outcome]

HELD: dict[str, Arm] = {
    "kill -9": lambda start: kills(start, messages=60, times=4),
    "SIGTERM": lambda start: terms(start, messages=30, times=3, slack_s=_SLACK_S),
    "SIGTERM, short drain": lambda start: cut_drain(start, slack_s=_SLACK_S),
    "long generation": lambda start: long_generation(start, leases=5),
    "crash loop": crash_loop,
    "frozen": frozen,
    "500s": lambda start: errors(start, messages=40),
    "attempts": attempts,
    "503s": lambda start: outage(start, messages=20, down_s=2, slack_s=_SLACK_S),
    "throttled": lambda start: throttle(start, messages=16, processes=4, at_most=2, generation_s=0.5),
    "scale from zero": lambda start: zero(start, away_s=2),
    "stall": lambda start: stall(start, idle_s=1, slack_s=_SLACK_S),
    "half-open": lambda start: half_open(start, idle_s=1, slack_s=_SLACK_S),
    "store down": lambda start: store_down(start, down_s=2),
    "bodies": bodies,
    "sizes": sizes,
    "redrive": redrive,
    "frames": lambda start: frames(start, cut_step=7, flip_step=101),
}
