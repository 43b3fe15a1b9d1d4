"""Where the time goes: a request's latency by what it waits for, and a copy's time by the resource that sets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from loadproof.capacity.curve import PredictedLevel, batch_capacity
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.memory import batch_limits
from loadproof.capacity.steps import Resource, StepTimes
from loadproof.capacity.workload import PlannedWorkload

Binds = Literal["memory", "60 s limit"] | Resource


@dataclass(frozen=True, slots=True)
class LatencyShares:
    """Shares of a request's latency, which sum to 1.

    `queue` waits for a place in the batch; `prefill` is the rest of TTFT (its own prompt and those it waits for);
    `decode` is everything after the first token, interruptions by others' prompts included.
    """

    queue: float
    prefill: float
    decode: float


@dataclass(frozen=True, slots=True)
class Binding:
    """What more of would help most at one level, why, and each resource's share of the copy's time (they sum to 1)."""

    resource: Binds
    concurrency: int
    reason: str
    shares: tuple[tuple[Resource, float], ...]


def latency_shares(level: PredictedLevel) -> LatencyShares:
    """queue / E2E, (TTFT - queue) / E2E, (E2E - TTFT) / E2E; where answers come whole (no TPOT), prompts end before."""
    whole = level.e2e_ms
    first_ms = level.ttft_ms if level.tpot_ms else level.queue_ms + level.prefill_step_ms
    return LatencyShares(level.queue_ms / whole, (first_ms - level.queue_ms) / whole, 1 - first_ms / whole)


def binding_of(
    deployment: PlannedDeployment, workload: PlannedWorkload, level: PredictedLevel, *, streaming: bool = True
) -> Binding:
    """What binds at a level: the 60 s limit where it cuts answers off, memory or the server's own limits where
    requests queue, else the resource with the largest share of the copy's time, prefill and decode together.
    """
    shares = resource_shares(deployment, workload, level)
    largest = max(shares, key=lambda name: shares[name])
    resource: Binds = largest
    if not streaming and level.over_60_s:
        resource, reason = "60 s limit", f"answers take {level.e2e_ms / 1e3:,.0f} s, and SageMaker ends them at 60 s"
    elif level.refused:
        resource, reason = "server", f"the server refuses {level.refused} of the requests in flight"
    elif level.queue_ms > 0:
        resource, reason = _queueing(deployment, workload)
    else:
        reason = _REASONS[largest].format(share=shares[largest])
    return Binding(resource, level.concurrency, reason, tuple(sorted(shares.items(), key=lambda item: -item[1])))


_REASONS: dict[Resource, str] = {
    "bandwidth": "memory bandwidth: reading weights and KV cache takes {share:.0%} of the time",
    "compute": "compute: the arithmetic units set {share:.0%} of the time",
    "fabric": "the fabric: the accelerators' all-reduce takes {share:.0%} of the time",
    "server": "the server's own work takes {share:.0%} of the time",
}


def resource_shares(
    deployment: PlannedDeployment, workload: PlannedWorkload, level: PredictedLevel
) -> dict[Resource, float]:
    """Share of a copy's time that each resource sets, over the prefills and the decodes of one batch.

    A batch of B requests costs `E2E - queue` ms: (output - 1) decode steps, divided as `StepTimes.decode_shares` says,
    and the rest prefill, divided as one step that prefills.
    """
    batch = max(1, level.batch)
    context = batch * (workload.input_tokens + workload.output_tokens / 2)
    decode = StepTimes(deployment).decode_shares(batch, context)
    decode_ms = (workload.output_tokens - 1) * sum(decode.values())
    prefill_ms = max(0.0, level.e2e_ms - level.queue_ms - decode_ms)
    prefill = _prefill_shares(deployment, workload, level, batch)
    summed = {name: (workload.output_tokens - 1) * decode[name] + prefill_ms * prefill[name] for name in decode}
    whole = sum(summed.values())
    return {name: value / whole for name, value in summed.items()}


def _prefill_shares(
    deployment: PlannedDeployment, workload: PlannedWorkload, level: PredictedLevel, batch: int
) -> dict[Resource, float]:
    """Shares of one step that prefills; they sum to 1. What neither fabric nor server takes is the roofline's."""
    new_tokens = workload.input_tokens - workload.cached_tokens
    together = 1 if workload.staggered else batch
    requests = max(1, min(together, deployment.limits.step_prefill_tokens // new_tokens))
    tokens = min(requests * new_tokens, deployment.limits.step_prefill_tokens)
    times = StepTimes(deployment)
    parts = times.plain_shares(tokens, 0, scored=requests)
    server = times.plain_shares(requests, 0)["server"]
    whole = max(times.prefill_ms(tokens, requests), parts["fabric"] + server)
    body = whole - parts["fabric"] - server
    bound: Resource = "compute" if body > parts["bandwidth"] * (1 + 1e-9) else "bandwidth"
    shares: dict[Resource, float] = {"bandwidth": 0.0, "compute": 0.0, "fabric": parts["fabric"], "server": server}
    shares[bound] = body
    return {name: value / whole for name, value in shares.items()}


def _queueing(deployment: PlannedDeployment, workload: PlannedWorkload) -> tuple[Binds, str]:
    limits = batch_limits(deployment)
    capacity = batch_capacity(deployment, workload.input_tokens, workload.output_tokens)
    if capacity >= limits.max_sequences:
        return "server", f"requests queue for a place among {limits.max_sequences} sequences, the server's limit"
    return "memory", f"requests queue for KV cache, which holds {capacity} of them at once"
