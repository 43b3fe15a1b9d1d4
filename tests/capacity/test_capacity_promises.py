"""Bounds that classes of the traffic have of their own: rows of the outlook like any other, and what leans on them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from mixed_profiles import mixed

from loadproof.capacity.confidence import Confidence
from loadproof.capacity.curve import Percentiles, PlayedPart, Tails
from loadproof.capacity.outlook import outlook_of
from loadproof.capacity.plan import Plan
from loadproof.capacity.plan import make_plan as by_formula
from loadproof.profiles.promises import promises_of
from loadproof.profiles.schema import Profile
from loadproof.simulation.plan import make_plan
from loadproof.simulation.profile import simulate_profile

BY_HAND = Tails(Percentiles(40, 60, 80, 100), Percentiles(5, 6, 7, 8), Percentiles(200, 300, 400, 500))


@cache
def planned(agents: float = 0.5, machine: str = "ml.g6e.4xlarge", bound_ms: float = 12) -> Plan:
    """The plan of so many agents of all sessions, made once."""
    with TemporaryDirectory() as folder:
        return make_plan(shared(Path(folder), agents, bound_ms, machine))


def labelled(plan: Plan) -> dict[str, str]:
    return {row.label: row.expected for row in plan.outlook}


def test_promises_are_the_profile_s_then_each_class_s(tmp_path: Path) -> None:
    """Each with its place in the file."""
    assert [(one.label, one.bound, one.path) for one in promises_of(mixed(tmp_path))] == [
        ("ttft_p95_ms", 4000, "objectives.ttft_p95_ms"),
        ("ttft_p95_ms of chat", 1500, "workload.classes[0].objectives.ttft_p95_ms"),
        ("tpot_p95_ms of agent", 12, "workload.classes[1].objectives.tpot_p95_ms"),
    ]


@pytest.mark.parametrize(("bound", "expected"), [(7.8, "meets"), (7.5, "near"), (6.5, "near"), (6.3, "misses")])
def test_a_class_s_bound_is_held_against_its_own_requests(tmp_path: Path, bound: float, expected: str) -> None:
    """TPOT p95 of its own is 7 ms by hand, within a factor of 1.1: 6.36 to 7.7 ms."""
    plan, profile = planned(), mixed(tmp_path, bound)
    assert plan.at_objectives is not None
    level = replace(plan.at_objectives, parts=(PlayedPart("agent", 400, BY_HAND),))
    band = Confidence("A", "", 0.1, 0.1, 0.1)
    row = outlook_of(promises_of(profile)[2:], level, plan.workload, band)[0]
    assert (row.predicted, row.expected) == (7, expected)


def test_a_class_of_which_nothing_was_served_has_no_figure(tmp_path: Path) -> None:
    """Percentiles of nothing are 0 in the twin's tables, which is within any bound."""
    plan, profile, nothing = planned(), mixed(tmp_path), Percentiles(0, 0, 0, 0)
    assert plan.at_objectives is not None
    level = replace(plan.at_objectives, parts=(PlayedPart("agent", 0, Tails(nothing, nothing, nothing)),))
    assert outlook_of(promises_of(profile)[2:], level, plan.workload, plan.confidence)[0].expected == "unknown"


def test_the_plan_s_figure_is_that_of_the_whole_twin(tmp_path: Path) -> None:
    """The twin of the whole profile, ten minutes of its clients, is another road to the same class: within a tenth."""
    row = planned().outlook[2]
    seen = next(part for part in simulate_profile(mixed(tmp_path), minutes=10).parts if part.name == "agent")
    assert row.predicted == pytest.approx(seen.at("tpot_p95_ms"), rel=0.1)


def test_an_l40s_misses_what_an_h100_meets() -> None:
    """15.3 GiB of weights are read once a token: 864 GB/s take 19 ms of it, 3,350 GB/s 4.9 ms; the bound is 12 ms."""
    assert labelled(planned())["tpot_p95_ms of agent"] == "misses"
    assert labelled(planned(machine="ml.p5.4xlarge"))["tpot_p95_ms of agent"] == "meets"


def test_the_knee_of_the_objectives_is_a_class_s_where_it_binds_first() -> None:
    """Without the class's bound many more are allowed in flight."""
    tight, wide = (planned(machine="ml.p5.4xlarge", bound_ms=bound).knees[0] for bound in (12, 1000))
    assert tight.concurrency < wide.concurrency
    assert "tpot_p95_ms of agent is predicted at" in tight.reason


def test_where_nobody_plays_classes_apart_the_grade_falls(tmp_path: Path) -> None:
    """The formula knows requests at their means alone: the bound is unknown, said, and a grade is lost."""
    played, formula = make_plan(mixed(tmp_path, container=DYNAMIC)), by_formula(mixed(tmp_path))
    for plan in (played, formula):
        assert labelled(plan)["tpot_p95_ms of agent"] == "unknown"
        assert "never with a class's own bound" in plan.confidence.meaning
        assert any(note.startswith("tpot_p95_ms of agent is not planned") for note in plan.notes)


def shared(folder: Path, agents: float, bound_ms: float = 12, machine: str = "ml.g6e.4xlarge") -> Profile:
    """Agents are so many of all sessions."""
    profile = mixed(folder, bound_ms, machine)
    chat, agent = profile.workload.classes
    classes = (chat.model_copy(update={"share": 1 - agents}), agent.model_copy(update={"share": agents}))
    return profile.model_copy(update={"workload": profile.workload.model_copy(update={"classes": classes})})


@pytest.mark.parametrize("agents", [0.5, 0.1, 0.02])
def test_a_small_class_has_enough_requests_to_tell_its_percentiles_by(agents: float) -> None:
    """Of 400 requests, as many as a plan plays otherwise, 2% of the sessions had 29."""
    plan = planned(agents)
    assert plan.at_objectives is not None
    assert min(part.requests for part in plan.at_objectives.parts) >= 100
    assert "too few" not in plan.confidence.meaning


def test_a_bound_of_a_class_that_is_hardly_sent_costs_certainty() -> None:
    """A thousandth of the sessions: 16 requests of 4,000."""
    confidence = planned(0.001).confidence
    assert "requests of agent in the twin: too few to hold a percentile against its bound" in confidence.meaning
    assert confidence.band > planned(0.1).confidence.band


def test_a_class_without_bounds_costs_no_grade(tmp_path: Path) -> None:
    """Nothing leans on it."""
    profile = mixed(tmp_path)
    classes = tuple(one.model_copy(update={"objectives": {}}) for one in profile.workload.classes)
    plain = profile.model_copy(update={"workload": profile.workload.model_copy(update={"classes": classes})})
    assert "own bound" not in by_formula(plain).confidence.meaning


DYNAMIC = {
    "family": "lmi",
    "version": "0.36.0",
    "settings": {"rolling_batch": "disable", "batch_size": 8},
}


def test_bounds_of_classes_alone_are_objectives_enough(tmp_path: Path) -> None:
    """There is something to prove, and the closest of them is told."""
    plan = by_formula(mixed(tmp_path, objectives={"at_concurrency": 4}))
    assert [row.label for row in plan.outlook] == ["ttft_p95_ms of chat", "tpot_p95_ms of agent"]
