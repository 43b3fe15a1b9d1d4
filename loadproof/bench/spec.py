"""What a run will do, whole and frozen. `plan.json` holds it, and `--resume` reads it back: nothing else is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Literal
from urllib.parse import urlsplit

from loadproof.addresses import shown_url
from loadproof.bench.objectives import Objective
from loadproof.loads import FEWEST_A_SLOT, Load
from loadproof.sessions import Mixture, SessionClass, chain
from loadproof.token_counts import TokenCounts
from loadproof.wire.payloads import Protocol

Kind = Literal["sagemaker", "openai", "bedrock"]
AnswerLength = Literal["asked", "at_most"]
REQUESTS_APART = 2**24  # numbers between the first request of one phase and that of the next
LEVELS_APART = 2**10  # levels of one session of the program


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go: the SageMaker runtime ("sagemaker"), any HTTP server by its URL ("openai"), or a model of
    Bedrock's ("bedrock", where `endpoint` is the model id or ARN, and `service_tier` None is Bedrock's default).

    `local_cloud` names what answers behind a local cloud's runtime: its twin (then every latency is simulated), or a
    real model server over HTTP. None: no local cloud known.
    """

    kind: Kind
    """SageMaker's runtime, an HTTP server, or Bedrock"""
    endpoint: str
    """endpoint name, URL, or model id"""
    protocol: Protocol
    """how payloads look"""
    streaming: bool = True
    """token by token"""
    component: str | None = None
    """inference component"""
    endpoint_url: str | None = None
    """other than AWS's own, as for a local cloud"""
    region: str | None = None
    """AWS region"""
    model: str | None = None
    """the name that an OpenAI server knows it by"""
    local_cloud: Literal["twin", "http"] | None = None
    """what answers behind a local cloud: `twin` means that every latency is simulated"""
    service_tier: str | None = None
    """Bedrock's"""
    prefix_aware_id: str | None = None
    """sent with every request to SageMaker: alike prompts of one id go to the same instance"""

    @property
    def chat(self) -> bool:
        """Requests are chat messages."""
        if self.protocol in ("converse", "openai-chat"):
            return True
        return self.protocol == "openai" and urlsplit(self.endpoint).path.endswith("/chat/completions")

    @property
    def told(self) -> Target:
        """As files, logs and messages have it: of an HTTP server's address only what may be told."""
        return replace(self, endpoint=shown_url(self.endpoint)) if self.kind == "openai" else self


@dataclass(frozen=True, slots=True)
class ProfileBrief:
    """The profile a run is evidence for."""

    name: str
    """the profile's name"""
    file: str
    """its file"""
    sha256: str
    """hash of its meaning, defaults included, not of its text"""
    environment: str | None
    """its environment"""


@dataclass(frozen=True, slots=True)
class ProfileRef(ProfileBrief):
    """The profile a run is evidence for, whole, so that it can be told later what has changed since."""

    document: dict[str, object] | None = None
    """what the hash is over; in `plan.json` alone. null: only the hash is known"""

    def brief(self) -> ProfileBrief:
        """Without the document."""
        return ProfileBrief(self.name, self.file, self.sha256, self.environment)


def empirical_tokens(values: Sequence[int]) -> TokenCounts:
    return TokenCounts("empirical", fmean(values), 0.0, min(values), max(values), tuple(values))


