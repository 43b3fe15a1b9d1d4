"""A plan's levels, played by the twin: clients that are not equally fast, lengths as they are drawn, chunks of prompts.

The formula (`capacity.curve`) is fitted to published means and keeps throughput and mean E2E. How requests meet in the
scheduler it cannot know; that is played, and gives the percentiles and how E2E is shared between TTFT and TPOT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from math import ceil
from statistics import fmean
from typing import Final

from loadproof.capacity import PlannedDeployment, PredictedLevel
from loadproof.capacity.curve import Percentiles, PlayedPart, Tails
from loadproof.capacity.outlook import ENOUGH_OF_A_CLASS
from loadproof.capacity.workload import PlannedWorkload, planned_workload
from loadproof.profiles.schema import Container, Profile
from loadproof.sessions import Mixture
from loadproof.simulation.chunked import BLOCK_TOKENS
from loadproof.simulation.closed_loop import fresh_copies
from loadproof.simulation.fleet import Sizes, simulate_fleet
from loadproof.simulation.results import SimulatedRequest
from loadproof.simulation.routing import Prefixes
from loadproof.simulation.scheduling import Scheduler
from loadproof.simulation.sizes import so_many
from loadproof.simulation.traffic import JITTER_MS, ClosedLoop

ROUNDS: Final = 8
FEWEST_REQUESTS: Final = 400
MOST_REQUESTS: Final = 8192
SESSIONS_A_CLIENT: Final = 4
MOST_FOR_A_CLASS: Final = 4_000  # requests of all, for a plan to stay quick


def replayed_workload(profile: Profile, container: Container | None = None) -> PlannedWorkload:
    """`planned_workload` whose levels are played; `container` is a further component's, default the profile's own."""
    return replayed(planned_workload(profile, container))


def replayed(planned: PlannedWorkload) -> PlannedWorkload:
    """`planned` with its levels played, drawn as its mixture says."""
    return replace(planned, replay=_Played(planned))


def ttft_factor(planned: PlannedWorkload, deployment: PlannedDeployment, concurrency: int) -> float:
    """What mean TTFT is of the formula's where requests meet as this workload sends them; 1 where nothing is served."""
    formula = planned.by_formula.level(deployment, concurrency)
    if formula is None or not formula.ttft_ms:
        return 1.0
    return _Played(planned)(deployment, formula).ttft_ms / formula.ttft_ms


@dataclass(frozen=True, slots=True)
class _Played:
    """Plays levels of one workload; always the same for the same level."""

    planned: PlannedWorkload

    def __call__(self, deployment: PlannedDeployment, level: PredictedLevel) -> PredictedLevel:
        mixture = self.planned.mixture
        if mixture is None or deployment.limits.scheduler == "dynamic":  # whole batches: the formula has them all
            return level
        busy_copies = min(level.concurrency, deployment.copies)
        # Where nothing leads a turn back to its own copy, it is all copies together that decide what it finds.
        together = busy_copies if not mixture.single and self.planned.history == "kept" else 1
        clients = max(1, ceil((level.concurrency - level.refused) * together / busy_copies))
        played = _played(self.planned, replace(deployment, copies=together), clients)
        if played is None:
            return level
        if mixture.single:
            to_formula = level.e2e_ms / played.e2e_ms  # the mean is the formula's, the shape the twin's
        else:
            to_formula, e2e_s = 1.0, played.e2e_ms / 1000  # no formula was ever fitted to sessions
            rate = mixture.requests_per_s(level.concurrency - level.refused, e2e_s)
            tokens = rate * self.planned.output_tokens
            level = replace(level, e2e_ms=played.e2e_ms, requests_per_s=rate, output_tokens_per_s=tokens)
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
            parts=played.parts,
        )


