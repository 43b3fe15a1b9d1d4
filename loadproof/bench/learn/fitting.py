"""A workload that is like recorded traffic: a distribution of each length, a rate, and how it comes in bursts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import erf, log, log1p, sqrt
from typing import Final, Literal

import numpy as np

from loadproof.bench.learn.reading import Recorded
from loadproof.errors import InputError

MOST_DISTANCE: Final = 0.05
SAMPLED: Final = 100
PAIRS, GROUPS = 200, 20  # pairs in all, and groups of prompts that as many of them come from
APART: Final = 0.2  # rank correlation from which on prompts and answers are not drawn by themselves
MOST_TURNS: Final = 256  # as a profile has it
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


@dataclass(frozen=True, slots=True)
class Learned:
    """The workload that was fitted. `burstiness` is 1/CV² of the gaps; None where they are as good as Poisson.

    `input_tokens` are those of a turn, without its history; `paired`: the lengths are values that go together. `turns`:
    of a conversation, the mean of all.
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


def fit(recorded: Recorded, seed: int = 0) -> Learned:
    """Raises InputError where all requests came at one moment: that has no rate."""
    if recorded.at_s[-1] <= 0:
        raise InputError("every request came at one moment, which has no rate; give more of the traffic")
    turns = turns_of(recorded.turns)
    columns = recorded.new_tokens if turns > 1 else recorded.input_tokens, recorded.output_tokens
    prompts, answers = (fit_lengths(column) for column in columns)
    correlation = rank_correlation(*columns)
    paired = abs(correlation) >= APART
    if paired:
        prompts, answers = (
            replace(one, distribution="empirical", values=values)
            for one, values in zip((prompts, answers), pairs_of(*columns), strict=True)
        )
    return Learned(
        prompts,
        answers,
        float(f"{(len(recorded) - 1) / recorded.at_s[-1] / recorded.share:.4g}"),
        burstiness_of(recorded.at_s, seed),
        turns,
        min(shared_prefix_of(recorded), prompts.min),  # a profile takes no prefix longer than a prompt
        correlation,
        paired,
    )


def rank_correlation(prompts: Sequence[int], answers: Sequence[int]) -> float:
    """Spearman's, of equal lengths at their mean rank; 0 where either never changes."""
    ranks = []
    for column in (np.asarray(prompts), np.asarray(answers)):
        _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - (counts - 1) / 2)[places])
    if ranks[0].std() == 0 or ranks[1].std() == 0:
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def pairs_of(prompts: Sequence[int], answers: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
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


def turns_of(turns: Sequence[int]) -> int:
    """Requests a conversation, by how many are first turns; 1 where none is seen to be one.

    Needs no conversation to be seen whole: each has one first turn, whatever share of all requests was recorded.
    """
    numbers = np.asarray(turns)
    firsts = int((numbers == 1).sum())
    return min(MOST_TURNS, max(1, round(len(numbers) / firsts))) if firsts else 1


def shared_prefix_of(recorded: Recorded) -> int:
    """Tokens of the system prompt that most requests begin with; 0 where no half of them share one."""
    count, tokens = max(recorded.prefixes.values(), default=[0, 0])
    return round(tokens / count) if 2 * count >= max(recorded.read, len(recorded)) else 0


def fit_lengths(counts: Sequence[int]) -> Lengths:
    """A lognormal of the counts' mean and deviation where it lies within 5 points of them, else a sample of them."""
    values = np.sort(np.asarray(counts, dtype=float))
    mean, stddev = float(values.mean()), float(values.std())
    low, high = int(values[0]), int(values[-1])
    if low == high:
        return Lengths("fixed", mean, 0.0, low, high, 0.0)
    distance = _distance(values, mean, stddev)
    rounded = float(f"{mean:.4g}"), float(f"{stddev:.4g}")
    if distance <= MOST_DISTANCE:
        return Lengths("lognormal", *rounded, low, high, distance)
    steps = (np.arange(SAMPLED) + 0.5) / SAMPLED
    sampled = tuple(int(value) for value in np.quantile(values, steps, method="inverted_cdf"))
    return Lengths("empirical", *rounded, low, high, distance, sampled)


def burstiness_of(at_s: Sequence[float], seed: int = 0) -> float | None:
    """1/CV² of the gaps. Times of whole seconds are spread over their second: finer than that nothing is known."""
    times = np.asarray(at_s)
    if np.all(times == np.floor(times)):
        times = np.sort(times + np.random.default_rng(seed).random(len(times)))
    gaps = np.diff(times)
    deviation = float(gaps.std())
    if len(gaps) < 2 or deviation == 0:
        return None
    found = float(f"{(float(gaps.mean()) / deviation) ** 2:.3g}")
    return None if _POISSON[0] <= found <= _POISSON[1] else max(found, 0.001)


def _distance(values: np.ndarray, mean: float, stddev: float) -> float:
    """Between the share of counts up to each value, and a lognormal's, cut at the values' own half."""
    variance = log1p((stddev / mean) ** 2)
    mu, sigma = log(mean) - variance / 2, sqrt(variance)
    distinct, counted = np.unique(values, return_counts=True)
    shares = np.cumsum(counted) / len(values)
    expected = np.array([(1 + erf((log(value + 0.5) - mu) / (sigma * sqrt(2)))) / 2 for value in distinct])
    return float(np.abs(shares - expected).max())
