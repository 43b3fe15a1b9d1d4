"""What protects and proves it: buffer, objectives, workload, benchmark."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from loadproof.profiles.schema.vocabulary import Part, PositiveInt, PositiveNumber


class Buffer(Part):
    """An SQS queue in front of the endpoint, so that no request is dropped while copies start."""

    enabled: bool = True
    invocation_timeout_s: Annotated[int, Field(ge=1, le=900)] = Field(
        default=300, description="longest time for one answer; the consumer streams, so SageMaker's 60 s does not bind"
    )
    visibility_timeout_s: Annotated[int, Field(ge=1, le=43200)] | None = Field(
        default=None, description="default: 6 x the function's timeout, as Lambda asks"
    )
    max_receive_count: Annotated[int, Field(ge=1, le=1000)] = 5
    max_concurrency: Annotated[int, Field(ge=2, le=1000)] = Field(
        default=2, description="consumers at work at once (MaximumConcurrency of the event source)"
    )
    batch_size: Annotated[int, Field(ge=1, le=10)] = 1
    retention_s: Annotated[int, Field(ge=60, le=1209600)] = 1209600
    max_message_bytes: Annotated[int, Field(ge=1024, le=1048576)] = 1048576


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


class TokenDistribution(Part):
    """A distribution of token counts, cut to [min, max]."""

    distribution: Literal["fixed", "normal", "lognormal", "uniform"]
    mean: PositiveNumber | None = None
    stddev: PositiveNumber | None = None
    min: PositiveInt = 1
    max: PositiveInt | None = None


class Arrivals(Part):
    """When requests are sent: closed (a fixed number in flight) or open (a rate)."""

    process: Literal["closed", "constant", "poisson", "gamma"] = "closed"
    requests_per_s: PositiveNumber | None = None
    burstiness: PositiveNumber | None = None


class Workload(Part):
    """What requests look like."""

    input_tokens: PositiveInt | TokenDistribution
    output_tokens: PositiveInt | TokenDistribution
    streaming: bool = True
    shared_prefix_tokens: Annotated[int, Field(ge=0)] = 0
    arrivals: Arrivals = Field(default_factory=Arrivals)


class Benchmark(Part):
    """What the companion job does after a deployment."""

    concurrency: Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=32)] = (1, 2, 4, 8)
    requests_per_level: PositiveInt = 32
    warmup_requests: Annotated[int, Field(ge=0)] = 4
    request_timeout_s: PositiveNumber = 120
    seed: Annotated[int, Field(ge=0)] = 0
    gate: Literal["none", "alarm", "rollback"] = Field(
        default="none", description="what a missed objective does to a deployment"
    )
