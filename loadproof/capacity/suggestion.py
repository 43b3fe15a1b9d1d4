"""Which few levels to measure, so that a profile's ranges become narrow: all of it predicted before anything is sent.

Every set of at most so many candidate levels, with every number of requests, is a design. A design is worth the mean
doubt it leaves in what the profile asks: half of it the figures its objectives name at their level, half its curve
(I-optimality; Chaloner and Verdinelli 1995, as `doubts` says, whose algebra it is). Of the designs within the minutes
that come within `AS_GOOD` of the best, the one that takes the least time is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import ceil, sqrt
from statistics import mean
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from loadproof.capacity.calibration_problem import Problem, problem_of
from loadproof.capacity.confidence import Confidence, confidence_of
from loadproof.capacity.curve import INVOCATION_LIMIT_MS, PredictedLevel
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.doubts import (
    EIGHT_IN_TEN,
    Information,
    Left,
    Slopes,
    bands,
    covariance,
    doubts,
    information_of,
    prior_spread,
    slopes_of,
)
from loadproof.capacity.duration import BETWEEN_LEVELS_S
from loadproof.capacity.observations import FigureName, Figures, Observation, predicted_figures
from loadproof.capacity.outlook import ObjectiveOutlook, outlook_of
from loadproof.capacity.search import ladder
from loadproof.capacity.servers import OwnMeasurement
from loadproof.capacity.workload import PlannedWorkload, planned_deployment, planned_workload
from loadproof.errors import InputError
from loadproof.profiles.promises import promises_of
from loadproof.profiles.schema import Profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float64]

AS_GOOD = 0.05
MOST_LEVELS = 4
REQUESTS = (24, 48, 96, 192, 384)
_MOST_CANDIDATES = 14  # 1001 sets of four
_ROUNDS = 4  # requests a slot at least: a level's first round finds no queue, its last one fewer and fewer others
_SPREAD_OF_EQUALS = 0.1  # of latencies of equal requests, as a share: what else a server does
_SPREAD_OF_TTFT = 0.5
_UNSTREAMED: tuple[FigureName, ...] = ("output_tokens_per_s", "e2e_ms")
_STREAMED: tuple[FigureName, ...] = (*_UNSTREAMED, "ttft_ms", "tpot_ms")
_NEAR_LIMIT_DOUBT = 0.40 / EIGHT_IN_TEN


@dataclass(frozen=True, slots=True)
class LevelToMeasure:
    """One level of a design. `requests` are sent there beside the warm-up; `minutes` is all of it, predicted."""

    concurrency: int
    requests: int
    minutes: float


@dataclass(frozen=True, slots=True)
class Widths:
    """Ranges' widths, (high - low) / predicted: mean over the objectives' figures and over the curve's."""

    band: float
    ttft_band: float
    objectives: float | None
    curve: float


