"""What protects and proves it: buffer, objectives, benchmark."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, StringConstraints

from loadproof.profiles.schema.short import ShortLevels, ShortPhase, ShortRates, levels_of, phase_of
from loadproof.profiles.schema.workload import NotNegative, Process
from loadproof.vocabulary import Form, Part, PositiveInt, PositiveNumber

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
    def bounds(self) -> dict[str, float]:
        """The bounds that are given, by name, in the schema's order."""
        return {name: value for name, value in self if value is not None and name != "at_concurrency"}

    @property
    def alarm_kinds(self) -> tuple[str, ...]:
        """The alarms on what CloudWatch knows of them: these roll an update back."""
        latencies = [
            f"latency-{percentile}"
            for percentile in ("p50", "p90", "p95", "p99")
            if getattr(self, f"e2e_{percentile}_ms") is not None
        ]
        return (*latencies, *(["error-rate"] if self.error_rate_max is not None else []))


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
