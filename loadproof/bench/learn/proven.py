"""What a profile's workload would be recorded as: lengths drawn of its sessions, and how long these are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, log
from random import Random
from typing import Final

import numpy as np

from loadproof.sessions import Mixture, SessionClass

_DRAWS: Final = 200_000  # requests: shares of an eighth are known to 1% of themselves


@dataclass(frozen=True, slots=True)
class Drawn:
    """Requests of the proven workload: whole prompts, what of them is new, answers, and places in sessions from 1 on.

    `longest`: requests of the longest session drawn.
    """

    prompts: np.ndarray
    new: np.ndarray
    answers: np.ndarray
    turns: np.ndarray
    longest: int


@lru_cache(maxsize=1)
def drawn_of(mixture: Mixture, seed: int = 0) -> Drawn:
    """Sessions of the workload, by chance, until there are 200,000 requests."""
    chance, rows, longest = Random(seed), list[tuple[int, int, int, int]](), 1
    while len(rows) < _DRAWS:
        steps = mixture.classes[mixture.place(chance)].drawn(chance)
        longest = max(longest, len(steps))
        rows += [
            (one.input_tokens, one.input_tokens - one.history_tokens, one.output_tokens, turn)
            for turn, one in enumerate(steps, start=1)
        ]
    prompts, new, answers, turns = np.array(rows).T
    return Drawn(prompts, new, answers, turns, longest)


def is_uniform(mixture: Mixture) -> bool:
    """Whether lengths of all requests of a session are drawn alike and each by itself, its history left out.

    Where lengths end a session, those of its later requests are the shorter ones.
    """
    first = mixture.classes[0]
    kinds = {(one.input_tokens, one.output_tokens, one.image_tokens) for one in first.steps}
    return len(mixture.classes) == 1 and len(kinds) == 1 and not first.drawn_whole


def begins_with_one(mixture: Mixture) -> bool:
    """Whether every session has one request that waits for no other."""
    return all(sum(1 for step in one.steps if not step.after) == 1 for one in mixture.classes)


def cost_of_a_session(mixture: Mixture, tilt: float, share: float) -> float | None:
    """What a session's first request has to cost, where every request gains `tilt`, for a fair bet on their number.

    The gain of a session is e^(tilt · requests - cost · firsts). Of L requests each is recorded with a chance of
    `share`, so that its mean is (share · e^(tilt - cost) + 1 - share) · E[(1 + share · (e^tilt - 1))^(L - 1)]; it is 1
    at this cost: ln E[e^(tilt · L)] where all are recorded. None where no cost makes it fair.
    """
    others = 1 + share * (exp(tilt) - 1)
    gained = mixture.mean(lambda one: sum(chance * others ** (count - 1) for count, chance in _counts(one)))
    first = (1 / gained - (1 - share)) / share
    return tilt - log(first) if first > 0 else None


def _counts(one: SessionClass) -> list[tuple[int, float]]:
    """(requests of a session, chance): those that send one step and not the next."""
    sent = [step.sent_share for step in one.expected]
    return [(count, now - then) for count, (now, then) in enumerate(zip(sent, [*sent[1:], 0.0], strict=True), start=1)]
