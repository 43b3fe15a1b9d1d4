"""A workload that is like recorded traffic: a distribution of each length, a rate, and how it comes in bursts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import erf, log, sqrt
from typing import Final, Literal

import numpy as np

from loadproof.bench.learn.clock import shaped_s
from loadproof.bench.learn.recorded import Recorded
from loadproof.bench.learn.turn_lengths import (
    APART,
    CRITICAL,
    MOST_DISTANCE,
    TurnLengths,
    rank_correlation,
    turn_lengths,
)
from loadproof.errors import InputError
from loadproof.sessions import SessionClass, chain
from loadproof.token_counts import TokenCounts, log_parameters

SAMPLED: Final = 100
PAIRS, GROUPS = 200, 20  # pairs in all, and groups of prompts that as many of them come from
MOST_TURNS: Final = 256  # as a profile has it
_RARE: Final = 0.01  # of conversations, whose length is none to expect
_SAME: Final = 0.05  # of the turns: less is no difference
_POISSON: Final = (0.8, 1.25)  # burstiness that is as good as 1


@dataclass(frozen=True, slots=True)
class Lengths:
    """Token counts as a profile says them: fixed, lognormal, or `values` of the recorded ones at equal steps.

    `distance`: the largest difference between the recorded shares and a lognormal's (Kolmogorov-Smirnov).
    """

    distribution: Literal["fixed", "lognormal", "empirical"]
    mean: float
    stddev: float
    min: int
    max: int
    distance: float
    values: tuple[int, ...] = ()

    @property
    def counts(self) -> TokenCounts:
        """As they are drawn."""
        return TokenCounts(self.distribution, self.mean, self.stddev, self.min, self.max, self.values)


@dataclass(frozen=True, slots=True)
class Learned:
    """The workload that was fitted. `burstiness` is 1/CV² of the gaps between sessions; None: as good as Poisson.

    `input_tokens` are those of a turn, without its history, but for a first one's where these are others: then
    `first_input_tokens`; `paired`: the lengths are values that go together. `turns`:
    of a conversation, at most; it `continues` with this chance, within `max_context_tokens`. `shaped`: the rate is the
    mean of the profile's own shape of a day and week, by which its gaps are counted. `think_time_s` in the mean, from
    an answer's end to the next turn; None where nothing tells it.
    """

    input_tokens: Lengths
    output_tokens: Lengths
    requests_per_s: float
    burstiness: float | None
    turns: int = 1
    shared_prefix_tokens: int = 0
    correlation: float = 0.0
    """of ranks, between a prompt's length and its answer's (Spearman)"""
    paired: bool = False
    continues: float = 1.0
    mean_turns: float = 1.0
    longest_prompt_tokens: int = 0
    max_context_tokens: int = 0
    """the longest recorded prompt with its answer"""
    shaped: bool = False
    think_time_s: float | None = None
    think_time_stddev_s: float = 0.0
    first_input_tokens: Lengths | None = None
    turn_correlation: float = 0.0
    """of normal scores, between lengths of one conversation's turns"""

    @property
    def first_prompts(self) -> Lengths:
        """Of whole prompts without a history."""
        return self.first_input_tokens or self.input_tokens

    @property
    def ended_by_length(self) -> bool:
        """Whether conversations drawn of it may come to more than was recorded."""
        later = (self.turns - 1) * (self.input_tokens.max + self.output_tokens.max)
        return self.turns > 1 and self.first_prompts.max + self.output_tokens.max + later > self.max_context_tokens


