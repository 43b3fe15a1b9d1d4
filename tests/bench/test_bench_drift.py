"""Whether traffic is still what was proven: how often that is asked in vain, and how soon it is seen."""

from __future__ import annotations

from math import exp
from pathlib import Path

import pytest
from bench_recorded import PROVEN, WORKLOAD, recorded

from loadproof.bench.learn.drift import LENGTHS_AT, RATE_AT, Bins, Drift, drift_of
from loadproof.profiles import load_profile
from loadproof.profiles.schema import Profile, Workload


def by_name(found: list[Drift]) -> dict[str, Drift]:
    return {one.quantity: one for one in found}


@pytest.fixture(scope="module")
def proven() -> Profile:
    """The proven workload in a profile of this repository."""
    file = Path(__file__).parents[2] / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"
    return load_profile(file).model_copy(update={"workload": Workload.model_validate(WORKLOAD)})


def test_a_bins_share_is_an_eighth() -> None:
    """Eight quantiles, and next to nothing outside of what was drawn; each with 5% on top."""
    shares = [exp(one) / 1.05 for one in Bins.of(PROVEN).log_allowed]
    assert shares[0] == shares[-1] == pytest.approx(1e-4)
    assert sum(shares[1:-1]) == pytest.approx(1, abs=1e-3)
    assert max(shares) == pytest.approx(0.125, rel=0.05)


def test_alarms_are_shared_out_over_a_month() -> None:
    """Half of 5% for two lengths on 31 days, half for 744 hours: ln(2 · 62 / 0.05), ln(2 · 744 / 0.05)."""
    assert (pytest.approx(7.816, abs=1e-3), pytest.approx(10.301, abs=1e-3)) == (LENGTHS_AT, RATE_AT)


@pytest.mark.parametrize("seed", range(8))
def test_months_as_proven_alarm_nobody(proven: Profile, seed: int) -> None:
    """Looked at after every hour of 31 days; at most one month in twenty may."""
    found, _ = drift_of(proven, recorded(31, seed))
    assert not any(one.moved for one in found)


@pytest.mark.parametrize(
    ("name", "changes"), [("prompt tokens", {"longer": 1.5}), ("requests/s", {"rate": 0.015})], ids=["longer", "faster"]
)
def test_what_moved_is_seen(proven: Profile, name: str, changes: dict[str, float]) -> None:
    """Half as much again, within a day of some thousand requests; what did not move is not blamed."""
    rate = {"rate": 0.05, **{key: value * 10 if key == "rate" else value for key, value in changes.items()}}
    busier = proven.model_copy(
        update={
            "workload": Workload.model_validate({**WORKLOAD, "arrivals": {"process": "poisson", "requests_per_s": 0.1}})
        }
    )
    if name == "prompt tokens":
        rate["rate"] = 0.1
    found = by_name(drift_of(busier, recorded(1, 3, **rate))[0])
    assert [one for one in found if found[one].moved] == [name]
    assert found[name].found == pytest.approx(found[name].proven * 1.5, rel=0.15)


def test_fewer_requests_are_no_alarm(proven: Profile) -> None:
    """A quiet day is served as well as a loud one."""
    found = by_name(drift_of(proven, recorded(2, 1, rate=0.002))[0])
    assert not found["requests/s"].moved


def test_a_rate_that_was_not_proven_is_not_tested(proven: Profile) -> None:
    """A closed loop has none; prompts of a dataset have no counted length."""
    workload = proven.workload.model_copy(
        update={
            "arrivals": Workload.model_validate({"input_tokens": 1, "output_tokens": 1}).arrivals,
            "dataset": "chats.json",
        }
    )
    found, notes = drift_of(proven.model_copy(update={"workload": workload}), recorded(1, 1))
    assert [one.quantity for one in found] == ["answer tokens"]
    assert len(notes) == 2
