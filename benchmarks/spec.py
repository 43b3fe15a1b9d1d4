"""What a run will do, whole and frozen. `plan.json` holds it, and `--resume` reads it back: nothing else is needed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchmarks.objectives import Objective

Kind = Literal["sagemaker", "openai"]
Protocol = Literal["tgi", "lmi", "openai"]


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go. Kind "sagemaker" is the SageMaker runtime; "openai" is any HTTP server, by `endpoint` URL.

    `local_cloud` names what answers behind a local cloud's runtime: its twin (then every latency is simulated), or a
    real model server over HTTP. None: no local cloud known.
    """

    kind: Kind
    endpoint: str
    protocol: Protocol
    streaming: bool = True
    component: str | None = None
    endpoint_url: str | None = None
    region: str | None = None
    model: str | None = None
    local_cloud: Literal["twin", "http"] | None = None


@dataclass(frozen=True, slots=True)
class ProfileRef:
    """The profile a run is evidence for."""

    name: str
    file: str
    sha256: str
    environment: str | None


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """How many tokens a request asks for: a distribution cut to [minimum, maximum]."""

    distribution: Literal["fixed", "normal", "lognormal", "uniform"]
    mean: float
    stddev: float = 0.0
    minimum: int = 1
    maximum: int | None = None


def fixed_tokens(count: int) -> TokenCounts:
    return TokenCounts("fixed", float(count))


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """What requests look like. `salt` makes prompts of this run unlike those of any other run."""

    input_tokens: TokenCounts
    output_tokens: TokenCounts
    seed: int = 0
    shared_prefix_tokens: int = 0
    salt: str = ""


@dataclass(frozen=True, slots=True)
class PredictedPoint:
    """What the planner expects at one concurrency. Predicted, never measured."""

    concurrency: int
    ttft_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None
    output_tokens_per_s: float | None
    requests_per_s: float | None


@dataclass(frozen=True, slots=True)
class Prediction:
    """The planner's curve and how well it is founded (A is best, D is a guess)."""

    grade: str
    levels: tuple[PredictedPoint, ...]


@dataclass(frozen=True, slots=True)
class BenchmarkSpec:
    """One benchmark run: a closed-loop sweep over `concurrency`, `requests_per_level` requests at each.

    Before each level `warmup_requests` go out at that level's concurrency; they open connections and fill caches and
    count in no figure. Objectives must hold at `at_concurrency` (None: at the highest level). `max_error_rate` bounds
    the share of failed requests over the whole run.
    """

    target: Target
    workload: WorkloadSpec
    concurrency: tuple[int, ...]
    requests_per_level: int
    warmup_requests: int = 4
    request_timeout_s: float = 120.0
    objectives: tuple[Objective, ...] = ()
    at_concurrency: int | None = None
    max_error_rate: float = 0.0
    profile: ProfileRef | None = None
    usd_per_hour: float | None = None
    predicted: Prediction | None = None

    @property
    def judged_concurrency(self) -> int:
        return self.at_concurrency if self.at_concurrency is not None else max(self.concurrency)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> BenchmarkSpec:
        """The inverse of `to_json`. Raises KeyError or TypeError on a row that `to_json` did not write."""
        predicted, profile, workload = row["predicted"], row["profile"], row["workload"]
        rest = {
            name: value
            for name, value in row.items()
            if name not in {"target", "workload", "concurrency", "objectives", "profile", "predicted"}
        }
        return cls(
            target=Target(**row["target"]),
            workload=WorkloadSpec(
                **(workload | {name: TokenCounts(**workload[name]) for name in ("input_tokens", "output_tokens")})
            ),
            concurrency=tuple(row["concurrency"]),
            objectives=tuple(Objective(**objective) for objective in row["objectives"]),
            profile=ProfileRef(**profile) if profile else None,
            predicted=Prediction(predicted["grade"], tuple(PredictedPoint(**point) for point in predicted["levels"]))
            if predicted
            else None,
            **rest,
        )
