"""What a whole run at one concurrency measures: throughput, mean and 90th percentile of latency, TTFT, timeouts."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from loadproof.capacity.curve import INVOCATION_LIMIT_MS, predict_level
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.memory import batch_limits
from loadproof.capacity.rounds import PlannedLoop
from loadproof.capacity.steps import StepTimes
from loadproof.errors import InputError

# The founding tables' protocol: every client sends three requests in all.
REQUESTS_PER_CLIENT = 3
# Copies replayed one by one: more of them share the load alike, and are these many times over.
_REPLAYED_COPIES = 16


@dataclass(frozen=True, slots=True)
class PredictedRun:
    """A closed loop of equal requests from start to end, ramps included. Latencies are of whole requests, in ms.

    `timeout` says that one request in twenty takes longer than SageMaker's 60 s, `refused` how many of the requests in
    flight the server turns away. `near_limit` and `prompt_share` are those of the level (`PredictedLevel`).
    """

    concurrency: int
    output_tokens_per_s: float
    latency_mean_ms: float
    latency_p90_ms: float
    latency_p95_ms: float
    ttft_mean_ms: float
    refused: int
    near_limit: bool = False
    prompt_share: float = 0.0

    @property
    def timeout(self) -> bool:
        return self.latency_p95_ms > INVOCATION_LIMIT_MS


def predict_run(
    deployment: PlannedDeployment, input_tokens: int, output_tokens: int, concurrency: int, *, cached_tokens: int = 0
) -> PredictedRun | None:
    """The run at `concurrency` over all copies; None when not even one such request can be served.

    A server that prefills first is replayed request by request (`rounds.ClosedLoop`), at most sixteen copies of it. A
    chunked scheduler and dynamic batching follow the closed form of `predict_level`, and where requests queue its p90
    is the longer wait of whole rounds: `ceil(in flight / batch) · service`. `cached_tokens` of each prompt are found in
    a chunked scheduler's prefix cache. Raises InputError for counts below 1, and for cached tokens of any other
    scheduler.
    """
    if min(input_tokens, output_tokens, concurrency) < 1:
        raise InputError("input tokens, output tokens and concurrency must each be at least 1")
    if cached_tokens and deployment.limits.scheduler != "chunked":
        raise InputError(f"cached tokens: {deployment.family} is planned without a prefix cache; expected 0")
    level = predict_level(deployment, input_tokens, output_tokens, concurrency, cached_tokens=cached_tokens)
    if level is None:
        return None
    if deployment.limits.scheduler != "prefill_first":
        apart = None
        if deployment.limits.scheduler == "chunked":
            # Prompts share steps; requests that are never quite equal fall out of step, and wait for their own alone.
            apart = predict_level(
                deployment, input_tokens, output_tokens, concurrency, staggered=True, cached_tokens=cached_tokens
            )
        service_ms = level.e2e_ms - level.queue_ms
        rounds = ceil(level.e2e_ms / service_ms - 1e-9)
        return PredictedRun(
            concurrency=concurrency,
            output_tokens_per_s=level.output_tokens_per_s,
            latency_mean_ms=level.e2e_ms,
            latency_p90_ms=rounds * service_ms,
            latency_p95_ms=rounds * service_ms,
            ttft_mean_ms=min((apart or level).ttft_ms, level.e2e_ms),
            refused=level.refused,
            near_limit=level.near_limit,
            prompt_share=level.prompt_share,
        )
    served = concurrency - level.refused
    limits = batch_limits(deployment, input_tokens + output_tokens)
    busy_copies = min(deployment.copies, served)
    copies = min(busy_copies, _REPLAYED_COPIES)
    clients = round(served * copies / busy_copies)
    loop = PlannedLoop(StepTimes(deployment), limits, input_tokens, output_tokens, copies)
    run = loop.run(clients, REQUESTS_PER_CLIENT * clients)
    outside_ms = deployment.server.ttft_ms
    ordered = sorted(latency_ms + outside_ms for latency_ms in run.latencies_ms)
    duration_ms = run.duration_ms + outside_ms * REQUESTS_PER_CLIENT
    return PredictedRun(
        concurrency=concurrency,
        output_tokens_per_s=len(ordered) * output_tokens / duration_ms * 1e3 * served / clients,
        latency_mean_ms=sum(ordered) / len(ordered),
        latency_p90_ms=_quantile(ordered, 0.9),
        latency_p95_ms=_quantile(ordered, 0.95),
        ttft_mean_ms=sum(run.ttfts_ms) / len(ordered) + outside_ms,
        refused=level.refused,
        near_limit=level.near_limit,
        prompt_share=level.prompt_share,
    )


def _quantile(ordered: list[float], share: float) -> float:
    """Linear between the two nearest ranks, as numpy does by default."""
    rank = share * (len(ordered) - 1)
    below = int(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (rank - below) * (ordered[above] - ordered[below])
