"""How close a learned workload comes: the twin under it, beside the twin under the traffic itself. All is predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loadproof.bench.learn.reading import Recorded
from loadproof.profiles.schema import Profile
from loadproof.simulation import OpenLoop, ProfileSimulation, Traffic, simulate_profile

MOST_APART: Final = 0.05
MOST_MINUTES: Final = 60.0


@dataclass(frozen=True, slots=True)
class Closeness:
    """One predicted percentile under both; None where nothing was served."""

    name: str
    recorded_ms: float | None
    learned_ms: float | None

    @property
    def apart(self) -> float | None:
        """(learned − recorded) / recorded."""
        if not self.recorded_ms or self.learned_ms is None:
            return None
        return (self.learned_ms - self.recorded_ms) / self.recorded_ms

    @property
    def close(self) -> bool:
        return self.apart is not None and abs(self.apart) <= MOST_APART


def closeness_of(profile: Profile, recorded: Recorded, seed: int = 0) -> Sequence[Closeness]:
    """TTFT and E2E p95 of a profile that has the learned workload; its first hour, where there is more."""
    minutes = min(MOST_MINUTES, recorded.at_s[-1] / 60 + 1e-3)
    sizes = list(zip(recorded.input_tokens, recorded.output_tokens, strict=True))
    traffic = Traffic(OpenLoop([at_s * 1000 for at_s in recorded.at_s]), sizes, f"recorded, {len(recorded):,} requests")
    raw = simulate_profile(profile, minutes=minutes, traffic=traffic, seed=seed)
    fitted = simulate_profile(profile, minutes=minutes, seed=seed)
    return [Closeness(name, _p95(raw, name), _p95(fitted, name)) for name in ("ttft_p95_ms", "e2e_p95_ms")]


def _p95(made: ProfileSimulation, name: str) -> float | None:
    latencies = made.summary.ttft if name.startswith("ttft") else made.summary.e2e
    return latencies.percentile_ms(95)
