"""The twin's word on a change: the same requests, in virtual time, to a profile before and after it."""

from __future__ import annotations

from dataclasses import dataclass

from loadproof.capacity.workload import planned_deployment, planned_workload
from loadproof.profiles.schema import Profile
from loadproof.simulation.fleet import simulate_fleet
from loadproof.simulation.replay import sent_to
from loadproof.simulation.results import summarise
from loadproof.simulation.traffic import JITTER_MS, ClosedLoop

# Requests a client sends: enough for a few rounds, few enough for a plan to stay quick.
_ROUNDS = 8
_FEWEST, _MOST = 200, 8_000


@dataclass(frozen=True, slots=True)
class TwinRun:
    """One closed loop in the twin; latencies are means, and None where nothing was served."""

    refused: int
    output_tokens_per_s: float | None
    ttft_ms: float | None
    e2e_ms: float | None
    e2e_p90_ms: float | None


def replay(profile: Profile, concurrency: int) -> TwinRun:
    """The profile's own requests, `concurrency` in flight over its fewest copies, all started; the same every time."""
    deployment, workload = planned_deployment(profile), planned_workload(profile)
    requests = min(max(_FEWEST, _ROUNDS * concurrency), max(_MOST, 2 * concurrency))
    copies, sizes, prefixes = sent_to(deployment, workload, requests, concurrency)
    summary = summarise(simulate_fleet(copies, ClosedLoop(concurrency, jitter_ms=JITTER_MS), sizes, prefixes=prefixes))
    return TwinRun(
        refused=summary.refused,
        output_tokens_per_s=summary.output_tokens_per_s,
        ttft_ms=summary.ttft.mean_ms,
        e2e_ms=summary.e2e.mean_ms,
        e2e_p90_ms=summary.e2e.percentile_ms(90),
    )
