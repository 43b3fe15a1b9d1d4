"""Whether traffic is still what was proven: how often that is asked in vain, and how soon it is seen.

Tests of one workload stand together: its lengths are drawn once for all of them (`drawn_of` keeps the last).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from random import Random

import numpy as np
import pytest
from bench_recorded import DAY_S, DAY_SHAPE, MONDAY_S, WORKLOAD, recorded

from loadproof.bench.learn import proven as workload_drawn
from loadproof.bench.learn.clock import shaped_s
from loadproof.bench.learn.drift import DAY_AT, HOUR_AT, Cells, Drift, drift_of, fair_worth
from loadproof.bench.learn.proven import cost_of_a_session, drawn_of
from loadproof.bench.learn.recorded import Recorded
from loadproof.profiles import load_profile
from loadproof.profiles.mixture import mixture_of
from loadproof.profiles.schema import Profile, Workload


@pytest.fixture(scope="module", autouse=True)
def drawn_less() -> Iterator[None]:
    """50,000 requests of the proven workload instead of 200,000: a share of an eighth is then known to
    √(7 / 50,000) = 1.2% of itself, which is still far within the 5% that are no alarm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload_drawn, "_DRAWS", 50_000)
        drawn_of.cache_clear()
        yield
    drawn_of.cache_clear()


def by_name(found: list[Drift]) -> dict[str, Drift]:
    return {one.quantity: one for one in found}


@pytest.fixture(scope="module")
def proven() -> Profile:
    """The proven workload in a profile of this repository."""
    file = Path(__file__).parents[2] / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"
    return load_profile(file).model_copy(update={"workload": Workload.model_validate(WORKLOAD)})


def moved(found: list[Drift]) -> list[str]:
    return [one.quantity for one in found if one.moved]


def changed(profile: Profile, **changes: object) -> Profile:
    """A profile of the proven workload, with what changes of it."""
    return profile.model_copy(update={"workload": Workload.model_validate(WORKLOAD | changes)})


def test_a_cells_share_is_an_eighth(proven: Profile) -> None:
    """Eight quantiles, and next to nothing outside of what was drawn; each with 5% on top."""
    shares = [exp(one) / 1.05 for one in Cells.of(drawn_of(mixture_of(proven.workload), 0).prompts).log_allowed]
    assert shares[0] == shares[-1] == pytest.approx(1e-4)
    assert sum(shares[1:-1]) == pytest.approx(1, abs=1e-3)
    assert max(shares) == pytest.approx(0.125, rel=0.05)


def test_alarms_are_shared_out_over_a_month() -> None:
    """Half of 5% for six bets on 31 days, half for 744 hours: ln(2 · 186 / 0.05), ln(2 · 744 / 0.05)."""
    assert (pytest.approx(8.914, abs=1e-3), pytest.approx(10.301, abs=1e-3)) == (DAY_AT, HOUR_AT)


def test_a_bet_on_shares_is_fair_for_all_that_are_no_alarm() -> None:
    """Two cells of a half, 3/4 bet on the first: 52.5% are no alarm there, so that the second is held against 47.5%."""
    found = fair_worth(np.array([0.75, 0.25]), np.array([0.5, 0.5]))
    assert found == pytest.approx([log(0.75 / 0.525), log(0.25 / 0.475)], abs=1e-9)
    assert np.array([0.525, 0.475]) @ np.exp(found) == pytest.approx(1)
    assert np.array([0.5, 0.5]) @ np.exp(found) < 1


@pytest.mark.parametrize(("share", "cost"), [(1.0, log(4)), (0.5, log(6))])
def test_what_a_session_costs(proven: Profile, share: float, cost: float) -> None:
    """Two turns, each worth a factor of 2: whole they are worth 4. Of every second request the other is worth
    1 + 0.5 · 1 = 1.5 in the mean, and the first 0.5 · 2/6 + 0.5 = 2/3 at a cost of 6: 1 together."""
    mixture = mixture_of(changed(proven, turns=2).workload)
    assert cost_of_a_session(mixture, log(2), share) == pytest.approx(cost)