def sent_to(
    deployment: PlannedDeployment, planned: PlannedWorkload, requests: int, clients: int
) -> tuple[list[Scheduler], Sizes, Prefixes]:
    """(fresh copies, what `clients` send them, what they keep of it): so many requests, of sessions a few a client."""
    mixture, chunked = planned.mixture, deployment.limits.scheduler == "chunked"
    assert mixture is not None
    block_tokens = BLOCK_TOKENS if chunked and planned.history != "computed" and not mixture.single else 0
    if not mixture.single:
        requests = max(requests, min(MOST_REQUESTS, ceil(SESSIONS_A_CLIENT * clients * mixture.requests)))
    copies = fresh_copies(
        deployment,
        shared_prefix_tokens=planned.cached_tokens if chunked and not block_tokens else 0,
        request_tokens=planned.input_tokens + planned.output_tokens,
    )
    return copies, so_many(mixture, requests, block_tokens=block_tokens), Prefixes(block_tokens)


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """Means in ms, and percentiles; what a server adds before a first token is in them. `duration_ms` is wall time."""

    duration_ms: float
    ttft_ms: float
    e2e_ms: float
    tails: Tails
    parts: tuple[PlayedPart, ...] = ()
    """each class that has a name"""


@lru_cache(maxsize=4096)  # alternatives that differ in their number of machines alone share their copies' runs
def _played(planned: PlannedWorkload, copies: PlannedDeployment, clients: int) -> PlayedRun | None:
    """The share of a level's requests that these copies get, in virtual time; None where they serve none of them."""
    assert planned.mixture is not None
    requests = min(max(FEWEST_REQUESTS, ROUNDS * clients), max(MOST_REQUESTS, 2 * clients))
    requests = max(requests, _for_classes(planned.mixture))
    fresh, sizes, prefixes = sent_to(copies, planned, requests, clients)
    served = _served(simulate_fleet(fresh, ClosedLoop(clients, jitter_ms=JITTER_MS), sizes, prefixes=prefixes))
    names = {place: part.name for place, part in enumerate(planned.mixture.classes) if part.name}
    parts = tuple(_part(name, [one for one in served if one.part == place]) for place, name in names.items())
    return _run(served, parts) if served else None


def _for_classes(mixture: Mixture) -> int:
    """So many requests that each class with bounds of its own has enough to tell its percentiles by."""
    bounded = {one.name for one in mixture.classes if one.bounds}
    least = min((share for name, share in mixture.request_shares.items() if name in bounded), default=1.0)
    return min(MOST_FOR_A_CLASS, ceil(1.5 * ENOUGH_OF_A_CLASS / least))  # by chance there are fewer


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
    served = _served(simulate_fleet(copies, ClosedLoop(clients, jitter_ms=JITTER_MS), islice(sizes, requests)))
    return _run(served) if served else None


def _served(outcomes: Iterable[object]) -> list[SimulatedRequest]:
    return [one for one in outcomes if isinstance(one, SimulatedRequest)]


def _run(served: Sequence[SimulatedRequest], parts: tuple[PlayedPart, ...] = ()) -> PlayedRun:
    duration_ms = max(one.end_ms for one in served)
    ttft_ms, e2e_ms = fmean(one.ttft_ms for one in served), fmean(one.e2e_ms for one in served)
    return PlayedRun(duration_ms, ttft_ms, e2e_ms, _tails(served), parts)


def _part(name: str, served: Sequence[SimulatedRequest]) -> PlayedPart:
    return PlayedPart(name, len(served), _tails(served))


def _tails(served: Sequence[SimulatedRequest]) -> Tails:
    return Tails(
        _percentiles(sorted(one.ttft_ms for one in served)),
        _percentiles(sorted(one.tpot_ms for one in served if one.tpot_ms is not None)),
        _percentiles(sorted(one.e2e_ms for one in served)),
    )


def _percentiles(ordered: Sequence[float]) -> Percentiles:
    """By the nearest rank, as `Latencies` gives them; zeros of nothing."""
    ranks = (ceil(share * len(ordered) / 100) - 1 for share in (50, 90, 95, 99))
    return Percentiles(*(ordered[max(0, rank)] if ordered else 0.0 for rank in ranks))
