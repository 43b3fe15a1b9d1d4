"""Lengths of turns as they are drawn, from those that were recorded: a full context lets short turns through alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sin, sqrt
from typing import Final

import numpy as np

from loadproof.bench.learn.recorded import Recorded

APART: Final = 0.2  # rank correlation from which on two lengths are not drawn by themselves
MOST_DISTANCE: Final = 0.05  # of two distributions that are as good as one
CRITICAL: Final = 1.36  # over √n: 5% of samples lie farther off what they are drawn of (Kolmogorov, Smirnov)
_AT_RISK: Final = 30  # turns that could have been as long, fewer of which tell little of how many are
_UNSEEN: Final = 0.01  # of the time in pauses, in longer ones than a log's begin waits for


@dataclass(frozen=True, slots=True)
class TurnLengths:
    """Tokens that turns bring, and those of their answers, row by row. `firsts`: of first prompts, where these are of
    another distribution; `prompts` and `answers` are then later turns'. `correlation`: of the normal
    scores of two turns of a conversation, 0 where they have nothing to do with each other."""

    prompts: np.ndarray
    answers: np.ndarray
    firsts: np.ndarray | None = None
    first_answers: np.ndarray | None = None
    correlation: float = 0.0

    @property
    def all_answers(self) -> np.ndarray:
        return self.answers if self.first_answers is None else np.concatenate([self.answers, self.first_answers])


def turn_lengths(recorded: Recorded) -> TurnLengths:
    """Of the requests that tell which turn they are, as they were before those that found no room were left out.

    Room is what the longest recorded request leaves beside a turn's history. Where turns of one are alike, who
    sends long ones is seldom seen later on: first turns, which all had room, tell how long turns are.
    """
    turns, new = np.asarray(recorded.turns), np.asarray(recorded.new_tokens)
    whole, answers = np.asarray(recorded.input_tokens), np.asarray(recorded.output_tokens)
    room = int((whole + answers).max()) - (whole - new)
    first, second = turns == 1, np.flatnonzero(turns == 2)
    second_drawn = second[as_drawn((new + answers)[second], room[second])]
    apart = _apart(new[first], new[second_drawn])
    if not apart and (correlation := _alike((whole - new)[second], (new + answers)[second])):
        return TurnLengths(new[first], answers[first], correlation=correlation)
    told = turns > 1 if apart else turns > 0
    rows = np.flatnonzero(told)[as_drawn((new + answers)[told], room[told])]
    if not apart:
        return TurnLengths(new[rows], answers[rows])
    return TurnLengths(new[rows], answers[rows], new[first], answers[first])


def cut_out_s(recorded: Recorded) -> float:
    """Seconds from its begin on in which a log's first turns may be later ones of conversations that were under way; 0
    where none were: the prompts that come first in this time are then like those that do afterwards.

    One that was under way sends its next turn within a pause: all but a hundredth of the time of all pauses lies in
    such that are no longer than these seconds. At most half of the log.
    """
    times_s, pauses_s = np.asarray(recorded.at_s), np.sort(np.asarray(recorded.pauses_s))
    if not len(pauses_s):
        return 0.0
    spent_s = np.cumsum(pauses_s)
    longest_s = float(pauses_s[np.searchsorted(spent_s, (1 - _UNSEEN) * spent_s[-1])])
    since_s = times_s - times_s.min()
    within_s = min(longest_s, float(since_s.max()) / 2)
    first, early = np.asarray(recorded.turns) == 1, since_s < within_s
    new = np.asarray(recorded.new_tokens)
    return within_s if _apart(new[first & early], new[first & ~early]) else 0.0


def _alike(first_turns: np.ndarray, second_turns: np.ndarray) -> float:
    """Correlation of the normal scores of conversations' first and second turns, prompts with answers; 0 below 0.2 and
    where three standard errors reach that far. 2 · sin(π/6 · Spearman's), as of two normal variables (K. Pearson)."""
    if len(first_turns) < 2:
        return 0.0
    found = rank_correlation(first_turns, second_turns)
    return float(f"{2 * sin(pi / 6 * found):.2g}") if found >= max(APART, 3 / sqrt(len(first_turns))) else 0.0


def rank_correlation(prompts: Sequence[int] | np.ndarray, answers: Sequence[int] | np.ndarray) -> float:
    """Spearman's, of equal lengths at their mean rank; 0 where either never changes."""
    ranks = []
    for column in (np.asarray(prompts), np.asarray(answers)):
        _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - (counts - 1) / 2)[places])
    if ranks[0].std() == 0 or ranks[1].std() == 0:
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def as_drawn(lengths: np.ndarray, room: np.ndarray) -> np.ndarray:
    """As many rows as there are, some of them again and some no more: of the lengths before those over their `room`
    were left out.

    The chance that a length is at most x is the product over all recorded lengths u above x of 1 − d(u) / r(u): d of
    them are u long, and r could have been, being no longer and with room for it (D. Lynden-Bell, Monthly Notices of
    the Royal Astronomical Society 155, 1971). It holds where a length does not depend on its room. Where fewer than 30
    could have been, too little is known to count them for more.
    """
    distinct, place, counted = np.unique(lengths, return_inverse=True, return_counts=True)
    at_risk = np.cumsum(counted) - np.searchsorted(np.sort(room), distinct)
    passed = counted / np.maximum(at_risk, _AT_RISK)
    at_most = np.append(np.cumprod((1 - passed)[::-1])[::-1][1:], 1.0)
    chances = (at_most * passed / counted)[place]
    order = np.argsort(lengths, kind="stable")
    up_to = np.cumsum(chances[order])
    steps = (np.arange(len(lengths)) + 0.5) / len(lengths)
    found: np.ndarray = order[np.searchsorted(up_to, steps * up_to[-1])]
    return found


def _apart(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two samples are of different distributions, by more than 5 points (Kolmogorov and Smirnov's test)."""
    if not len(one) or not len(other):
        return False
    values = np.union1d(one, other)
    shares = [np.searchsorted(np.sort(sample), values, side="right") / len(sample) for sample in (one, other)]
    critical = CRITICAL * sqrt(1 / len(one) + 1 / len(other))
    return float(np.abs(shares[0] - shares[1]).max()) > max(MOST_DISTANCE, critical)
