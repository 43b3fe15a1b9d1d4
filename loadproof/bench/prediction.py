"""What a run's levels are expected to measure: a plan's levels of closed loops, the twin's word on open ones.

A fixed number in flight has a steady state, which the planner computes and the twin plays. An open loop has arrivals,
and beyond what the endpoint serves no steady state: there the twin is sent the level's own schedule in virtual time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from loadproof.bench.search.levels import ladder
from loadproof.bench.spec import BenchmarkSpec, PredictedPoint, Prediction
from loadproof.bench.workload.arrivals import Schedule, schedule_of
from loadproof.capacity.confidence import Confidence, confidence_of
from loadproof.capacity.curve import PredictedLevel
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.memory import memory_fit
from loadproof.capacity.workload import History, planned_mixture
from loadproof.loads import Load
from loadproof.simulation import OpenLoop, fresh_copies, simulate_fleet, summarise
from loadproof.simulation.chunked import BLOCK_TOKENS
from loadproof.simulation.fleet import Size
from loadproof.simulation.replay import replayed
from loadproof.simulation.routing import Prefixes
from loadproof.simulation.sizes import request_sizes

Routing = Literal["random", "least_outstanding"]
MOST_SIMULATED = 30_000  # requests of all open levels together: a second of CPU before the load starts


def with_prediction(
    spec: BenchmarkSpec,
    deployment: PlannedDeployment,
    *,
    cached_tokens: int = 0,
    history: History = "computed",
    routing: Routing = "least_outstanding",
) -> BenchmarkSpec:
    """The spec with what its levels are expected to measure, for the copies that are in service.

    `cached_tokens` of each prompt are planned as found in the server's prefix cache; `history` is what becomes of a
    conversation's earlier turns.
    """
    if memory_fit(deployment).fits == "no":
        return spec
    mixture = spec.workload.mixture
    planned = replace(planned_mixture(mixture, history=history, caches=False), cached_tokens=cached_tokens)
    confidence = confidence_of(deployment, mixture.longest, planned.input_tokens)
    played = replayed(planned)
    closed = (played.level(deployment, concurrency) for concurrency in _concurrencies(spec))
    points = [_planned_point(level, confidence) for level in closed if level is not None]
    if deployment.limits.scheduler != "chunked":
        cached_tokens = 0  # only a chunked scheduler is planned with a prefix cache
    keeps = history != "computed" and deployment.limits.scheduler == "chunked"
    points += Twin(spec, deployment, confidence, cached_tokens, routing, keeps).points(_open_loads(spec))
    return replace(spec, predicted=Prediction(confidence.grade, tuple(points))) if points else spec


def _concurrencies(spec: BenchmarkSpec) -> list[int]:
    """Of every closed level that is known ahead, and of a search's steps while nothing stops it."""
    if spec.search is not None and not spec.search.load.is_open:
        return [round(value) for value in ladder(spec.search, spec.at_concurrency)]
    return sorted({load.concurrency for load in spec.fixed_loads if load.concurrency is not None})


def _open_loads(spec: BenchmarkSpec) -> dict[int, Load]:
    """The same of open levels, by their place in the run."""
    if spec.search is not None and spec.search.load.is_open:
        return {
            place: spec.search.load_at(rate) for place, rate in enumerate(ladder(spec.search, spec.at_requests_per_s))
        }
    return {place: load for place, load in enumerate(spec.fixed_loads) if load.is_open}


def _planned_point(level: PredictedLevel, confidence: Confidence) -> PredictedPoint:
    return PredictedPoint(
        concurrency=level.concurrency,
        ttft_ms=level.ttft_ms,
        tpot_ms=level.tpot_ms,
        e2e_ms=level.e2e_ms,
        output_tokens_per_s=level.output_tokens_per_s,
        requests_per_s=level.requests_per_s,
        ttft_range_ms=confidence.range_of("ttft_ms", level.ttft_ms, level),
        tpot_range_ms=confidence.range_of("tpot_ms", level.tpot_ms, level),
        e2e_range_ms=confidence.range_of("e2e_ms", level.e2e_ms, level),
    )


@dataclass(frozen=True, slots=True)
class _Means:
    """Of one level in the twin: mean latencies (ms) and rates of what was served, and the share of what was not."""

    ttft_ms: float
    tpot_ms: float | None
    e2e_ms: float
    output_tokens_per_s: float
    requests_per_s: float
    error_rate: float


