"""Latency and throughput at a number of requests in flight: the closed form of a closed loop on equal requests."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp
from typing import NamedTuple

from loadproof.capacity.confidence import near_limit
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.kept import last_kept
from loadproof.capacity.memory import batch_limits
from loadproof.capacity.steps import StepTimes
from loadproof.errors import InputError
from loadproof.families import BatchLimits

# SageMaker closes an invocation that is not streamed after 60 s.
INVOCATION_LIMIT_MS = 60_000.0

_times_of = last_kept(StepTimes)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """In ms: so many in a hundred requests stay within."""

    p50: float
    p90: float
    p95: float
    p99: float

    def scaled(self, factor: float) -> Percentiles:
        return Percentiles(*(factor * value for value in (self.p50, self.p90, self.p95, self.p99)))


@dataclass(frozen=True, slots=True)
class Tails:
    """Percentiles of a level's requests, which were played one by one."""

    ttft_ms: Percentiles
    tpot_ms: Percentiles
    e2e_ms: Percentiles

    def at(self, metric: str, statistic: str) -> float:
        """`at("ttft", "95")`: 95 in 100 requests have their first token within so many ms."""
        value: float = getattr(getattr(self, f"{metric}_ms"), f"p{statistic}")
        return value


@dataclass(frozen=True, slots=True)
class PlayedPart:
    """What was served of a class of the traffic: so many requests, and their percentiles."""

    name: str
    requests: int
    tails: Tails


@dataclass(frozen=True, slots=True)
class PredictedLevel:
    """What the planner expects at one concurrency (over all copies). Times are means in ms, without the network.

    `ttft_ms` = queue + prefill; `e2e_ms` = `ttft_ms` + (output tokens - 1) · `tpot_ms`. `ttft_last_ms` is the TTFT of
    the last request of a batch that starts together, as a level's first round does; it decides the tail of short
    runs. `tpot_longest_ms` is the TPOT of a request that all others of its batch interrupt with their prompts, as they
    do once equal requests fall out of step: which of the two a run sees is chance, and both bound its tail. `batch` is
    what one copy runs at once, `queue_ms` the wait of a request that found the batch full, `prefill_step_ms` one step
    that prefills. `refused` requests in flight are more than the server admits: it answers them with an error at once.
    `near_limit` says that a little memory more or less decides whether requests wait, `prompt_share` what of a batch's
    time its prompts take. `tails` are the twin's, where it played the level; means of TTFT and TPOT are then its, too.
    `parts` are the same of each class of the traffic.
    """

    concurrency: int
    batch: int
    queue_ms: float
    prefill_step_ms: float
    ttft_ms: float
    ttft_last_ms: float
    tpot_ms: float
    tpot_longest_ms: float
    e2e_ms: float
    output_tokens_per_s: float
    requests_per_s: float
    refused: int
    over_60_s: bool
    near_limit: bool = False
    prompt_share: float = 0.0
    tails: Tails | None = None
    parts: tuple[PlayedPart, ...] = ()


@last_kept
def batch_capacity(deployment: PlannedDeployment, input_tokens: int, output_tokens: int) -> int:
    """How many such requests one copy can run at once: KV cache, sequences. 0 when not even one.

    TGI and a padded batch reserve prompt plus answer; a chunked scheduler takes blocks as they are needed, so on
    average a running request holds its prompt and half its answer.
    """
    whole = input_tokens + output_tokens
    limits = batch_limits(deployment, whole)
    capacity = limits.kv_token_capacity or 0
    if whole > capacity or whole > (limits.max_request_tokens or whole):
        return 0
    held = input_tokens + output_tokens / 2 if limits.scheduler == "chunked" else whole
    return max(1, min(limits.max_sequences, int(capacity / held)))


