"""What advice is made of: alternatives ranked by a goal, recommendations, settings. Every figure is predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from loadproof.advice.changes import KeyChange
from loadproof.capacity.confidence import Grade
from loadproof.capacity.curve import PredictedLevel
from loadproof.capacity.memory import Fits
from loadproof.capacity.outlook import Expected, ObjectiveOutlook

Goal = Literal[
    "minimum latency",
    "maximum throughput",
    "least cost per hour",
    "least cost per million tokens",
    "least cost that meets the objectives",
]
GOALS: tuple[Goal, ...] = get_args(Goal)
DEFAULT_GOAL: Goal = "least cost that meets the objectives"


@dataclass(frozen=True, slots=True)
class Range:
    """A predicted value and the band of its grade around it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to serve the workload: `instances` machines with `copies_per_instance` copies each.

    `at_objectives` is the level at the objectives' concurrency over all copies; `ttft_ms`, `tpot_ms` and `e2e_ms`
    repeat it with their ranges. `knee_*` is the marginal-gain knee; `usd_per_million_tokens` is at the knee, per
    million output tokens. All of these are None where the model does not fit; prices are None where none is known.
    `objectives` is the worst of `outlook`. `is_own` marks the profile as it is, `dominated` what another
    alternative beats in every figure. `unverified`: the catalog marks figures of its machine or accelerator as not
    checked against a source. `changes` turn the profile into this alternative; `notes` say what else would change.
    """

    instance_type: str
    accelerator: str
    tensor_parallel_degree: int
    copies_per_instance: int
    instances: int
    copies: int
    family: str
    version: str
    is_own: bool
    fits: Fits
    grade: Grade
    at_objectives: PredictedLevel | None
    ttft_ms: Range | None
    tpot_ms: Range | None
    e2e_ms: Range | None
    knee_concurrency: int | None
    knee_reached: bool
    knee_output_tokens_per_s: Range | None
    usd_per_hour: float | None
    usd_per_million_tokens: Range | None
    price_derived: bool
    objectives: Expected
    outlook: tuple[ObjectiveOutlook, ...]
    dominated: bool
    changes: tuple[KeyChange, ...]
    notes: tuple[str, ...]
    unverified: bool = False


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The first of a goal's ranking and why; `alternative` is None where none will do, and `reason` says so."""

    goal: Goal
    alternative: Alternative | None
    reason: str


@dataclass(frozen=True, slots=True)
class SettingAdvice:
    """One setting worth changing: `metric` goes from `before` to `after` (both predicted) once it is set.

    `changes` usually is one key; copies change two. `reason` is one sentence with the figures in it.
    """

    setting: str
    current: str
    proposed: str
    metric: str
    before: float
    after: float
    reason: str
    changes: tuple[KeyChange, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """All that is worth showing, ranked by `goal`, and how many were looked at.

    `ranked` holds the profile's own configuration, every recommended one, and of those that no other dominates one for
    each machine, degree and family: the number of instances that is best for the goal. Best first. `considered` were
    predicted; of these `do_not_fit` the memory, `fit_marginally` (within the prediction's uncertainty), `cannot_serve`
    the objectives' concurrency (requests refused, or ended by the 60 s limit) and `dominated` are never in `ranked`.
    `notes` say what was left out of the search and why. `settings` are for the profile as it is, on its own machines.
    """

    goal: Goal
    ranked: tuple[Alternative, ...]
    recommendations: tuple[Recommendation, ...]
    considered: int
    do_not_fit: int
    fit_marginally: int
    cannot_serve: int
    dominated: int
    notes: tuple[str, ...]
    settings: tuple[SettingAdvice, ...] = ()

    @property
    def recommended(self) -> Recommendation:
        """The recommendation of the chosen goal."""
        return next(found for found in self.recommendations if found.goal == self.goal)
