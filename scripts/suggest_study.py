"""Do two suggested levels halve a profile's ranges, and does the truth stay inside? The twin stands in for endpoints.

    python scripts/suggest_study.py [--endpoints 20] [--profiles dev/llama-3-1-8b ...]

An endpoint is the twin of a profile with parameters drawn from the planner's own doubt in them, and a network before it
that the planner does not know. Requests of the profile's lengths go to it in virtual time, the levels of a design are
calibrated on, and the calibrated plan is held against long runs at the curve's *other* levels: mean throughput, TTFT,
TPOT and E2E. Beside the suggested levels stand others of as many requests: the curve's ends, its two lowest, and two at
random. No GPU is in any of it: it shows the method, not hardware.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from statistics import mean, median

import numpy as np

from loadproof.capacity import PlannedDeployment
from loadproof.capacity.calibration import fit, fit_document
from loadproof.capacity.confidence import Confidence, confidence_of
from loadproof.capacity.deployment import with_calibration
from loadproof.capacity.observations import FigureName, Figures, Observation
from loadproof.capacity.suggestion import Choice, suggest
from loadproof.errors import InputError
from loadproof.profiles import Profile, load_profile
from loadproof.profiles.mixture import mixture_of
from loadproof.profiles.schema import CalibrationSource
from loadproof.simulation import ClosedLoop, SimulatedRequest, fresh_copies, simulate_fleet
from loadproof.simulation.profile import routing_of
from loadproof.simulation.sizes import request_sizes
from loadproof.simulation.traffic import JITTER_MS

ROOT = Path(__file__).resolve().parents[1]
PROFILES = ("dev/llama-3-1-8b", "prod/llama-3-1-8b", "prod/llama-2-7b", "dev/qwen3-32b", "prod/qwen3-32b")
KINDS: tuple[FigureName, ...] = ("output_tokens_per_s", "ttft_ms", "tpot_ms", "e2e_ms")
DESIGNS = ("suggested", "ends", "lowest two", "random two")
LONGEST_NETWORK_MS = 150.0
LONG_RUN = 1500  # requests of the truth at a level, 12 a slot at least
SOURCE = [CalibrationSource(file="the twin", sha256="0" * 64, levels=2)]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A stand-in: the twin of `deployment`."""

    profile: Profile
    deployment: PlannedDeployment
    seed: int

    def measured(self, concurrency: int, requests: int, seed: int) -> tuple[Figures, int, int]:
        """Means of the requests between the first round and the last one, of a closed loop in full swing; their mean
        prompt and answer, which a summary has too."""
        sizes = islice(request_sizes(mixture_of(self.profile.workload), seed), requests)
        copies = fresh_copies(self.deployment)
        results = simulate_fleet(
            copies, ClosedLoop(concurrency, jitter_ms=JITTER_MS), sizes, routing=routing_of(self.profile), seed=seed
        )
        done = [one for one in results if isinstance(one, SimulatedRequest)]
        kept = done[concurrency:-concurrency] or done
        tokens, e2e_ms = mean(one.output_tokens for one in kept), mean(one.e2e_ms for one in kept)
        figures = Figures(
            output_tokens_per_s=concurrency * tokens / e2e_ms * 1e3,
            ttft_ms=mean(one.ttft_ms for one in kept),
            tpot_ms=mean(one.tpot_ms or 0.0 for one in kept),
            e2e_ms=e2e_ms,
        )
        return figures, round(mean(one.input_tokens for one in kept)), round(tokens)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One design on one endpoint: widths of the curve's ranges after it over those before, and what was inside."""

    profile: str
    design: str
    levels: tuple[int, ...]
    width_before: float
    width_after: float
    inside_before: tuple[bool, ...]
    inside_after: tuple[bool, ...]
    minutes: float
    bands: tuple[float, float]
    shipped_bands: tuple[float, float]


def endpoint_of(choice: Choice, seed: int, times: float = 1.0) -> Endpoint:
    """Parameters drawn from `times` the planner's doubt in them."""
    draw = np.random.default_rng(seed)
    priors = choice.problem.priors
    factors = np.exp(draw.normal(size=len(priors)) * choice.spread * times)
    drawn = {name: value * float(by) for (name, value), by in zip(priors.items(), factors, strict=True)}
    drawn["bandwidth_efficiency"] = min(drawn["bandwidth_efficiency"], 0.98)
    drawn["ttft_ms"] = float(draw.uniform(0, LONGEST_NETWORK_MS))
    truth = choice.problem.applied(choice.deployment, drawn)
    return Endpoint(choice.profile, truth, seed)


def designs_of(choice: Choice, suggested: Sequence[int], seed: int) -> dict[str, tuple[int, ...]]:
    curve = [level.concurrency for level in choice.curve]
    able = [load for load in choice.candidates if load <= max(*curve, *suggested)]
    return {
        "suggested": tuple(suggested),
        "ends": (able[0], able[-1]),
        "lowest two": (able[0], able[1]),
        "random two": tuple(sorted(Random(seed).sample(able, 2))),
    }


