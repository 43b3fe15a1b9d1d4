"""What protects and proves it: buffer, objectives, workload, benchmark."""

from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from loadproof.profiles.schema.short import (
    ShortLevels,
    ShortPhase,
    ShortRates,
    ShortTokens,
    levels_of,
    phase_of,
    tokens_of,
)
from loadproof.profiles.workloads import NAMED_WORKLOADS
from loadproof.vocabulary import Form, Part, PositiveInt, PositiveNumber

Process = Literal["closed", "constant", "poisson", "gamma", "trace"]
WorkloadName = Literal["chat-256-256", "generate-32-128", "classify-256-32", "summarize-3840-256"]
_OF_ITS_NAME: Any = None  # filled in from the workload's name; without one the key is required
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


if TYPE_CHECKING:
    Levels = tuple[int, ...]  # once it is read
else:
    Levels = Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=32)] | PositiveInt | ShortLevels


CallbackArn = Annotated[
    str,
    StringConstraints(pattern=r"^arn:aws[a-z-]*:(sqs|sns):[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$"),
    Form("the ARN of a standard queue or topic", "arn:aws:sqs:us-east-1:123456789012:done"),
    Field(description="a standard queue or topic"),
]


class Buffer(Part):
    """An SQS queue in front of the endpoint, so that no request is dropped while copies start."""

    enabled: bool = True
    invocation_timeout_s: Annotated[int, Field(ge=1, le=900)] = Field(
        default=300, description="longest time for one answer; the consumer streams, so SageMaker's 60 s does not bind"
    )
    idle_timeout_s: Annotated[int, Field(ge=1, le=480)] = Field(
        default=55, description="longest silence of a stream, its first token included; then it is given up"
    )
    lease_s: Annotated[int, Field(ge=15, le=600)] = Field(
        default=60, description="how soon a killed consumer's messages are tried again; renewed every third of it"
    )
    max_attempts: Annotated[int, Field(ge=1, le=100)] = Field(
        default=8, description="failures of the model before a message goes to the dead-letter queue"
    )
    visibility_timeout_s: Annotated[int, Field(ge=1, le=43200)] | None = Field(
        default=None, description="default: 6 x the function's timeout, as Lambda asks; a lease shortens it at once"
    )
    max_receive_count: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=5, description="how many consumers a message may kill before it goes to the dead-letter queue"
    )
    max_concurrency: Annotated[int, Field(ge=2, le=1000)] | Literal["auto"] = Field(
        default="auto",
        description="consumers at work at once (MaximumConcurrency of the event source); auto: what the most copies "
        "take together, as `loadproof plan` shows it, and 2 where the planner cannot tell",
    )
    batch_size: Annotated[int, Field(ge=1, le=10)] = Field(
        default=1, description="messages that one consumer works on at once, each in a thread of its own"
    )
    retention_s: Annotated[int, Field(ge=60, le=1209600)] = 1209600
    max_message_bytes: Annotated[int, Field(ge=1024, le=1048576)] = 1048576
    callbacks: tuple[CallbackArn, ...] = Field(
        default=(), description="queues and topics that a message may name to be notified when its result is stored"
    )


class Objectives(Part):
    """Bounds the endpoint must meet at `at_concurrency`; latency from the intended send time."""

    at_concurrency: PositiveInt = Field(description="requests in flight at which the bounds must hold")
    ttft_p50_ms: PositiveNumber | None = None
    ttft_p90_ms: PositiveNumber | None = None
    ttft_p95_ms: PositiveNumber | None = None
    ttft_p99_ms: PositiveNumber | None = None
    itl_p50_ms: PositiveNumber | None = None
    itl_p90_ms: PositiveNumber | None = None
    itl_p95_ms: PositiveNumber | None = None
    itl_p99_ms: PositiveNumber | None = None
    tpot_p50_ms: PositiveNumber | None = None
    tpot_p90_ms: PositiveNumber | None = None
    tpot_p95_ms: PositiveNumber | None = None
    tpot_p99_ms: PositiveNumber | None = None
    e2e_p50_ms: PositiveNumber | None = None
    e2e_p90_ms: PositiveNumber | None = None
    e2e_p95_ms: PositiveNumber | None = None
    e2e_p99_ms: PositiveNumber | None = None
    error_rate_max: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] | None = Field(
        default=None, description="share of requests that may fail: 0.01 is 1%"
    )
    output_tokens_per_s_min: PositiveNumber | None = None
    requests_per_s_min: PositiveNumber | None = None

    @property
    def alarm_kinds(self) -> tuple[str, ...]:
        """The alarms on what CloudWatch knows of them: these turn an update back."""
        latencies = [
            f"latency-{percentile}"
            for percentile in ("p50", "p90", "p95", "p99")
            if getattr(self, f"e2e_{percentile}_ms") is not None
        ]
        return (*latencies, *(["error-rate"] if self.error_rate_max is not None else []))


