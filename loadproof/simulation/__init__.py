"""The twin: the server's scheduler over predicted step times, in virtual or wall time. All it yields is predicted."""

from loadproof.simulation.batching import ContinuousBatcher, Step, scheduler_for
from loadproof.simulation.closed_loop import fresh_copies, simulate_closed_loop, simulate_requests
from loadproof.simulation.dynamic import Dynamic
from loadproof.simulation.fleet import Routing, simulate_fleet
from loadproof.simulation.results import (
    Latencies,
    RefusedRequest,
    Result,
    SimulatedRequest,
    SimulationSummary,
    TimedOutRequest,
    summarise,
)
from loadproof.simulation.scheduling import Rejection
from loadproof.simulation.traffic import ClosedLoop, OpenLoop, arrival_times_ms, recorded_times_ms

__all__ = [
    "ClosedLoop",
    "ContinuousBatcher",
    "Dynamic",
    "Latencies",
    "OpenLoop",
    "RefusedRequest",
    "Rejection",
    "Result",
    "Routing",
    "SimulatedRequest",
    "SimulationSummary",
    "Step",
    "TimedOutRequest",
    "arrival_times_ms",
    "fresh_copies",
    "recorded_times_ms",
    "scheduler_for",
    "simulate_closed_loop",
    "simulate_fleet",
    "simulate_requests",
    "summarise",
]
