"""Suggested levels halve a profile's ranges, and the truth stays inside; the twin stands in for the endpoint."""

from __future__ import annotations

import sys
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from loadproof.capacity.suggestion import REQUESTS, Choice, suggest
from loadproof.errors import InputError
from loadproof.profiles import load_profile
from loadproof.profiles.schema import Profile

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import suggest_study  # noqa: E402  its folder is no package


@cache
def study(name: str) -> list[suggest_study.Outcome]:
    """Four stand-ins, each once for every design."""
    return suggest_study.study(name, 4, 1.0)


@cache
def profile(name: str) -> Profile:
    return load_profile(ROOT / "deploy_profiles" / f"{name}.yaml")


@pytest.mark.parametrize("name", ["dev/llama-3-1-8b", "prod/llama-2-7b", "dev/qwen3-32b"])
def test_two_levels_halve_the_ranges_and_the_truth_stays_inside(name: str) -> None:
    """Four stand-ins, drawn from the planner's own doubt: widths at least halve for three of four and in the middle,
    and 75% of what the other levels really do is inside."""
    outcomes = [one for one in study(name) if one.design == "suggested"]
    kept = sorted(one.width_after / one.width_before for one in outcomes)
    assert len(kept) == 4
    assert kept[2] <= 0.5
    held = [one for outcome in outcomes for one in outcome.inside_after]
    assert sum(held) / len(held) >= 0.75


def test_an_endpoint_beside_its_lowest_levels_is_less_sure() -> None:
    """The two lowest levels say less of the curve than those suggested, on the same stand-ins."""
    outcomes = study("prod/llama-2-7b")
    widths = {
        design: sum(one.width_after for one in outcomes if one.design == design)
        for design in ("suggested", "lowest two")
    }
    assert widths["suggested"] < widths["lowest two"]


def test_no_other_set_within_the_minutes_leaves_much_less_doubt() -> None:
    """Exhaustive: of all pairs and singles in 5 minutes none is better than 5% below the one chosen."""
    choice = Choice(profile("prod/llama-2-7b"))
    best = choice.best(5.0, 2)
    for requests in REQUESTS:
        able = [load for load in choice.candidates if requests >= 4 * load]
        for chosen in (*combinations(able, 1), *combinations(able, 2)):
            if sum(choice.minutes_at(load, requests) for load in chosen) <= 5.0:
                after = choice.doubt_after([choice.information(load, requests) for load in chosen])
                assert best.doubt <= after * 1.05 * (1 + 1e-9)


def test_the_minutes_are_kept_and_more_of_them_never_leave_more_doubt() -> None:
    """1 to 30 minutes: within each, and the doubt does not grow by more than the 5% that are given for time."""
    choice, before = Choice(profile("prod/llama-3-1-8b")), float("inf")
    for minutes in (2.5, 5.0, 10.0, 30.0):
        design = choice.best(minutes, 2)
        assert design.minutes <= minutes
        assert design.doubt <= before * 1.05
        before = design.doubt


def test_minutes_of_a_level_by_hand() -> None:
    """96 requests at 8 in flight with 2 for warm-up, rounded up to one round: 104 / 8 = 13 rounds of E2E, and 6 s."""
    choice = Choice(profile("dev/llama-3-1-8b"))
    level = choice.workload.level(choice.deployment, 8)
    assert level is not None
    assert choice.minutes_at(8, 96) == pytest.approx((13 * level.e2e_ms / 1e3 + 6.0) / 60)


def test_nothing_past_the_profiles_own_benchmark_is_suggested() -> None:
    """Its levels end at 8; a ladder climbs to 64, where further copies would start."""
    assert max(Choice(profile("dev/llama-3-1-8b")).candidates) == 8


def test_what_is_asked_decides() -> None:
    """A profile whose objectives and curve lie at 64 alone is measured near there, one at 1 and 2 alone near those."""
    base = profile("prod/llama-3-1-8b")

    def about(*loads: int) -> Profile:
        return base.model_copy(
            update={
                "benchmark": base.benchmark.model_copy(update={"concurrency": loads}),
                "objectives": base.objectives.model_copy(update={"at_concurrency": loads[-1]}),
            }
        )

    high, low = (suggest(about(*loads), minutes=200, levels=1) for loads in ((64,), (1, 2)))
    assert high.levels[0].concurrency >= 16 > 2 >= low.levels[0].concurrency


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"minutes": 0.01}, "--minutes 0.01: no level of llama-3-1-8b can be measured in it; the shortest takes 0"),
        ({"minutes": 0.0}, "--minutes 0: expected above 0"),
        ({"levels": 5}, r"--levels 5: expected 1\.\.4"),
    ],
)
def test_what_cannot_be_asked_is_said(given: dict[str, float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        suggest(profile("dev/llama-3-1-8b"), **given)  # type: ignore[arg-type]