def fixed_tokens(count: int) -> TokenCounts:
    return TokenCounts("fixed", float(count))


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """`count` pictures of this size with every request (of a conversation: with its first turn)."""

    width_px: int
    """of each"""
    height_px: int
    """of each"""
    count: int = 1
    """in each request"""


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """What requests look like.

    A conversation has up to `turns` turns of the user's, each sent `think_time_s`
    after the last answer ended, with all before it. `dataset` replaces made texts; `tokenizer` is a tokenizer.json.
    `answer_length` at_most: models may end their answers before the length asked for, and nothing is held against it.
    """

    input_tokens: TokenCounts
    """lengths of prompts"""
    output_tokens: TokenCounts
    """lengths of answers"""
    seed: int = 0
    """of lengths, texts and arrivals"""
    shared_prefix_tokens: int = 0
    """common beginning of all prompts"""
    salt: str = ""
    """makes this run's prompts unlike any other's"""
    name: str | None = None
    """of a named workload"""
    unique_prompts: bool | None = None
    """null: made prompts are, recorded ones are not"""
    turns: int = 1
    """of a conversation"""
    think_time_s: float = 0.0
    """between an answer and the next turn"""
    think_time_stddev_s: float = 0.0
    """its standard deviation"""
    continues: float = 1.0
    """chance that a conversation goes on after an answer"""
    max_context_tokens: int | None = None
    """a conversation ends before a turn whose prompt and answer would have more, a first answer there; null: no end"""
    first_input_tokens: TokenCounts | None = None
    """lengths of conversations' first prompts; null: as all are"""
    turn_correlation: float = 0.0
    """how alike lengths of one conversation are: correlation of the normal scores of two of its prompts, or answers"""
    classes: tuple[SessionClass, ...] = ()
    """sessions that are no mere chain of turns, or of several kinds; empty: all are what the fields above say"""
    dataset: str | None = None
    """file of recorded prompts"""
    dataset_sha256: str | None = None
    """its hash"""
    tokenizer: str | None = None
    """file that prompts are counted by"""
    images: ImageSpec | None = None
    """pictures in each request"""
    answer_length: AnswerLength = "asked"
    """whether shorter answers are held against the model"""
    paired_lengths: bool = False
    """values of prompts and answers are drawn together, one by one"""

    @property
    def mixture(self) -> Mixture:
        """What is sent, as sessions."""
        if self.classes:
            return Mixture(self.classes)
        lengths, think = (self.input_tokens, self.output_tokens), (self.think_time_s, self.think_time_stddev_s)
        conversation = SessionClass(
            chain(*lengths, self.turns, *think, first_prompts=self.first_input_tokens),
            continues=self.continues,
            shared_prefix_tokens=self.shared_prefix_tokens,
            paired_lengths=self.paired_lengths,
            max_context_tokens=self.max_context_tokens,
            turn_correlation=self.turn_correlation,
        )
        return Mixture((conversation,))

    @property
    def stride(self) -> int:
        """How far the first requests of two sessions are apart: the steps of the longest."""
        return max((len(one.steps) for one in self.classes), default=self.turns)

    def place(self, number: int) -> tuple[int, int, int]:
        """(level, session, step) of a request's number."""
        block, index = divmod(number, REQUESTS_APART)
        return block // 2 % LEVELS_APART, *divmod(index, self.stride)