class TokenDistribution(Part):
    """A distribution of token counts, cut to [min, max]."""

    distribution: Literal["fixed", "normal", "lognormal", "uniform", "empirical"]
    mean: PositiveNumber | None = None
    stddev: PositiveNumber | None = None
    min: PositiveInt = 1
    max: PositiveInt | None = None
    values: Annotated[tuple[PositiveInt, ...], Field(max_length=1000)] = Field(
        default=(), description="of empirical: counts to draw from, each as likely; mean, min and max follow from them"
    )

    def model_post_init(self, context: object) -> None:
        """What follows from the values of an empirical distribution."""
        values = self.__dict__.get("values")
        if self.__dict__.get("distribution") == "empirical" and values:
            self.__dict__.update(mean=fmean(values), min=min(values), max=max(values))


if TYPE_CHECKING:
    Tokens = int | TokenDistribution  # once they are read
else:
    Tokens = PositiveInt | TokenDistribution | ShortTokens


class Arrivals(Part):
    """When requests are sent: closed (a fixed number in flight) or open (a rate, or a recorded trace)."""

    process: Process = "closed"
    requests_per_s: PositiveNumber | None = None
    from_requests_per_s: NotNegative | None = Field(
        default=None, description="a ramp: the rate to start from, over benchmark.duration_s"
    )
    burstiness: PositiveNumber | None = None
    trace: str | None = Field(
        default=None, description="CSV or JSONL with timestamp_s, input_tokens, output_tokens; relative to this file"
    )


class Images(Part):
    """Pictures sent with each request, or with a conversation's first; needs chat messages."""

    width_px: Annotated[int, Field(ge=1, le=8192)]
    height_px: Annotated[int, Field(ge=1, le=8192)]
    count: Annotated[int, Field(ge=1, le=16)] = 1


class Workload(Part):
    """What requests look like. With a dataset, input_tokens and output_tokens are what the planner reckons with."""

    name: WorkloadName | None = Field(
        default=None, description="a published shape of requests, in place of input_tokens and output_tokens"
    )
    input_tokens: Tokens = Field(
        default=_OF_ITS_NAME,
        description="256, a distribution, or one as text: normal:512:64",
    )
    output_tokens: Tokens = Field(default=_OF_ITS_NAME, description="in the same forms")
    paired_lengths: bool = Field(
        default=False,
        description="of two empirical distributions: the first prompt goes with the first answer, and so on; otherwise "
        "each length is drawn by itself",
    )
    streaming: bool = True
    shared_prefix_tokens: Annotated[int, Field(ge=0)] = 0
    unique_prompts: bool | None = Field(
        default=None,
        description="no two prompts begin alike, so that no cache helps; default: yes, but a dataset is sent as it is",
    )
    turns: Annotated[int, Field(ge=1, le=256)] = Field(
        default=1, description="turns of a conversation, each sent with all before it"
    )
    think_time_s: NotNegative = Field(default=0, description="between an answer and the conversation's next turn")
    dataset: str | None = Field(
        default=None, description="prompts to send: ShareGPT's JSON, or JSONL with prompt or messages; relative path"
    )
    tokenizer: str | None = Field(
        default=None, description="the model's tokenizer.json, to count prompt tokens by; relative path"
    )
    answer_length: Literal["asked", "at_most"] = Field(
        default="asked",
        description="asked: answers well shorter than output_tokens keep E2E and rate objectives from passing; "
        "at_most: the model may end its answers sooner",
    )
    images: Images | None = None
    arrivals: Arrivals = Field(default_factory=Arrivals.model_construct)

    needed_without: ClassVar[dict[str, str]] = {"input_tokens": "name", "output_tokens": "name"}

    @model_validator(mode="after")
    def _has_sizes(self) -> Self:
        for side, other in self.needed_without.items():
            if getattr(self, side) is None:
                raise ValueError(f"{side} is missing, and so is {other}")
        return self

    def model_post_init(self, context: object) -> None:
        """The sizes of a named workload, where none are given; those given as text as what they stand for."""
        named = NAMED_WORKLOADS.get(self.__dict__.get("name") or "")
        for side in ("input_tokens", "output_tokens"):
            given = self.__dict__.get(side)
            if named is not None and given is None:
                self.__dict__[side] = getattr(named, side)
            elif isinstance(given, str):
                self.__dict__[side] = TokenDistribution.model_construct(None, **tokens_of(given))