def fit(recorded: Recorded, seed: int = 0, week: Sequence[float] = ()) -> Learned:
    """`week`: the factors of a profile's shape, if the rate is to be its mean.

    Raises InputError where all requests came at one moment: that has no rate.
    """
    if recorded.at_s[-1] <= 0:
        raise InputError("every request came at one moment, which has no rate; give more of the traffic")
    turns, mean_turns = turns_of(recorded.turns)
    whole = TurnLengths(np.asarray(recorded.input_tokens), np.asarray(recorded.output_tokens))
    longest_prompt, longest = int(whole.prompts.max()), int((whole.prompts + whole.answers).max())
    of_turns = turn_lengths(recorded) if turns > 1 else whole
    columns = of_turns.prompts, of_turns.answers
    prompts, answers = (fit_lengths(column) for column in (of_turns.prompts, of_turns.all_answers))
    firsts = None if of_turns.firsts is None else fit_lengths(of_turns.firsts)
    correlation = rank_correlation(*columns)
    paired = abs(correlation) >= APART
    if paired:
        prompts, answers = (
            replace(one, distribution="empirical", values=values)
            for one, values in zip((prompts, answers), pairs_of(*columns), strict=True)
        )
    times_s = np.asarray(recorded.at_s) + recorded.began_s
    lasted_s = float(shaped_s(times_s, week)[-1])
    if lasted_s <= 0:  # all of it where the shape has nothing
        week, lasted_s = (), recorded.at_s[-1]
    begun_s, requests_per_s = times_s, (len(recorded) - 1) / lasted_s
    if turns > 1:  # which a log that ends after its last conversations were begun is longer than
        begun_s = times_s[np.asarray(recorded.turns) == 1]
        begun_in_s = float(shaped_s(begun_s, week)[-1])
        requests_per_s = (len(begun_s) - 1) / begun_in_s * mean_turns if begun_in_s > 0 else requests_per_s
    learned = Learned(
        prompts,
        answers,
        float(f"{requests_per_s / recorded.share:.4g}"),
        burstiness_of(begun_s, seed, week),
        turns,
        min(shared_prefix_of(recorded), (firsts or prompts).min),  # a profile takes no prefix longer than a prompt
        correlation,
        paired,
        mean_turns=mean_turns,
        longest_prompt_tokens=longest_prompt,
        shaped=bool(week),
        first_input_tokens=firsts,
        turn_correlation=of_turns.correlation,
    )
    learned = ended_within(learned, longest)
    if turns == 1:
        return learned
    think_time_s, stddev_s = think_time_of(recorded)
    return replace(learned, think_time_s=think_time_s, think_time_stddev_s=stddev_s)


def ended_within(learned: Learned, tokens: int) -> Learned:
    """Conversations that end before a turn of more tokens with all before it, and by chance so that as many turns are
    sent in the mean as before."""
    if learned.turns == 1:
        return replace(learned, max_context_tokens=tokens)
    counts = learned.input_tokens.counts, learned.output_tokens.counts
    steps = chain(*counts, learned.turns, first_prompts=learned.first_prompts.counts)
    by_length = SessionClass(
        steps,
        paired_lengths=learned.paired,
        max_context_tokens=tokens,
        turn_correlation=learned.turn_correlation,
    )
    chance = goes_on(learned.mean_turns, [step.sent_share for step in by_length.expected])
    return replace(learned, max_context_tokens=tokens, continues=chance)


def think_time_of(recorded: Recorded) -> tuple[float | None, float]:
    """Mean and deviation of the seconds between answers and the turns that follow them; None where no end is told."""
    if not recorded.ends_told or not recorded.pauses_s:
        return None, 0.0
    pauses_s = np.asarray(recorded.pauses_s)
    return float(f"{pauses_s.mean():.3g}"), float(f"{pauses_s.std():.3g}")