def predict_level(
    deployment: PlannedDeployment,
    input_tokens: int,
    output_tokens: int,
    concurrency: int,
    *,
    staggered: bool = False,
    cached_tokens: int = 0,
) -> PredictedLevel | None:
    """The level at `concurrency` requests in flight over all copies; None when no such request can be served.

    Requests spread evenly over copies. One copy runs batches of B requests one after another, as a closed loop
    settles into: `service = prefill of B + (output - 1) · decode(B)`. With c requests a copy, throughput is
    B / service and Little's law gives the latency: `e2e = c / throughput`; what exceeds the service time is queueing.

    Equal requests end together and are prefilled together: a request waits for the prompts before its own.
    `staggered` requests (of spread lengths) arrive one by one: each waits for its own prompt and what is under way,
    and the others' prompts lengthen its TPOT instead.

    `cached_tokens` of each prompt are found in the prefix cache: read, not computed. Raises InputError for counts
    below 1 and for a prompt that is wholly cached.
    """
    if min(input_tokens, output_tokens, concurrency) < 1:
        raise InputError("input tokens, output tokens and concurrency must each be at least 1")
    if not 0 <= cached_tokens < input_tokens:
        raise InputError(f"cached tokens: expected 0..{input_tokens - 1} of {input_tokens}, found {cached_tokens}")
    capacity = batch_capacity(deployment, input_tokens, output_tokens)
    if capacity == 0:
        return None
    loop = _Loop.of(deployment, concurrency, capacity)
    if deployment.limits.scheduler == "dynamic":
        return _gathered(deployment, input_tokens, output_tokens, loop)
    batch = loop.batch
    groups, step_ms = _prefill(deployment, input_tokens, cached_tokens, 1.0 if staggered else batch)
    _, alone_ms = _prefill(deployment, input_tokens, cached_tokens, 1.0)
    prefill_ms = step_ms * (batch if staggered else groups)
    decode_ms = _times_of(deployment).decode_ms(batch, batch * (input_tokens + output_tokens / 2))
    service_ms = deployment.server.ttft_ms + prefill_ms + (output_tokens - 1) * decode_ms
    if staggered:
        first_ms = step_ms + _underway_ms(deployment.limits, batch, service_ms, prefill_ms, decode_ms)
    elif deployment.limits.scheduler != "chunked":
        first_ms = (groups + 1) / 2 * step_ms
    else:
        # A group decodes while the next one is prefilled, so it ends earlier too: after the first round the groups
        # follow each other and none waits for another.
        first_ms = step_ms
    first_ms += deployment.server.ttft_ms
    e2e_ms = loop.e2e_ms(service_ms)
    queue_ms = e2e_ms - service_ms
    ttft_ms = queue_ms + min(first_ms, service_ms)
    tpot_ms = (e2e_ms - ttft_ms) / (output_tokens - 1) if output_tokens > 1 else decode_ms
    ttfts_ms = (ttft_ms, queue_ms + max(first_ms, prefill_ms))
    interrupted_ms = service_ms - min(first_ms, alone_ms + deployment.server.ttft_ms)
    longest_ms = interrupted_ms / (output_tokens - 1) if output_tokens > 1 else decode_ms
    tpots_ms = (tpot_ms, max(tpot_ms, longest_ms))
    marks = _Marks(near_limit(loop.in_flight, capacity), prefill_ms / service_ms)
    return loop.level(output_tokens, service_ms, step_ms, ttfts_ms, tpots_ms, marks)


class _Marks(NamedTuple):
    """What `PredictedLevel` says beside the times."""

    near_limit: bool = False
    prompt_share: float = 0.0


_UNMARKED = _Marks()


@dataclass(frozen=True, slots=True)
class _Loop:
    """A closed loop's requests, spread evenly over the copies that are busy: of each, in flight, admitted, at once."""

    concurrency: int
    busy_copies: int
    in_flight: float
    admitted: float
    batch: float

    @classmethod
    def of(cls, deployment: PlannedDeployment, concurrency: int, capacity: int) -> _Loop:
        busy_copies = min(concurrency, deployment.copies)
        in_flight = concurrency / busy_copies
        admitted = min(in_flight, deployment.limits.max_admitted_requests)
        return cls(concurrency, busy_copies, in_flight, admitted, min(admitted, capacity))

    def e2e_ms(self, service_ms: float) -> float:
        """Little's law: requests of a copy over its throughput."""
        return self.admitted / self.batch * service_ms

    def level(
        self,
        output_tokens: int,
        service_ms: float,
        step_ms: float,
        ttfts_ms: tuple[float, float],
        tpots_ms: tuple[float, float],
        marks: _Marks = _UNMARKED,
    ) -> PredictedLevel:
        """The level where a batch takes `service_ms`; `ttfts_ms` and `tpots_ms` are means and a batch's longest."""
        e2e_ms = self.e2e_ms(service_ms)
        requests_per_ms = self.batch / service_ms * self.busy_copies
        return PredictedLevel(
            concurrency=self.concurrency,
            batch=ceil(self.batch),
            queue_ms=e2e_ms - service_ms,
            prefill_step_ms=step_ms,
            ttft_ms=ttfts_ms[0],
            ttft_last_ms=ttfts_ms[1],
            tpot_ms=tpots_ms[0],
            tpot_longest_ms=tpots_ms[1],
            e2e_ms=e2e_ms,
            output_tokens_per_s=requests_per_ms * output_tokens * 1e3,
            requests_per_s=requests_per_ms * 1e3,
            refused=round((self.in_flight - self.admitted) * self.busy_copies),
            over_60_s=e2e_ms > INVOCATION_LIMIT_MS,
            near_limit=marks.near_limit,
            prompt_share=marks.prompt_share,
        )


