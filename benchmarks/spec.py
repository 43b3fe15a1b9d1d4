"""What a run will do, whole and frozen. `plan.json` holds it, and `--resume` reads it back: nothing else is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Literal
from urllib.parse import urlsplit

from benchmarks.images import ImageSpec
from benchmarks.objectives import Objective
from loadproof.loads import FEWEST_A_SLOT, Load

Kind = Literal["sagemaker", "openai", "bedrock"]
Protocol = Literal["tgi", "lmi", "openai", "converse"]
AnswerLength = Literal["asked", "at_most"]
REQUESTS_APART = 2**24  # numbers between the first request of one phase and that of the next


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go: the SageMaker runtime ("sagemaker"), any HTTP server by its URL ("openai"), or a model of
    Bedrock's ("bedrock", where `endpoint` is the model id or ARN, and `service_tier` None is Bedrock's default).

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
    service_tier: str | None = None

    @property
    def chat(self) -> bool:
        """Requests are chat messages."""
        if self.protocol == "converse":
            return True
        return self.protocol == "openai" and urlsplit(self.endpoint).path.endswith("/chat/completions")


@dataclass(frozen=True, slots=True)
class ProfileRef:
    """The profile a run is evidence for. `document` is what `sha256` is over, so that it can be told later what has
    changed since; None: only the hash is known. Of all files plan.json alone holds it."""

    name: str
    file: str
    sha256: str
    environment: str | None
    document: dict[str, Any] | None = None

    def brief(self) -> dict[str, Any]:
        """Without the document."""
        return {"name": self.name, "file": self.file, "sha256": self.sha256, "environment": self.environment}


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """How many tokens a request asks for: a distribution cut to [minimum, maximum]. `mean` is of the distribution."""

    distribution: Literal["fixed", "normal", "lognormal", "uniform", "empirical"]
    mean: float
    stddev: float = 0.0
    minimum: int = 1
    maximum: int | None = None
    values: tuple[int, ...] = ()  # of "empirical": drawn from, each as likely


def empirical_tokens(values: Sequence[int]) -> TokenCounts:
    return TokenCounts("empirical", fmean(values), 0.0, min(values), max(values), tuple(values))


def fixed_tokens(count: int) -> TokenCounts:
    return TokenCounts("fixed", float(count))


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """What requests look like.

    `salt` makes prompts of this run unlike those of any other run. `unique_prompts` None: made prompts are unique,
    recorded ones are sent as they are. A conversation has up to `turns` turns of the user's, each sent `think_time_s`
    after the last answer ended, with all before it. `dataset` replaces made texts; `tokenizer` is a tokenizer.json.
    `answer_length` at_most: models may end their answers before the length asked for, and nothing is held against it.
    """

    input_tokens: TokenCounts
    output_tokens: TokenCounts
    seed: int = 0
    shared_prefix_tokens: int = 0
    salt: str = ""
    name: str | None = None
    unique_prompts: bool | None = None
    turns: int = 1
    think_time_s: float = 0.0
    dataset: str | None = None
    dataset_sha256: str | None = None
    tokenizer: str | None = None
    images: ImageSpec | None = None
    answer_length: AnswerLength = "asked"


@dataclass(frozen=True, slots=True)
class PredictedPoint:
    """What is expected of one level: means, and (low, high) around its latencies. Predicted, never measured.

    `load`: an open loop's, in words, as the twin would answer it; `concurrency` is then its predicted mean in flight,
    `error_rate` the share it would refuse or be too late for. None: a closed loop, by the planner.
    """

    concurrency: int
    ttft_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None
    output_tokens_per_s: float | None
    requests_per_s: float | None
    ttft_range_ms: tuple[float, float] | None = None
    tpot_range_ms: tuple[float, float] | None = None
    e2e_range_ms: tuple[float, float] | None = None
    load: str | None = None
    error_rate: float | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """What levels are expected to measure and how well it is founded (A is best, D is a guess)."""

    grade: str
    levels: tuple[PredictedPoint, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """Levels chosen while the run goes, from `start` up to `most` of `load`'s own measure (in flight, or requests/s).

    sweep: doubled until a stop rule says that more shows nothing. find_max: doubled until the objectives are missed,
    then halved between the last that met and the first that missed, until those lie within `tolerance` of each other;
    either end counts when most of its `repeats` say so.
    """

    kind: Literal["sweep", "find_max"]
    load: Load
    start: float
    most: float
    repeats: int = 3
    tolerance: float = 0.05

    def load_at(self, value: float) -> Load:
        if self.load.is_open:
            return replace(self.load, requests_per_s=value)
        concurrency, requests = round(value), self.load.requests
        if requests is not None:  # too few for its slots, a level would look like no gain over the one before
            requests = max(requests, FEWEST_A_SLOT * concurrency)
        return replace(self.load, concurrency=concurrency, requests=requests)


@dataclass(frozen=True, slots=True)
class BenchmarkSpec:
    """One benchmark run: a level for each of `loads`, else of `requests_per_level` requests at each `concurrency`.

    With a `search` the levels follow from what was measured, and neither of the two is used. Before each level
    `warmup_requests` go out; they open connections and fill caches and count in no figure. A level ends when its last
    request has, at most `drain_s` after the last one was due (None: each has its own time-out). Objectives must hold
    at `at_concurrency` or `at_requests_per_s` (None: at the highest level), where at least `requests_at_objectives` go
    out: percentiles need their number of requests (`intervals`); everywhere at least `FEWEST_A_SLOT` a slot.
    `exact_requests`: `requests_per_level` whatever is needed. `max_error_rate` bounds the share of failed requests over
    the whole run.
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
    loads: tuple[Load, ...] = ()
    search: Search | None = None
    at_requests_per_s: float | None = None
    drain_s: float | None = None
    workers: int = 1
    requests_at_objectives: int | None = None
    exact_requests: bool = False

    @property
    def fixed_loads(self) -> tuple[Load, ...]:
        """The levels that are known before the run; none of a search."""
        if self.search is not None:
            return ()
        if self.loads:
            return self.loads
        return tuple(Load(concurrency=level, requests=self._requests_at(level)) for level in self.concurrency)

    def _requests_at(self, concurrency: int) -> int:
        if self.exact_requests:
            return self.requests_per_level
        judged = concurrency == (self.at_concurrency or max(self.concurrency))
        needed = (self.requests_at_objectives or 0) if judged else 0
        return max(self.requests_per_level, needed, FEWEST_A_SLOT * concurrency)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> BenchmarkSpec:
        """The inverse of `to_json`. Raises KeyError or TypeError on a row that `to_json` did not write."""
        predicted, profile, workload = row["predicted"], row["profile"], row["workload"]
        search = row.get("search")
        rest = {
            name: value
            for name, value in row.items()
            if name
            not in {"target", "workload", "concurrency", "objectives", "profile", "predicted", "loads", "search"}
        }
        return cls(
            target=Target(**row["target"]),
            workload=WorkloadSpec(
                **(
                    workload
                    | {name: _token_counts(workload[name]) for name in ("input_tokens", "output_tokens")}
                    | {"images": ImageSpec(**workload["images"]) if workload.get("images") else None}
                )
            ),
            concurrency=tuple(row["concurrency"]),
            objectives=tuple(Objective(**objective) for objective in row["objectives"]),
            profile=ProfileRef(**profile) if profile else None,
            predicted=Prediction(predicted["grade"], tuple(PredictedPoint(**point) for point in predicted["levels"]))
            if predicted
            else None,
            loads=tuple(Load(**load) for load in row.get("loads", ())),
            search=Search(**(search | {"load": Load(**search["load"])})) if search else None,
            **rest,
        )


def _token_counts(row: dict[str, Any]) -> TokenCounts:
    return TokenCounts(**(row | {"values": tuple(row.get("values", ()))}))