@dataclass(frozen=True, slots=True)
class ObjectiveRange:
    """One objective's range now and, expected, after the measurement; None where it has none."""

    now: ObjectiveOutlook
    expected: ObjectiveOutlook


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The levels to measure. `at_concurrency` is the one a benchmark of them can be judged at; `designs` were weighed.

    `expected` is of a planner whose form is right: what the measurement shows beyond that widens its bands.
    """

    levels: tuple[LevelToMeasure, ...]
    requests_per_level: int
    at_concurrency: int
    objectives_at: int
    minutes: float
    grade: str
    now: Widths
    expected: Widths
    objectives: tuple[ObjectiveRange, ...]
    curve: tuple[int, ...]
    designs: int


@dataclass(frozen=True, slots=True)
class Design:
    """A set of levels with its requests a level, its minutes, and the mean doubt it leaves."""

    concurrencies: tuple[int, ...]
    requests: int
    minutes: float
    doubt: float


def suggest(profile: Profile, *, minutes: float = 15.0, levels: int = 2) -> Suggestion:
    """At most `levels` levels that can be measured in so many minutes of load.

    Raises InputError where there is nothing to plan or to measure, and where the minutes are too few for any level.
    """
    if not 0 < minutes <= 24 * 60:
        raise InputError(f"--minutes {minutes:g}: expected above 0, at most a day ({24 * 60})")
    if not 1 <= levels <= MOST_LEVELS:
        raise InputError(f"--levels {levels}: expected 1..{MOST_LEVELS}")
    choice = Choice(profile)
    best = choice.best(minutes, levels)
    now = confidence_of(planned_deployment(profile), choice.workload.turns, choice.workload.input_tokens)
    expected = choice.confidence_after(best)
    before, after = choice.outlook(now), choice.outlook(expected)
    measured = tuple(
        LevelToMeasure(load, best.requests, choice.minutes_at(load, best.requests)) for load in best.concurrencies
    )
    return Suggestion(
        levels=measured,
        requests_per_level=best.requests,
        at_concurrency=choice.judged_at(best.concurrencies),
        objectives_at=profile.objectives.at_concurrency,
        minutes=best.minutes,
        grade=now.grade,
        now=choice.widths(now),
        expected=choice.widths(expected),
        objectives=tuple(ObjectiveRange(*pair) for pair in zip(before, after, strict=True)),
        curve=tuple(level.concurrency for level in choice.curve),
        designs=choice.weighed,
    )


class Choice:
    """Candidate levels of a profile, what each would say, and what the profile wants to know."""

    def __init__(self, profile: Profile) -> None:
        if profile.calibration is not None and profile.calibration.hardware is not None:
            raise InputError(
                f"{profile.name}: calibrated on {profile.calibration.hardware.name} in place of its accelerator, of "
                "which no shipped row says how sure it is; measure the lowest, a middle and the highest level"
            )
        self.profile = profile
        self.deployment = planned_deployment(profile.model_copy(update={"calibration": None}))
        self.workload: PlannedWorkload = planned_workload(profile)
        self.shipped = confidence_of(self.deployment, self.workload.turns, self.workload.input_tokens)
        self.weighed = 0
        self._known_slopes: dict[int, Slopes] = {}
        self._kinds = _STREAMED if profile.workload.streaming else _UNSTREAMED
        listed = {*profile.benchmark.concurrency, profile.objectives.at_concurrency}
        known = {level.concurrency: level for level in ladder(self._level, self.deployment, listed)}
        if not known:
            raise InputError(f"{profile.name}: no such request can be served; see `loadproof plan`")
        self.curve = [known[load] for load in sorted(listed & known.keys())] or list(known.values())[:1]
        self.candidates = self._measurable(known)
        self.problem: Problem = problem_of([self.observed(1)], None)
        self.spread = self._prior()

    def _level(self, concurrency: int) -> PredictedLevel | None:
        return self.workload.level(self.deployment, concurrency)

    def _measurable(self, known: dict[int, PredictedLevel]) -> list[int]:
        """Levels whose requests end in time: at most so many, spread over the ladder. None past what the profile's own
        benchmark sends: nobody agreed to it, and further copies may start there."""
        timeout_ms = self.profile.benchmark.request_timeout_s * 1e3
        limit_ms = timeout_ms if self.profile.workload.streaming else min(timeout_ms, INVOCATION_LIMIT_MS)
        rows = sorted(known.items())
        most = self.curve[-1].concurrency
        found = [load for load, level in rows if load <= most and level.e2e_ms < limit_ms and not level.refused]
        if len(found) <= _MOST_CANDIDATES:
            return found
        return [found[round(at)] for at in np.linspace(0, len(found) - 1, _MOST_CANDIDATES)]

    def observed(self, concurrency: int, measured: Figures | None = None) -> Observation:
        """The level as a calibration reads it from a run of the profile."""
        tokens = self.workload.input_tokens, self.workload.output_tokens
        return Observation(
            f"at {concurrency}",
            self.deployment,
            *tokens,
            concurrency,
            measured or Figures(),
            workload=self.workload,
        )

    def _prior(self) -> Vector:
        targets = [slopes for slopes, _ in self._targets]
        return prior_spread(list(self.problem.priors), targets, self.shipped.band, self.shipped.ttft_band)

    @cached_property
    def _targets(self) -> list[tuple[Slopes, float]]:
        """What the profile asks, with weights: its objectives' figures at their level, then those of its curve."""
        at = self.profile.objectives.at_concurrency
        named = [name for row in self.outlook(self.shipped) if (name := _figure_of(row.name)) is not None]
        slopes = {level.concurrency: self._slopes(level.concurrency) for level in self.curve}
        asked = [(slopes[at].only([name]), 1 / len(named)) for name in named] if at in slopes else []
        asked = [(found, weight) for found, weight in asked if found.figures]
        return asked + [(found, 1 / len(slopes)) for found in slopes.values()]

    def _slopes(self, concurrency: int) -> Slopes:
        if concurrency not in self._known_slopes:
            cell = self.observed(concurrency)
            self._known_slopes[concurrency] = slopes_of(
                lambda moved: predicted_figures(cell, self.problem.applied(self.deployment, moved)), self.problem.priors
            ).only(self._kinds)
        return self._known_slopes[concurrency]

    def information(self, concurrency: int, requests: int) -> Information:
        """Sample means of n requests: answers of spread lengths are off by stddev / mean / sqrt(n)."""
        answers = self.workload.answers
        lengths = (answers.stddev or 0.0) / self.workload.output_tokens if answers is not None else 0.0
        level = self._level(concurrency)
        near = _NEAR_LIMIT_DOUBT if level is not None and level.near_limit else 0.0
        return information_of(
            self._slopes(concurrency),
            Left(),
            sampling=sqrt((lengths**2 + _SPREAD_OF_EQUALS**2) / requests),
            ttft_sampling=sqrt(_SPREAD_OF_TTFT**2 / requests + near**2),
        )

    def judged_at(self, concurrencies: Sequence[int]) -> int:
        """The objectives' level where it is among them, else the last: a benchmark is told one that it measures."""
        wanted = self.profile.objectives.at_concurrency
        return wanted if wanted in concurrencies else max(concurrencies)

    def minutes_at(self, concurrency: int, requests: int) -> float:
        """As `benchmark_duration_s` counts: `(requests + warm-up) · (e2e + think time) / in flight`."""
        level = self._level(concurrency)
        assert level is not None  # a candidate
        turns = self.profile.workload.turns
        think_s = self.profile.workload.think_time_s * (turns - 1) / turns
        warm_up = ceil(self.profile.benchmark.warmup_requests / concurrency) * concurrency
        sent = requests + warm_up
        return (sent * (level.e2e_ms / 1e3 + think_s) / concurrency + BETWEEN_LEVELS_S) / 60

    def designs(self, minutes: float, levels: int) -> Iterator[Design]:
        """Those within the minutes, each with what it leaves."""
        for requests in REQUESTS:
            fitting = [load for load in self.candidates if requests >= _ROUNDS * load]
            says = {load: self.information(load, requests) for load in fitting}
            for count in range(1, levels + 1):
                for chosen in combinations(fitting, count):
                    takes = sum(self.minutes_at(load, requests) for load in chosen)
                    if takes <= minutes:
                        yield Design(chosen, requests, takes, self.doubt_after([says[load] for load in chosen]))

    def doubt_after(self, measured: Sequence[Information]) -> float:
        """The weighted mean standard deviation of what the profile asks, each a share."""
        after = covariance(measured, self.spread)
        total = weights = 0.0
        for slopes, weight in self._targets:
            total += weight * mean(sd for _, sd in doubts([slopes], after, Left()))
            weights += weight
        return total / weights

    def best(self, minutes: float, levels: int) -> Design:
        """The shortest of those that are as good as any. Raises InputError where no level fits the minutes."""
        found = list(self.designs(minutes, levels))
        self.weighed = len(found)
        if not found:
            if not self.candidates:
                raise InputError(
                    f"{self.profile.name}: no level's requests are predicted to end in time; see `loadproof plan`"
                )
            least = min(design.minutes for design in self.designs(float("inf"), 1))
            raise InputError(
                f"--minutes {minutes:g}: no level of {self.profile.name} can be measured in it; the shortest takes "
                f"{ceil(least * 10) / 10:g}"
            )
        least_doubt = min(design.doubt for design in found)
        return min((one for one in found if one.doubt <= least_doubt * (1 + AS_GOOD)), key=lambda one: one.minutes)

    def bands_after(self, design: Design) -> tuple[float, float]:
        """As `calibration.fit` will say them of the curve, where the levels show the planner's form to be right."""
        measured = [self.information(load, design.requests) for load in design.concurrencies]
        curve = [self._slopes(level.concurrency) for level in self.curve]
        band, ttft_band = bands(doubts(curve, covariance(measured, self.spread), Left()))
        # Without a stream no first token is seen, and nothing is learnt of it. A curve has other figures always.
        return band or self.shipped.band, ttft_band or self.shipped.ttft_band

    def confidence_after(self, design: Design) -> Confidence:
        band, ttft_band = self.bands_after(design)
        where: PlannedDeployment = self.deployment
        streams = self.profile.workload.streaming
        own = OwnMeasurement(band, ttft_band, where.version, where.accelerators, (where.model_id,), streams)
        return confidence_of(replace(where, server=replace(where.server, own=own)), self.workload.turns)

    def outlook(self, confidence: Confidence) -> tuple[ObjectiveOutlook, ...]:
        level = self._level(self.profile.objectives.at_concurrency)
        return outlook_of(promises_of(self.profile), level, self.workload, confidence)

    def widths(self, confidence: Confidence) -> Widths:
        rows = [row for row in self.outlook(confidence) if _figure_of(row.name) is not None]
        named = [width for row in rows if (width := _width(row.low, row.high, row.predicted)) is not None]
        curve = [
            width
            for level in self.curve
            for name in self._kinds
            for value in (_value(level, name),)
            if value
            for width in (_width(*confidence.range_of(name, value, level), value),)
            if width is not None
        ]
        return Widths(confidence.band, confidence.ttft_band, mean(named) if named else None, mean(curve))


def _value(level: PredictedLevel, name: FigureName) -> float:
    value: float = getattr(level, name)
    return value


def _width(low: float | None, high: float | None, predicted: float | None) -> float | None:
    return (high - low) / predicted if predicted and low is not None and high is not None else None


def _figure_of(objective: str) -> FigureName | None:
    """The figure whose doubt an objective's is; None for a share of errors, which is counted."""
    if objective == "error_rate_max":
        return None
    if objective.startswith("ttft"):
        return "ttft_ms"
    if objective.startswith(("itl", "tpot")):
        return "tpot_ms"
    return "e2e_ms" if objective.startswith("e2e") else "output_tokens_per_s"
