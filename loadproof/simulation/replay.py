"""A plan's levels, played by the twin: clients that are not equally fast, lengths as they are drawn, chunks of prompts.

The formula (`capacity.curve`) is fitted to published means and keeps throughput and mean E2E. How requests meet in the
scheduler it cannot know; that is played, and gives the percentiles and how E2E is shared between TTFT and TPOT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from math import ceil
from typing import Final

from loadproof.capacity import Plan, PlannedDeployment, PredictedLevel
from loadproof.capacity import make_plan as plan_of
from loadproof.capacity.curve import Percentiles, Tails
from loadproof.capacity.workload import PlannedWorkload, planned_workload
from loadproof.profiles.schema import Container, Profile, Workload
from loadproof.simulation.closed_loop import fresh_copies
from loadproof.simulation.fleet import simulate_fleet
from loadproof.simulation.results import SimulatedRequest
from loadproof.simulation.sizes import request_sizes
from loadproof.simulation.traffic import ClosedLoop

JITTER_MS: Final = 2.0  # mean of what a client takes, by chance, before its next request
ROUNDS: Final = 8
FEWEST_REQUESTS: Final = 400
MOST_REQUESTS: Final = 8192


def make_plan(profile: Profile) -> Plan:
    """The profile's plan, its levels played. Raises InputError as `capacity.make_plan` does."""
    return plan_of(profile, replayed_workload(profile))


def replayed_workload(profile: Profile, container: Container | None = None) -> PlannedWorkload:
    """`planned_workload` whose levels are played; `container` is a further component's, default the profile's own."""
    return replayed(planned_workload(profile, container), profile.workload)


def replayed(planned: PlannedWorkload, workload: Workload) -> PlannedWorkload:
    """`planned` with its levels played, their lengths drawn as `workload` says."""
    return replace(planned, replay=_Played(workload, planned))


@dataclass(frozen=True, slots=True)
class _Played:
    """Plays levels of one workload; always the same for the same level."""

    workload: Workload
    planned: PlannedWorkload

    def __call__(self, deployment: PlannedDeployment, level: PredictedLevel, kept_share: float) -> PredictedLevel:
        if deployment.limits.scheduler == "dynamic":  # whole batches, whole answers: the formula has them all
            return level
        busy_copies = min(level.concurrency, deployment.copies)
        clients = max(1, ceil((level.concurrency - level.refused) / busy_copies))
        played = _played(self.workload, self.planned, replace(deployment, copies=1), clients, kept_share)
        if played is None:
            return level
        to_formula = level.e2e_ms / played.e2e_ms  # the mean is the formula's, the shape the twin's
        tails = replace(played.tails, e2e_ms=played.tails.e2e_ms.scaled(to_formula))
        ttft_ms = min(played.ttft_ms, level.e2e_ms)
        after_first = self.planned.output_tokens - 1
        return replace(
            level,
            queue_ms=min(level.queue_ms, ttft_ms),
            ttft_ms=ttft_ms,
            ttft_last_ms=tails.ttft_ms.p95,
            tpot_ms=(level.e2e_ms - ttft_ms) / after_first if after_first else level.tpot_ms,
            tpot_longest_ms=tails.tpot_ms.p95,
            tails=tails,
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """Means in ms, and percentiles."""

    ttft_ms: float
    e2e_ms: float
    tails: Tails


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """Means in ms, and percentiles; what a server adds before a first token is in them. `duration_ms` is wall time."""

    duration_ms: float
    ttft_ms: float
    e2e_ms: float
    tails: Tails


@lru_cache(maxsize=4096)  # alternatives that differ in their number of machines alone share their copies' runs
def _played(
    workload: Workload, planned: PlannedWorkload, copy: PlannedDeployment, clients: int, kept_share: float
) -> PlayedRun | None:
    """One copy's share of a level's requests; None where it serves none of them."""
    requests = min(max(FEWEST_REQUESTS, ROUNDS * clients), max(MOST_REQUESTS, 2 * clients))
    prefix = planned.cached_tokens if copy.limits.scheduler == "chunked" else 0
    sizes = request_sizes(workload, kept_share=kept_share)
    return play(copy, clients, requests, sizes, planned.input_tokens + planned.output_tokens, prefix)


def play(
    deployment: PlannedDeployment,
    clients: int,
    requests: int,
    sizes: Iterator[tuple[int, ...]],
    request_tokens: float,
    shared_prefix_tokens: int = 0,
) -> PlayedRun | None:
    """So many requests of one copy's clients in virtual time, all begun together; None where it serves none.

    `sizes` as `simulate_fleet` takes them, `request_tokens` their mean, prompt plus answer.
    """
    copies = fresh_copies(
        replace(deployment, copies=1), shared_prefix_tokens=shared_prefix_tokens, request_tokens=request_tokens
    )
    outside_ms = deployment.server.ttft_ms
    loop = ClosedLoop(clients, turnaround_ms=outside_ms, jitter_ms=JITTER_MS)
    served = [one for one in simulate_fleet(copies, loop, islice(sizes, requests)) if isinstance(one, SimulatedRequest)]
    if not served:
        return None
    ttfts = sorted(one.ttft_ms + outside_ms for one in served)
    e2es = sorted(one.end_ms - one.sent_ms + outside_ms for one in served)
    tpots = sorted(
        (one.end_ms - one.first_token_ms) / (one.output_tokens - 1) for one in served if one.output_tokens > 1
    )
    tails = Tails(_percentiles(ttfts), _percentiles(tpots), _percentiles(e2es))
    return PlayedRun(
        max(one.end_ms for one in served) + outside_ms, sum(ttfts) / len(ttfts), sum(e2es) / len(e2es), tails
    )


def _percentiles(ordered: Sequence[float]) -> Percentiles:
    """By the nearest rank, as `Latencies` gives them; zeros of nothing."""
    ranks = (ceil(share * len(ordered) / 100) - 1 for share in (50, 90, 95, 99))
    return Percentiles(*(ordered[max(0, rank)] if ordered else 0.0 for rank in ranks))