class Phase(Part):
    """One level of a benchmark of several: a closed loop, an open one, or a trace."""

    process: Process = "closed"
    concurrency: PositiveInt | None = None
    ramp_s: NotNegative | None = Field(default=None, description="open the closed loop's slots over that long")
    requests_per_s: PositiveNumber | None = None
    from_requests_per_s: NotNegative | None = Field(default=None, description="a ramp: the rate to start from")
    burstiness: PositiveNumber | None = None
    trace: str | None = None
    requests: PositiveInt | None = None
    duration_s: PositiveNumber | None = None


if TYPE_CHECKING:
    Phases = tuple[Phase, ...]  # once they are read
    Rates = tuple[float, ...] | None
else:
    Phases = Annotated[tuple[Phase | ShortPhase, ...], Field(max_length=64)]
    Rates = (
        Annotated[tuple[PositiveNumber, ...], Field(min_length=1, max_length=32)] | PositiveNumber | ShortRates | None
    )


class Benchmark(Part):
    """What the companion job does after a deployment."""

    concurrency: Levels = Field(
        default=(1, 2, 4, 8),
        description="requests in flight, a level each: [1, 2, 4], as text 1,2,4, or 1..64 doubling",
    )
    requests_per_level: PositiveInt = 32
    requests_at_objectives: PositiveInt | None = Field(
        default=None,
        description="fewest requests where the objectives are judged; default: as many as settle those that hold by 5%",
    )
    duration_s: PositiveNumber | None = Field(
        default=None, description="end a level after that long instead of after requests_per_level"
    )
    drain_s: NotNegative | None = Field(
        default=None,
        description="longest wait for the last answers of an open or timed level; what is left counts as unfinished",
    )
    rate: Rates = Field(
        default=None,
        description="requests per second, an open level each, in place of `concurrency`: [1, 2.5], as text 1,2.5, or "
        "1..64 doubling",
    )
    phases: Phases = Field(
        default=(),
        description="levels one after another (step, soak, ramp), in place of `concurrency`; each a map, or as text "
        "process=gamma,requests_per_s=2,requests=90",
    )
    warmup_requests: Annotated[int, Field(ge=0)] = 4
    request_timeout_s: PositiveNumber = 120
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    gate: Literal["none", "alarm", "rollback"] = Field(
        default="none", description="what a missed objective does to a deployment"
    )
    gate_unproven: Literal["rollback", "alarm"] = Field(
        default="rollback",
        description="with gate rollback: what a benchmark that proved nothing does: INCONCLUSIVE, INVALID, NOT JUDGED",
    )
    evidence_from: Literal["any", "gate"] = Field(
        default="any",
        description="whose runs prove it: any listed in signers.yaml, or the gate's alone (docs/evidence.md)",
    )
    hosts: Annotated[int, Field(ge=1, le=100)] = Field(
        default=1, description="instances that share the load where the benchmark runs in the cloud"
    )
    schedule: (
        Annotated[
            str,
            StringConstraints(pattern=r"^(rate|cron)\(.+\)$", max_length=256),
            Form("a rate(...) or cron(...) expression", "cron(0 3 ? * SUN *)"),
        ]
        | None
    ) = Field(default=None, description="also run it in the cloud at these times, in `timezone`")
    timezone: str = "UTC"

    def model_post_init(self, context: object) -> None:
        """The levels, however they were written; rates as the phases they stand for, unless both are given."""
        own = self.__dict__
        own["concurrency"] = levels_of(own["concurrency"])
        own["phases"] = tuple(
            Phase.model_construct(None, **phase_of(one)) if isinstance(one, str) else one for one in own["phases"]
        )
        if own["rate"] is not None and not own["phases"]:
            ends = {"duration_s": self.duration_s} if self.duration_s else {"requests": self.requests_per_level}
            rates = map(float, levels_of(own["rate"]))
            own["phases"] = tuple(Phase(process="poisson", requests_per_s=rate, **ends) for rate in rates)
            own["rate"] = None
