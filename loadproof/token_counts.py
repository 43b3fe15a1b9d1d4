"""How many tokens prompts and answers have: distributions, and how counts are drawn of them, alone and together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, log, log1p, sqrt
from random import Random
from statistics import NormalDist
from typing import Final, Literal

TOKEN_SIDES: Final = ("input_tokens", "first_input_tokens", "output_tokens")  # of a workload
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """How many tokens a request asks for: a distribution cut to [minimum, maximum]. `mean` is of the distribution."""

    distribution: Literal["fixed", "normal", "lognormal", "uniform", "empirical"]
    """its shape"""
    mean: float
    """before it is cut"""
    stddev: float = 0.0
    """standard deviation"""
    minimum: int = 1
    """fewest"""
    maximum: int | None = None
    """most; null: no bound"""
    values: tuple[int, ...] = ()
    """of an empirical one: drawn from, each as likely"""

    @property
    def planned(self) -> int:
        """The mean as it is planned: a whole number, and no less than the fewest."""
        return max(self.minimum, round(self.mean))

    def drawn(self, chance: Random) -> int:
        """One count, rounded and cut to its bounds; at least 1.

        lognormal: `mean` and `stddev` are of the counts themselves, not of their logarithm (`log_parameters`).
        empirical: one of its values, each as likely.
        """
        if self.distribution == "empirical":
            return chance.choice(self.values)
        value = self.mean
        if self.distribution == "normal":
            value = chance.gauss(self.mean, self.stddev)
        elif self.distribution == "lognormal":
            value = lognormal(self.mean, self.stddev, chance)
        elif self.distribution == "uniform":
            value = chance.uniform(self.minimum, self.maximum or self.minimum)
        return self._cut(value)

    def at(self, score: float) -> int:
        """The count at a standard normal score: 0 is the median, 1.64 the 95th percentile."""
        if self.distribution == "empirical":
            return _sorted(self.values)[_place(score, len(self.values))]
        value = self.mean
        if self.distribution == "normal":
            value += self.stddev * score
        elif self.distribution == "lognormal" and self.stddev:
            mu, sigma = log_parameters(self.mean, self.stddev)
            value = exp(mu + sigma * score)
        elif self.distribution == "uniform":
            value = self.minimum + ((self.maximum or self.minimum) - self.minimum) * _NORMAL.cdf(score)
        return self._cut(value)

    def _cut(self, value: float) -> int:
        count = round(value)
        if self.maximum is not None and count > self.maximum:
            count = self.maximum
        return max(self.minimum, 1, count)


@lru_cache(maxsize=64)
def _sorted(values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(values))


def _place(score: float, of: int) -> int:
    """Which of so many equally likely values a standard normal score falls on."""
    return min(of - 1, int(of * _NORMAL.cdf(score)))


def lognormal(mean: float, stddev: float, chance: Random) -> float:
    """A value of this mean and standard deviation: `mean` itself where nothing spreads."""
    if not mean or not stddev:
        return mean
    return chance.lognormvariate(*log_parameters(mean, stddev))


@lru_cache(maxsize=256)
def log_parameters(mean: float, stddev: float) -> tuple[float, float]:
    """(μ, σ) of the logarithm of a lognormal with this mean and deviation.

    σ² = ln(1 + stddev²/mean²), μ = ln mean − σ²/2.
    """
    variance = log1p((stddev / mean) ** 2)
    return log(mean) - variance / 2, sqrt(variance)


def drawn_lengths(prompts: TokenCounts, answers: TokenCounts, chance: Random, *, paired: bool) -> tuple[int, int]:
    """(prompt, answer): the same place in the values of both where they are `paired`, else each drawn by itself.

    Lengths that have no values, or not as many, are no pairs: a class's own beside the workload's paired ones.
    """
    if paired and len(prompts.values) == len(answers.values) > 0:
        at = chance.randrange(len(prompts.values))
        return prompts.values[at], answers.values[at]
    return prompts.drawn(chance), answers.drawn(chance)


def alike_lengths(
    prompts: TokenCounts,
    answers: TokenCounts,
    chance: Random,
    user: tuple[float, float],
    correlation: float,
    *,
    paired: bool,
) -> tuple[int, int]:
    """(prompt, answer) at scores that are partly the `user`'s own (a Gaussian copula): each distribution is as it is.

    Paired ones are drawn by the first score, from the shortest pair to the longest.
    """
    of_user, of_turn = sqrt(correlation), sqrt(1 - correlation)
    prompt, answer = (of_user * one + of_turn * chance.gauss() for one in user)
    if paired and len(prompts.values) == len(answers.values) > 0:
        both = _sorted_pairs(prompts.values, answers.values)
        return both[_place(prompt, len(both))]
    return prompts.at(prompt), answers.at(answer)


@lru_cache(maxsize=64)
def _sorted_pairs(prompts: tuple[int, ...], answers: tuple[int, ...]) -> list[tuple[int, int]]:
    return sorted(zip(prompts, answers, strict=True), key=sum)