def outcome(choice: Choice, endpoint: Endpoint, truth: Mapping[int, Figures], name: str, design: Design) -> Outcome:
    levels, requests = design
    cells = [_observed(choice, endpoint, load, max(requests, 4 * load)) for load in levels]
    curve = [level.concurrency for level in choice.curve]
    document = fit_document(fit(cells, loads=curve), SOURCE, None)
    after = with_calibration(choice.deployment, document)
    shipped, own = confidence_of(choice.deployment), confidence_of(after)
    others = [load for load in curve if load not in levels]
    return Outcome(
        profile=choice.profile.name,
        design=name,
        levels=levels,
        width_before=mean(choice_widths(choice, choice.deployment, shipped, curve)),
        width_after=mean(choice_widths(choice, after, own, curve)),
        inside_before=tuple(inside(choice, choice.deployment, shipped, truth, others)),
        inside_after=tuple(inside(choice, after, own, truth, others)),
        minutes=sum(choice.minutes_at(load, max(requests, 4 * load)) for load in levels),
        bands=(document.band, document.ttft_band),
        shipped_bands=(shipped.band, shipped.ttft_band),
    )


def _observed(choice: Choice, endpoint: Endpoint, load: int, requests: int) -> Observation:
    """As `loadproof calibrate` reads a level of the profile's own run: at the lengths that were sent."""
    figures, inputs, outputs = endpoint.measured(load, requests, 1000 + endpoint.seed)
    cell = choice.observed(load, figures)
    sent = replace(choice.workload, input_tokens=inputs, output_tokens=outputs)
    return replace(cell, input_tokens=inputs, output_tokens=outputs, workload=sent)


Design = tuple[tuple[int, ...], int]


def ranges(
    choice: Choice, deployment: PlannedDeployment, confidence: Confidence, loads: Sequence[int]
) -> Iterator[tuple[int, FigureName, float, float, float]]:
    """(level, figure, low, predicted, high) as a plan shows them."""
    for load in loads:
        level = choice.workload.level(deployment, load)
        assert level is not None
        for name in KINDS:
            value = float(getattr(level, name))
            low, high = confidence.range_of(name, value, level)
            yield load, name, low, value, high


def choice_widths(
    choice: Choice, deployment: PlannedDeployment, confidence: Confidence, loads: Sequence[int]
) -> Iterator[float]:
    for _, _, low, value, high in ranges(choice, deployment, confidence, loads):
        yield (high - low) / value


def inside(
    choice: Choice,
    deployment: PlannedDeployment,
    confidence: Confidence,
    truth: Mapping[int, Figures],
    loads: Sequence[int],
) -> Iterator[bool]:
    for load, name, low, _, high in ranges(choice, deployment, confidence, loads):
        yield low <= getattr(truth[load], name) <= high


def study(profile: str, endpoints: int, times: float) -> list[Outcome]:
    loaded = load_profile(ROOT / "deploy_profiles" / f"{profile}.yaml")
    found, choice = suggest(loaded), Choice(loaded)
    levels = [level.concurrency for level in found.levels]
    outcomes = []
    for seed in range(endpoints):
        endpoint = endpoint_of(choice, seed, times)
        loads = [level.concurrency for level in choice.curve]
        truth = {load: endpoint.measured(load, max(LONG_RUN, 12 * load), 5000 + seed)[0] for load in loads}
        for name, chosen in designs_of(choice, levels, seed).items():
            try:
                one = outcome(choice, endpoint, truth, name, (chosen, found.requests_per_level))
            except InputError as error:
                print(f"{profile} endpoint {seed} {name} {chosen}: {error}")
                continue
            outcomes.append(replace(one, profile=profile))
    return outcomes


def share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else float("nan")


def row(label: str, rows: Sequence[Outcome]) -> str:
    before = share([one for outcome in rows for one in outcome.inside_before])
    after = share([one for outcome in rows for one in outcome.inside_after])
    kept = median(one.width_after / one.width_before for one in rows)
    widths = (median(one.width_before for one in rows), median(one.width_after for one in rows))
    halved = share([one.width_after <= one.width_before / 2 for one in rows])
    levels = ", ".join(map(str, rows[0].levels)) if len({one.levels for one in rows}) == 1 else ""
    bands = [f"{median(one.bands[at] for one in rows):.0%}" for at in (0, 1)]
    shipped = [f"{median(one.shipped_bands[at] for one in rows):.0%}" for at in (0, 1)]
    cells = [label, rows[0].design, levels, f"{median(one.minutes for one in rows):.1f}"]
    cells += [f"{widths[0]:.2f}", f"{widths[1]:.2f}", f"{kept:.0%}", f"{halved:.0%}"]
    cells += [f"{', '.join(shipped)} → {', '.join(bands)}", f"{before:.0%}", f"{after:.0%}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoints", type=int, default=20, help="stand-ins a profile")
    parser.add_argument("--profiles", nargs="*", default=PROFILES)
    parser.add_argument(
        "--times", type=float, default=1.0, help="the planner's doubt: 2 for endpoints it is wrong about"
    )
    given = parser.parse_args()
    every = [one for profile in given.profiles for one in study(profile, given.endpoints, given.times)]
    heads = "profile | levels by | levels | minutes | width before | after | kept | halved"
    print(f"| {heads} | bands, TTFT's | inside before | after |")
    print("|" + "---|" * 11)
    for profile in [*given.profiles, "all"]:
        for design in DESIGNS:
            rows = [one for one in every if one.design == design and profile in (one.profile, "all")]
            print(row(profile, rows))


if __name__ == "__main__":
    main()