@dataclass(frozen=True, slots=True)
class Twin:
    """The deployment's copies, fresh and started, before the run's open levels.

    A range's ends are those of a twin whose steps take (1 + band) times as long, and as short: near what the endpoint
    can serve a little slower is a queue, and a band about the mean would not know of it.
    """

    spec: BenchmarkSpec
    deployment: PlannedDeployment
    confidence: Confidence
    cached_tokens: int
    routing: Routing
    keeps_prompts: bool = False

    def points(self, loads: dict[int, Load]) -> list[PredictedPoint]:
        """A point a load, up to `MOST_SIMULATED` requests."""
        points: dict[str, PredictedPoint] = {}
        left = MOST_SIMULATED
        for place, load in loads.items():
            schedule = schedule_of(load, self.spec.workload.seed, place, self.spec.workload.mixture.requests)
            left -= round(len(schedule.due_ns) * self.spec.workload.mixture.requests)
            if left < 0:
                break
            if load.words not in points and (point := self._point(load, schedule)) is not None:
                points[load.words] = point
        return [*points.values()]

    def _point(self, load: Load, schedule: Schedule) -> PredictedPoint | None:
        means = self._means(schedule, 1.0)
        if means is None:
            return None
        slower = 1 + self.confidence.band
        slow, fast = self._means(schedule, slower), self._means(schedule, 1 / slower)
        in_flight = means.requests_per_s * means.e2e_ms / 1000  # Little's law

        def span(name: str) -> tuple[float, float]:
            own = self.confidence.range_of(name, getattr(means, name), None)
            found = [*own, *(value for end in (slow, fast) if end and (value := getattr(end, name)) is not None)]
            return min(found), max(found)

        return PredictedPoint(
            concurrency=max(1, round(in_flight)),
            ttft_ms=means.ttft_ms,
            tpot_ms=means.tpot_ms,
            e2e_ms=means.e2e_ms,
            output_tokens_per_s=means.output_tokens_per_s,
            requests_per_s=means.requests_per_s,
            ttft_range_ms=span("ttft_ms"),
            tpot_range_ms=None if means.tpot_ms is None else span("tpot_ms"),
            e2e_range_ms=span("e2e_ms"),
            load=load.words,
            error_rate=means.error_rate,
        )

    def _means(self, schedule: Schedule, slower: float) -> _Means | None:
        """With steps `slower` times as long: arrivals as much closer together, and every time scaled back.

        None where nothing is served.
        """
        first_ns, timeout_ms = schedule.due_ns[0], self.spec.request_timeout_s * 1000
        times_ms = [(due_ns - first_ns) / 1e6 / slower for due_ns in schedule.due_ns]
        workload, mixture = self.spec.workload, self.spec.workload.mixture
        tokens, block_tokens = schedule.tokens, 0
        if self.keeps_prompts and schedule.blocks:
            block_tokens = schedule.blocks[0].block_tokens
        elif self.keeps_prompts and not mixture.single and not tokens:
            block_tokens = BLOCK_TOKENS
        planned = planned_mixture(mixture, history="computed", caches=False)
        recorded = _with_blocks(schedule) if tokens and block_tokens else tokens
        sizes = recorded or islice(request_sizes(mixture, workload.seed, block_tokens, slower), len(times_ms))
        copies = fresh_copies(
            self.deployment,
            shared_prefix_tokens=0 if block_tokens or tokens else self.cached_tokens,
            request_tokens=sum(map(sum, tokens)) / len(tokens)
            if tokens
            else planned.input_tokens + planned.output_tokens,
        )
        summary = summarise(
            simulate_fleet(
                copies,
                OpenLoop(times_ms),
                sizes,
                routing=self.routing,
                prefixes=Prefixes(block_tokens),
                give_up_after_ms=timeout_ms / slower,
            )
        )
        sent = summary.requests + summary.refused + summary.timed_out
        ttft_ms, tpot_ms, e2e_ms = summary.ttft.mean_ms, summary.tpot.mean_ms, summary.e2e.mean_ms
        tokens_per_s, requests_per_s = summary.output_tokens_per_s, summary.requests_per_s
        if ttft_ms is None or e2e_ms is None or tokens_per_s is None or requests_per_s is None:
            return None
        return _Means(
            ttft_ms=ttft_ms * slower,
            tpot_ms=None if tpot_ms is None else tpot_ms * slower,
            e2e_ms=e2e_ms * slower,
            output_tokens_per_s=tokens_per_s / slower,
            requests_per_s=requests_per_s / slower,
            error_rate=(summary.refused + summary.timed_out) / sent,
        )


def _with_blocks(schedule: Schedule) -> Sequence[Size]:
    """What a trace recorded of each request, of no session."""
    return [(*tokens, blocks.ids, None) for tokens, blocks in zip(schedule.tokens, schedule.blocks, strict=True)]
