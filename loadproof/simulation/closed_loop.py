"""Closed loops in virtual time: the simplest traffic, and the planner's cross-check."""

from __future__ import annotations

from collections.abc import Sequence

from loadproof.capacity import PlannedDeployment, StepTimes
from loadproof.capacity.memory import batch_limits
from loadproof.errors import InputError
from loadproof.simulation.batching import scheduler_for
from loadproof.simulation.fleet import simulate_fleet
from loadproof.simulation.results import RefusedRequest, SimulatedRequest
from loadproof.simulation.scheduling import Scheduler
from loadproof.simulation.traffic import ClosedLoop


def fresh_copies(
    deployment: PlannedDeployment, *, shared_prefix_tokens: int = 0, request_tokens: float | None = None
) -> list[Scheduler]:
    """A scheduler for each copy of the deployment, idle and empty; what `simulate_fleet` is given.

    Give `shared_prefix_tokens` only where the server's prefix caching is on. `request_tokens`, the mean of prompt plus
    answer, decides how many requests fit where layers keep a window or a state instead of every token.
    """
    times, limits = StepTimes(deployment), batch_limits(deployment, request_tokens)
    outside_ms = deployment.server.ttft_ms
    return [
        scheduler_for(times, limits, shared_prefix_tokens=shared_prefix_tokens, outside_ms=outside_ms)
        for _ in range(deployment.copies)
    ]


def simulate_closed_loop(
    deployment: PlannedDeployment, input_tokens: int, output_tokens: int, concurrency: int, requests: int
) -> list[SimulatedRequest]:
    """`simulate_requests` for `requests` equal requests."""
    return simulate_requests(deployment, [(input_tokens, output_tokens)] * requests, concurrency)


def simulate_requests(
    deployment: PlannedDeployment, sizes: Sequence[tuple[int, int]], concurrency: int
) -> list[SimulatedRequest]:
    """Send requests of (input, output) tokens to one copy in order, `concurrency` in flight, until all have ended.

    Returns them in order of end. Raises InputError when the server would refuse one of them.
    """
    done: list[SimulatedRequest] = []
    mean_tokens = sum(map(sum, sizes)) / len(sizes) if sizes else None
    copies = fresh_copies(deployment, request_tokens=mean_tokens)[:1]
    for result in simulate_fleet(copies, ClosedLoop(concurrency), sizes):
        if isinstance(result, RefusedRequest):
            tokens = f"{result.input_tokens} + {result.output_tokens}"
            raise InputError(f"the server refuses {tokens} tokens: {result.reason}")
        assert isinstance(result, SimulatedRequest)  # nobody gives up
        done.append(result)
    return done