@dataclass(frozen=True, slots=True)
class PredictedPoint:
    """What is expected of one level: means, and (low, high) around its latencies. Predicted, never measured.

    `load`: an open loop's, in words, as the twin would answer it; `concurrency` is then its predicted mean in flight,
    `error_rate` the share it would refuse or be too late for. None: a closed loop, by the planner.
    """

    concurrency: int
    """in flight; of an open loop its predicted mean"""
    ttft_ms: float | None
    """mean"""
    tpot_ms: float | None
    """mean"""
    e2e_ms: float | None
    """mean"""
    output_tokens_per_s: float | None
    """over all requests in flight"""
    requests_per_s: float | None
    """answered"""
    ttft_range_ms: tuple[float, float] | None = None
    """low and high"""
    tpot_range_ms: tuple[float, float] | None = None
    """low and high"""
    e2e_range_ms: tuple[float, float] | None = None
    """low and high"""
    load: str | None = None
    """an open loop's, in words; null: a closed loop"""
    error_rate: float | None = None
    """share that the twin would refuse or be too late for"""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What levels are expected to measure and how well it is founded (A is best, D is a guess)."""

    grade: str
    """[A to D](plan.md#the-grade)"""
    levels: tuple[PredictedPoint, ...]
    """each with its range"""


@dataclass(frozen=True, slots=True)
class Search:
    """Levels chosen while the run goes, from `start` up to `most` of `load`'s own measure (in flight, or requests/s).

    sweep: doubled until a stop rule says that more shows nothing. find_max: doubled until the objectives are missed,
    then halved between the last that met and the first that missed, until those lie within `tolerance` of each other;
    either end is measured until it is known, at most `repeats` times. Then the load is confirmed by fresh levels.
    """

    kind: Literal["sweep", "find_max"]
    """double until it shows nothing more, or close in on the highest load that meets"""
    load: Load
    """the load whose value is searched"""
    start: float
    """first value"""
    most: float
    """highest value"""
    repeats: int = 3
    """most measurements of each end"""
    tolerance: float = 0.05
    """how close the ends come, as a share"""

    def load_at(self, value: float, fewest: int | None = None) -> Load:
        """The load at a value, of at least `fewest` requests."""
        requests, duration_s = self.load.requests, self.load.duration_s
        if fewest is not None:
            requests, duration_s = max(fewest, requests or 0), None
        if self.load.is_open:
            return replace(self.load, requests_per_s=value, requests=requests, duration_s=duration_s)
        concurrency = round(value)
        if requests is not None:  # too few for its slots, a level would look like no gain over the one before
            requests = max(requests, FEWEST_A_SLOT * concurrency)
        return replace(self.load, concurrency=concurrency, requests=requests, duration_s=duration_s)


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
    """where requests go"""
    workload: WorkloadSpec
    """what they look like"""
    concurrency: tuple[int, ...]
    """levels of a closed loop, where `loads` is empty"""
    requests_per_level: int
    """measured requests of each"""
    warmup_requests: int = 4
    """sent before each level; in no figure"""
    request_timeout_s: float = 120.0
    """longest wait for one answer"""
    objectives: tuple[Objective, ...] = ()
    """bounds to judge"""
    at_concurrency: int | None = None
    """the level they must hold at; null: the highest"""
    max_error_rate: float = 0.0
    """share of requests that may fail where no objective says so"""
    profile: ProfileRef | None = None
    """what the run is evidence for"""
    usd_per_hour: float | None = None
    """of the instances in service; null: not known"""
    price: str | None = None
    """where the price is from, and when it was seen"""
    predicted: Prediction | None = None
    """what the planner or the twin expects"""
    loads: tuple[Load, ...] = ()
    """the levels, where they are more than numbers in flight"""
    search: Search | None = None
    """levels found while the run goes"""
    at_requests_per_s: float | None = None
    """the rate that the objectives must hold at"""
    drain_s: float | None = None
    """longest wait for the last answers"""
    workers: int = 1
    """processes that share the load"""
    requests_at_objectives: int | None = None
    """fewest requests at the judged level: percentiles need their number"""
    exact_requests: bool = False
    """true: `requests_per_level` whatever is needed"""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each dataset, tokenizer and trace, by its path above; a folder's is over its names and files"""

    @property
    def class_objectives(self) -> dict[str, tuple[Objective, ...]]:
        """Of each class of the traffic that has bounds of its own."""
        found = {one.name: tuple(Objective(*bound) for bound in one.bounds) for one in self.workload.classes}
        return {name: objectives for name, objectives in found.items() if objectives}

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

    @property
    def enlarged(self) -> str:
        """That the judged level sends more than `requests_per_level`, and why; empty where it does not."""
        needed, at = self.requests_at_objectives or 0, self.at_concurrency or max(self.concurrency, default=0)
        sent = [] if self.loads else [load.requests for load in self.fixed_loads if load.concurrency == at]
        if needed <= self.requests_per_level or needed not in sent:
            return ""
        return (
            f"{needed:,} requests at {at} in flight, where the objectives are judged, instead of "
            f"{self.requests_per_level:,}: percentiles need their number (--requests-per-level or "
            "benchmark.requests_at_objectives says otherwise)"
        )

    def to_json(self) -> dict[str, object]:
        """As files have it: of an address only what may be told."""
        return asdict(replace(self, target=self.target.told))
