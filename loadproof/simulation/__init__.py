"""The twin: the server's scheduler over predicted step times, in virtual or wall time. All it yields is predicted."""

from loadproof.simulation.batching import ContinuousBatcher, Step
from loadproof.simulation.closed_loop import SimulatedRequest, simulate_closed_loop, simulate_requests
from loadproof.simulation.scheduling import Rejection

__all__ = ["ContinuousBatcher", "Rejection", "SimulatedRequest", "Step", "simulate_closed_loop", "simulate_requests"]