def test_sessions_that_may_end_cost_what_they_bring(proven: Profile) -> None:
    """One turn in a quarter, two in three quarters: ln(0.25 · 2 + 0.75 · 4) = ln 3.5."""
    mixture = mixture_of(changed(proven, turns=2, continues=0.75).workload)
    assert cost_of_a_session(mixture, log(2), 1.0) == pytest.approx(log(3.5))


def test_time_is_counted_by_the_shape_of_the_week() -> None:
    """Monday's first hour counts twice, its second not at all, its third once."""
    week = (2.0, 0.0, *(1.0,) * 166)
    times = MONDAY_S + np.array([1800, 3000, 3600, 7000, 7200, 9000])
    assert shaped_s(times, week) == pytest.approx([0, 2400, 3600, 3600, 3600, 5400])


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


def test_a_day_as_proven_is_no_alarm_and_one_without_its_shape_is(proven: Profile) -> None:
    """The same requests in all: at night, where the shape has few, there are now as many as by day."""
    shaped = changed(proven, arrivals={"process": "poisson", "requests_per_s": 0.01, "hours": DAY_SHAPE})
    assert moved(drift_of(shaped, recorded(7, 3, hours=DAY_SHAPE))[0]) == []
    assert moved(drift_of(shaped, recorded(7, 3))[0]) == ["requests/s"]


def test_a_shape_is_not_tested_where_nothing_tells_the_hour(proven: Profile) -> None:
    """A trace that counts from its first request; of what else moved it says after how long."""
    shaped = changed(proven, arrivals={"process": "poisson", "requests_per_s": 0.01, "hours": DAY_SHAPE})
    traffic = recorded(3, 3, hours=DAY_SHAPE, longer=2.0)
    traffic.dated, traffic.began_s = False, 0.0
    found, notes = drift_of(shaped, traffic)
    assert notes == [
        "the rate is not tested: the profile has a shape of a day or week, and the times of this traffic do not tell "
        "the hour"
    ]
    assert moved(found) == ["prompt tokens"]
    assert (found[0].since, 0 < (found[0].after_s or 0) < DAY_S) == (None, True)


def test_single_requests_that_became_conversations_are_seen(proven: Profile) -> None:
    """Whole prompts get longer, and a session has four requests."""
    assert moved(drift_of(proven, recorded(3, 4, turns=4))[0]) == ["prompt tokens", "turns"]


def test_lengths_that_go_together_are_seen(proven: Profile) -> None:
    """Each is as it was; long prompts have long answers now."""
    found = by_name(drift_of(proven, recorded(2, 6, paired=True))[0])
    assert [one for one in found if found[one].moved] == ["prompts with answers"]
    assert found["prompts with answers"].proven == pytest.approx(0, abs=0.01)
    assert found["prompts with answers"].found == pytest.approx(1, abs=0.01)


def test_a_share_of_regular_requests_is_no_alarm(proven: Profile) -> None:
    """Of gaps of burstiness 4 a quarter is recorded: these gaps are nearly a Poisson process's, and no alarm."""
    regular = changed(proven, arrivals={"process": "gamma", "requests_per_s": 0.1, "burstiness": 4.0})
    traffic, chance = recorded(2, 7, rate=0.1, burstiness=4.0), Random(8)
    kept = [at for at in range(len(traffic)) if chance.random() < 0.25]
    for name in ("at_s", "input_tokens", "new_tokens", "output_tokens", "turns"):
        column = getattr(traffic, name)
        setattr(traffic, name, type(column)(column.typecode, [column[at] for at in kept]))
    traffic.share = 0.25
    assert moved(drift_of(regular, traffic)[0]) == []


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
    assert [one.quantity for one in found] == ["answer tokens", "turns"]
    assert [note.partition(" not tested")[0] for note in notes] == [
        "prompts are",
        "prompts and answers together are",
        "the rate is",
    ]


