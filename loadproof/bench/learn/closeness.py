"""How close a learned workload comes: the twin under it, beside the twin under the traffic itself. All is predicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from statistics import median
from typing import Final

from loadproof.bench.learn.fitting import spread_s
from loadproof.bench.learn.recorded import Recorded
from loadproof.bench.workload.played import played
from loadproof.capacity.workload import planned_deployment, planned_workload
from loadproof.profiles.schema import Profile
from loadproof.simulation import OpenLoop, ProfileSimulation, Traffic, simulate_profile
from loadproof.simulation.profile_traffic import MONDAY

MOST_APART: Final = 0.05
LEAST_MINUTES: Final = 60.0
ENOUGH: Final = 20_000  # requests, past which an hour is played and no more
DRAWS: Final = 5  # runs of the learned workload: bursts alone move a p95


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


@dataclass(frozen=True, slots=True)
class Twins:
    """A profile under its own workload, under the recorded traffic (None: only a share was recorded), and under the
    learned one, drawn several times."""

    proven: ProfileSimulation
    recorded: ProfileSimulation | None
    learned: Sequence[ProfileSimulation]


def twins_of(proven: Profile, learned: Profile, recorded: Recorded, seed: int = 0) -> Twins:
    """The twin of each, for an hour, and longer where that has too few requests to tell a p95."""
    whole = recorded.at_s[-1] / 60 + 1e-3
    minutes = min(whole, max(LEAST_MINUTES, whole * ENOUGH / len(recorded)))
    starts_at = datetime.fromtimestamp(recorded.began_s, UTC) if recorded.dated else MONDAY
    play = partial(simulate_profile, minutes=minutes, starts_at=starts_at)
    return Twins(
        play(proven, seed=seed),
        None if recorded.share < 1 else play(learned, traffic=_traffic(learned, recorded, seed), seed=seed),
        [play(learned, seed=seed + draw) for draw in range(DRAWS if recorded.share == 1 else 1)],
    )


def _traffic(learned: Profile, recorded: Recorded, seed: int) -> Traffic:
    """A trace's own requests where it tells their blocks; else of each prompt's history what the plan keeps of one."""
    words = f"recorded, {len(recorded):,} requests"
    if recorded.rows:
        return played(recorded.rows, words)
    kept = planned_workload(learned).kept_share(planned_deployment(learned), learned.objectives.at_concurrency)
    columns = (recorded.input_tokens, recorded.output_tokens, recorded.new_tokens)
    sizes = [(prompt, answer, int(kept * (prompt - new))) for prompt, answer, new in zip(*columns, strict=True)]
    times = OpenLoop((1000 * spread_s(recorded.at_s, seed)).tolist())
    return Traffic(times, sizes, words, shared_prefix_tokens=learned.workload.shared_prefix_tokens)


def closeness_of(recorded: ProfileSimulation, learned: Sequence[ProfileSimulation]) -> Sequence[Closeness]:
    """TTFT and E2E p95; of the learned workload the median of its draws."""
    return [
        Closeness(name, predicted(recorded, name), _middle(predicted(one, name) for one in learned))
        for name in ("ttft_p95_ms", "e2e_p95_ms")
    ]


def _middle(found: Iterable[float | None]) -> float | None:
    served = [one for one in found if one is not None]
    return median(served) if served else None


@dataclass(frozen=True, slots=True)
class Consequence:
    """What the twin says of one latency objective: under the proven workload, and under the recorded traffic."""

    name: str
    bound_ms: float
    proven_ms: float | None
    recorded_ms: float | None

    @property
    def breaks(self) -> bool:
        """Met as it was proven, and not any more."""
        return self._meets(self.proven_ms) and not self._meets(self.recorded_ms)

    def _meets(self, found_ms: float | None) -> bool:
        return found_ms is not None and found_ms <= self.bound_ms


def consequences_of(profile: Profile, proven: ProfileSimulation, recorded: ProfileSimulation) -> Sequence[Consequence]:
    """Of every latency objective that the twin has a figure for: it yields no gaps between tokens."""
    return [
        Consequence(name, bound, predicted(proven, name), predicted(recorded, name))
        for name, bound in profile.objectives
        if bound is not None and name.partition("_")[0] in ("ttft", "tpot", "e2e")
    ]


def predicted(made: ProfileSimulation, name: str) -> float | None:
    """A percentile by an objective's name, `e2e_p95_ms`; None where nothing was served."""
    metric, percentile, _ = name.split("_")
    latencies = {"ttft": made.summary.ttft, "tpot": made.summary.tpot, "e2e": made.summary.e2e}[metric]
    return latencies.percentile_ms(int(percentile.removeprefix("p")))