def _gathered(deployment: PlannedDeployment, input_tokens: int, output_tokens: int, loop: _Loop) -> PredictedLevel:
    """Dynamic batching: `service = prefill of B + (output - 1) · decode(B)`, and the delay where B does not fill.

    With `c` clients a copy, `B = min(c, batch_size, memory)`. Answers come whole: TTFT is E2E, and TPOT is 0.
    """
    times, limits, batch = _times_of(deployment), deployment.limits, loop.batch
    prefill_ms = times.prefill_ms(round(batch * input_tokens), requests=ceil(batch))
    decode_ms = times.decode_ms(batch, batch * (input_tokens + output_tokens / 2))
    delay_ms = limits.max_batch_delay_ms if loop.admitted < limits.max_sequences else 0.0
    service_ms = delay_ms + prefill_ms + (output_tokens - 1) * decode_ms
    e2e_ms = loop.e2e_ms(service_ms)
    return loop.level(output_tokens, service_ms, prefill_ms, (e2e_ms, e2e_ms), (0.0, 0.0))


def _underway_ms(limits: BatchLimits, batch: float, service_ms: float, prefill_ms: float, decode_ms: float) -> float:
    """Mean wait of a prompt that arrives by itself: for what is under way, and for company."""
    step_ms = prefill_ms / batch
    others = prefill_ms / service_ms * (batch - 1) / batch  # share of the time another prompt is under way
    underway_ms = (others * step_ms + (1 - others) * min(decode_ms, step_ms)) / 2 if batch > 1 else 0.0
    return underway_ms + _held_back_ms(limits, batch, service_ms / batch, decode_ms)


def _held_back_ms(limits: BatchLimits, batch: float, between_ms: float, decode_ms: float) -> float:
    """Mean wait for company: TGI interrupts a large batch only for `waiting_served_ratio · batch` requests, or after
    `max_waiting_steps` decodes since the last prefill.

    With arrivals at random, `m` ms apart, and T the patience: `m · (1 - e^(-T/m)) - T · e^(-T/m)`, the mean of the
    shorter of the next arrival and what is left of T.
    """
    if limits.scheduler == "chunked" or limits.waiting_served_ratio * (batch - 1) < 2:
        return 0.0
    patience_ms = limits.max_waiting_steps * decode_ms
    impatient = exp(-patience_ms / between_ms)
    return between_ms * (1 - impatient) - patience_ms * impatient


def _prefill(deployment: PlannedDeployment, input_tokens: int, cached_tokens: int, batch: float) -> tuple[float, float]:
    """(groups a batch's prompts are prefilled in, ms to prefill one group): the step's token budget cuts them."""
    budget = deployment.limits.step_prefill_tokens
    new_tokens = input_tokens - cached_tokens
    group = max(1.0, min(batch, budget // new_tokens))
    # A prompt longer than the budget takes several steps of a chunked scheduler, one over-long step of any other.
    pieces = ceil(new_tokens / budget) if deployment.limits.scheduler == "chunked" else 1
    tokens = group * new_tokens
    piece_ms = _times_of(deployment).step_ms(
        prefill_tokens=tokens / pieces,
        prefill_pairs=tokens * (cached_tokens + new_tokens / 2) / pieces,
        prefill_requests=group,
    )
    return batch / group, pieces * piece_ms