def pairs_of(
    prompts: Sequence[int] | np.ndarray, answers: Sequence[int] | np.ndarray
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Recorded pairs: of equal groups of the prompts' lengths, each at equal steps through its answers' lengths.

    Steps through the prompts alone take one answer by chance at each, so the answers' tail would be as chance has it.
    """
    columns = np.asarray(prompts), np.asarray(answers)
    order = np.lexsort((columns[1], columns[0]))
    steps = (np.arange(PAIRS // GROUPS) + 0.5) * GROUPS / PAIRS
    taken = [
        group[np.argsort(columns[1][group], kind="stable")[(steps * len(group)).astype(int)]]
        for group in np.array_split(order, min(GROUPS, len(order)))
    ]
    places = np.concatenate(taken)
    return tuple(columns[0][places].tolist()), tuple(columns[1][places].tolist())


def is_told(recorded: Recorded) -> bool:
    """Whether at least half of the requests tell which turn of their conversation they are."""
    return 2 * int((np.asarray(recorded.turns) > 0).sum()) >= len(recorded)


def turns_of(turns: Sequence[int]) -> tuple[int, float]:
    """Turns of a conversation: at most, and in the mean.

    The mean is requests by first turns: it needs no conversation to be seen whole, since each has one first turn,
    whatever share of all requests was recorded. The most is what one conversation in a hundred gets to. Without a first
    turn, or where nothing tells turns: 1.
    """
    numbers = np.asarray(turns)
    counted = np.bincount(numbers[numbers > 0], minlength=2)
    firsts = int(counted[1])
    if not firsts:
        return 1, 1.0
    mean = int(counted.sum()) / firsts
    most = min(MOST_TURNS, int(np.flatnonzero(counted >= max(1.0, _RARE * firsts)).max()))
    if most == 1 or mean < 1 + _SAME:
        return 1, 1.0
    if mean >= (1 - _SAME) * most:  # all are as long as each other
        return min(MOST_TURNS, round(mean)), min(MOST_TURNS, round(mean))
    return most, mean


def goes_on(mean: float, reached: Sequence[float]) -> float:
    """The chance that a conversation goes on after each turn so that it has `mean` of them.

    `reached`: the shares of conversations whose lengths let them get to each turn. 1 where these alone are as few.
    """
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        fewer = sum(share * middle**turn for turn, share in enumerate(reached)) < mean
        low, high = (middle, high) if fewer else (low, middle)
    return float(f"{low:.3g}")


def shared_prefix_of(recorded: Recorded) -> int:
    """Tokens of the system prompt that most requests begin with; 0 where no half of them share one."""
    count, tokens = max(recorded.prefixes.values(), default=[0, 0])
    return round(tokens / count) if 2 * count >= max(recorded.read, len(recorded)) else 0


def fit_lengths(counts: Sequence[int] | np.ndarray) -> Lengths:
    """A lognormal of the counts' mean and deviation where they could be drawn of it, within 5 points; else a sample."""
    values = np.sort(np.asarray(counts, dtype=float))
    mean, stddev = float(values.mean()), float(values.std())
    low, high = int(values[0]), int(values[-1])
    if low == high:
        return Lengths("fixed", mean, 0.0, low, high, 0.0)
    distance = _distance(values, mean, stddev)
    rounded = float(f"{mean:.4g}"), float(f"{stddev:.4g}")
    if distance <= min(MOST_DISTANCE, CRITICAL / sqrt(len(values))):
        return Lengths("lognormal", *rounded, low, high, distance)
    steps = (np.arange(SAMPLED) + 0.5) / SAMPLED
    sampled = tuple(int(value) for value in np.quantile(values, steps, method="inverted_cdf"))
    return Lengths("empirical", *rounded, low, high, distance, sampled)


def spread_s(times_s: Sequence[float] | np.ndarray, seed: int = 0) -> np.ndarray:
    """Times of whole seconds spread over their second, since finer than that nothing is known; others as they are."""
    times = np.asarray(times_s)
    if np.all(np.diff(times) == np.floor(np.diff(times))):
        times = np.sort(times + np.random.default_rng(seed).random(len(times)))
    return times


def burstiness_of(times_s: Sequence[float] | np.ndarray, seed: int = 0, week: Sequence[float] = ()) -> float | None:
    """1/CV² of the gaps, counted by the shape of a week if one is given."""
    times = spread_s(times_s, seed)
    if len(times) < 3:
        return None
    gaps = np.diff(shaped_s(times, week))
    deviation = float(gaps.std())
    if deviation == 0:
        return None
    found = float(f"{(float(gaps.mean()) / deviation) ** 2:.3g}")
    return None if _POISSON[0] <= found <= _POISSON[1] else max(found, 0.001)


def _distance(values: np.ndarray, mean: float, stddev: float) -> float:
    """Between the share of counts up to each value, and a lognormal's, cut at the values' own half."""
    mu, sigma = log_parameters(mean, stddev)
    distinct, counted = np.unique(values, return_counts=True)
    shares = np.cumsum(counted) / len(values)
    expected = np.array([(1 + erf((log(value + 0.5) - mu) / (sigma * sqrt(2)))) / 2 for value in distinct])
    return float(np.abs(shares - expected).max())