TURNS = {"turns": 6, "think_time_s": 20}


def test_conversations_as_proven_are_no_alarm(proven: Profile) -> None:
    """Turns come in clusters: what is tested is when conversations begin, and how many turns they have."""
    found, notes = drift_of(changed(proven, **TURNS), recorded(31, 4, turns=6))
    assert (moved(found), notes) == ([], [])
    assert by_name(found)["sessions/s"].proven == pytest.approx(0.01 / 6)


def test_sessions_that_nothing_tells_apart_are_said(proven: Profile) -> None:
    """Lengths are tested against whole prompts, each for a sixth; turns and the rate cannot be."""
    found, notes = drift_of(changed(proven, **TURNS), recorded(31, 4, turns=6, told=False))
    assert (len(found), moved(found)) == (3, [])
    assert notes == [
        "turns are not tested: nothing in this traffic tells which requests begin a session",
        "the rate is not tested: the profile's sessions have several requests, and nothing in this traffic tells which "
        "begin one",
    ]


def test_prompts_that_tell_no_turn_are_not_held_against_what_a_turn_brings(proven: Profile) -> None:
    """The last of six turns is too long for a log to keep its text: what is new in its prompt is not known."""
    traffic = recorded(7, 4, turns=6)
    for place, turn in enumerate(traffic.turns):
        if turn == 6:
            traffic.turns[place], traffic.new_tokens[place] = 0, traffic.input_tokens[place] + 4000
    assert moved(drift_of(changed(proven, **TURNS), traffic)[0]) == []


def test_twice_the_turns_are_seen(proven: Profile) -> None:
    """Half as many conversations of twelve turns: as many requests, as long as they were."""
    found = by_name(drift_of(changed(proven, **TURNS), recorded(3, 4, turns=12))[0])
    assert [one for one in found if found[one].moved] == ["turns"]
    assert (found["turns"].proven, found["turns"].found) == (6, pytest.approx(12, rel=0.01))


LONG = {
    "name": "long",
    "share": 0.3,
    "input_tokens": {"distribution": "lognormal", "mean": 2000, "stddev": 300, "min": 16, "max": 4000},
    "output_tokens": {"distribution": "lognormal", "mean": 400, "stddev": 90, "min": 1, "max": 1000},
}


def test_a_mixtures_own_traffic_is_no_alarm_and_foreign_traffic_is(proven: Profile) -> None:
    """Three tenths of another class; then all of the workload's own kind, which no class is."""
    mixed = changed(proven, classes=(LONG,))
    own, foreign = recorded(7, 5, long_share=0.3), recorded(7, 5)
    assert moved(drift_of(mixed, own)[0]) == []
    assert moved(drift_of(mixed, foreign)[0]) == ["prompt tokens", "answer tokens", "prompts with answers"]
    assert by_name(drift_of(mixed, own)[0])["prompt tokens"].proven == pytest.approx(0.7 * 600 + 0.3 * 2000, rel=0.01)


def test_steps_of_an_agent_are_no_alarm(proven: Profile) -> None:
    """Prompts of 3,000 and of 3,000 + 200 + 2,000, as a trace has them, which tells no sessions."""
    steps = (
        {"name": "plan", "input_tokens": 3000, "output_tokens": 200},
        {"name": "answer", "input_tokens": 2000, "output_tokens": 500, "pause_s": 5},
    )
    chance, now_s, traffic = Random(3), 0.0, Recorded(began_s=MONDAY_S)
    while (now_s := now_s + chance.expovariate(0.005)) < 3 * DAY_S:
        traffic.at_s.extend((now_s, now_s))
        traffic.input_tokens.extend((3000, 5200))
        traffic.output_tokens.extend((200, 500))
        traffic.turns.extend((0, 0))
    assert moved(drift_of(changed(proven, steps=steps), traffic)[0]) == []
