"""The twin: the server's scheduler over predicted step times, in virtual or wall time. All it yields is predicted."""

from loadproof.capacity.start_up import StartUp, start_up_of
from loadproof.simulation.batching import ContinuousBatcher, Step, scheduler_for
from loadproof.simulation.closed_loop import fresh_copies, simulate_closed_loop, simulate_requests
from loadproof.simulation.dynamic import Dynamic
from loadproof.simulation.elastic import CopyCount, ElasticCopies, Machines
from loadproof.simulation.fleet import simulate_fleet
from loadproof.simulation.plan import make_plan
from loadproof.simulation.profile import ProfileSimulation, simulate_profile
from loadproof.simulation.profile_traffic import OtherLoad, Traffic, traffic_of
from loadproof.simulation.replay import replayed_workload
from loadproof.simulation.results import (
    Latencies,
    RefusedRequest,
    Result,
    SimulatedRequest,
    SimulationSummary,
    TimedOutRequest,
    summarise,
)
from loadproof.simulation.routing import Routing
from loadproof.simulation.scaling import Autoscaler, BoundsChange, StepScaling, TargetTracking, WakeUp
from loadproof.simulation.scheduling import Rejection
from loadproof.simulation.traffic import ClosedLoop, OpenLoop, arrival_times_ms, ramped_times_ms, recorded_times_ms

__all__ = [
    "Autoscaler",
    "BoundsChange",
    "ClosedLoop",
    "ContinuousBatcher",
    "CopyCount",
    "Dynamic",
    "ElasticCopies",
    "Latencies",
    "Machines",
    "OpenLoop",
    "OtherLoad",
    "ProfileSimulation",
    "RefusedRequest",
    "Rejection",
    "Result",
    "Routing",
    "SimulatedRequest",
    "SimulationSummary",
    "StartUp",
    "Step",
    "StepScaling",
    "TargetTracking",
    "TimedOutRequest",
    "Traffic",
    "WakeUp",
    "arrival_times_ms",
    "fresh_copies",
    "make_plan",
    "ramped_times_ms",
    "recorded_times_ms",
    "replayed_workload",
    "scheduler_for",
    "simulate_closed_loop",
    "simulate_fleet",
    "simulate_profile",
    "simulate_requests",
    "start_up_of",
    "summarise",
    "traffic_of",
]
