"""What else could serve a workload: pruned, ranked by five goals, and always something `loadproof check` accepts."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof import catalog
from loadproof.advice import comparison
from loadproof.advice.alternatives import GOALS, Alternative, Alternatives, Range
from loadproof.advice.assessment import worst
from loadproof.advice.candidates import copies_at, count_changes, counts
from loadproof.advice.changes import KeyChange, change_to, changed, net_changes
from loadproof.advice.comparison import Constraints, find_alternatives, settle
from loadproof.advice.families import families_for
from loadproof.advice.ranking import divided, dominates, ranked
from loadproof.capacity import make_plan, memory_fit
from loadproof.capacity.workload import planned_deployment
from loadproof.errors import InputError
from loadproof.profiles import Profile, load_profile
from loadproof.profiles.checks import errors_of

ROOT = Path(__file__).parents[2]
DEPLOYED = sorted(file for file in (ROOT / "deploy_profiles").glob("*/*.yaml") if file.name != "environment.yaml")
BLACKWELL = Constraints(instance_types=("ml.p6-b200.48xlarge", "ml.p6-b300.48xlarge"))
# Enough to choose among, of every size.
AMONG = Constraints(("ml.g5.2xlarge", "ml.g6e.2xlarge", "ml.g6e.12xlarge", "ml.p5.48xlarge"))
WHOLE = (DEPLOYED[0], *DEPLOYED[3:5])  # base's llama-2-7b, dev's two: each model once among all types of the catalog
GOOD = sorted(file for file in (ROOT / "tests/profiles/good").glob("*.y*ml") if file.name != "environment.yaml")


@cache
def loaded(file: Path) -> Profile:
    return load_profile(file)


_FOUND: dict[str, Alternatives] = {}


def found_for(file: Path) -> Alternatives:
    """Once for all files that say the same: staging's are the base's. Among all types where `WHOLE` says so."""
    profile = loaded(file)
    said = repr(profile)
    if said not in _FOUND:
        own = planned_deployment(profile).instance.instance_type
        few = Constraints((*AMONG.instance_types, own))
        _FOUND[said] = find_alternatives(profile, constraints=Constraints() if file in WHOLE else few)
    return _FOUND[said]


def profile_of(file: str, **changes: Any) -> Profile:
    data = loaded(ROOT / "deploy_profiles" / file).model_dump(exclude_none=True)
    for key, value in changes.items():
        data[key] = data[key] | value if isinstance(value, dict) and isinstance(data.get(key), dict) else value
    return Profile.model_validate(data)


def some(**fields: Any) -> Alternative:
    """A made-up alternative: 100 ms, 10 tokens/s, 1 USD an hour, 5 USD a million, grade A, meets."""
    own = next(row for row in found_for(DEPLOYED[3]).ranked if row.is_own)
    made = replace(
        own,
        is_own=False,
        grade="A",
        ttft_ms=Range(10, 5, 20),
        tpot_ms=Range(1, 0.5, 2),
        e2e_ms=Range(100, 50, 200),
        knee_output_tokens_per_s=Range(10, 5, 20),
        usd_per_hour=1.0,
        usd_per_million_tokens=Range(5, 2.5, 10),
        objectives="meets",
    )
    return replace(made, **fields)


def test_a_workload_of_recorded_lengths_has_alternatives() -> None:
    """What follows from its values (a mean, a least, a most) is nothing that `loadproof check` would refuse."""
    lengths = {"distribution": "empirical", "values": (100, 200, 300)}
    profile = profile_of("dev/llama-3-1-8b.yaml", workload={"input_tokens": lengths})
    other = changed(profile, change_to(profile, ("endpoint", "instance_type"), "ml.g6e.xlarge"))
    assert errors_of(other) == []
    assert other.workload == profile.workload


@pytest.mark.parametrize("file", [*DEPLOYED, *GOOD], ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_what_is_recommended_is_accepted_and_never_beaten(file: Path) -> None:
    """For every goal: the profile it leads to has no error of `loadproof check`, and no shown row is better in all."""
    profile, found = loaded(file), found_for(file)
    assert [row.is_own for row in found.ranked].count(True) == 1
    for recommendation in found.recommendations:
        best = recommendation.alternative
        if best is None:
            assert recommendation.reason.startswith("none ")
            continue
        assert best in found.ranked
        assert not best.dominated
        assert errors_of(changed(profile, best.changes)) == []
        assert not any(dominates(other, best) for other in found.ranked if other.fits == "yes" and other != best)


@pytest.mark.parametrize("file", DEPLOYED[3:5], ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_changes_lead_to_exactly_what_was_predicted(file: Path) -> None:
    """The changed profile, planned by itself, has the machine, copies, family and latency its row promised."""
    profile = loaded(file)
    for row in found_for(file).ranked[:3]:
        alone = Constraints((row.instance_type,))  # the row of the profile as it is is there whatever is compared
        again = next(
            own for own in find_alternatives(changed(profile, row.changes), constraints=alone).ranked if own.is_own
        )
        for name in (
            "instance_type",
            "tensor_parallel_degree",
            "instances",
            "copies",
            "family",
            "e2e_ms",
            "usd_per_hour",
        ):
            assert getattr(again, name) == getattr(row, name)


def test_what_the_twin_need_not_play_is_recommended_for_no_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every candidate played, the recommendations are the same, figures included."""
    file = ROOT / "deploy_profiles/dev/qwen3-32b.yaml"  # 118 of 170 are left out
    some_left_out = found_for(file)
    monkeypatch.setattr(comparison, "beats", lambda better, worse: False)
    all_played = find_alternatives(loaded(file))
    assert all_played.recommendations == some_left_out.recommendations


def test_a_row_beats_another_only_when_nothing_of_it_is_worse() -> None:
    """Cheaper and slower are two choices; cheaper and equal is one."""
    plain, cheaper = some(), some(usd_per_hour=0.5)
    assert dominates(cheaper, plain)
    assert not dominates(plain, cheaper)
    assert not dominates(some(usd_per_hour=0.5, e2e_ms=Range(101, 50, 200)), plain)
    assert not dominates(some(usd_per_hour=0.5, grade="B"), plain)


def test_speculation_ties_a_profile_to_its_server_and_is_planned() -> None:
    """Another family would need another draft: only its own is compared, and the plan says what it leans on."""
    guessing = {"family": "vllm", "settings": {}, "speculative": {"method": "ngram", "tokens": 3}}
    profile = profile_of("dev/llama-3-1-8b.yaml", container=guessing)
    assert families_for(profile) == (
        ("vllm",),
        "other server families are not compared: container.speculative has no counterpart there",
    )
    assert any(note.startswith("ngram proposes 3 a round") for note in make_plan(profile).notes)


def test_of_equals_the_profiles_own_comes_first_then_its_family() -> None:
    """Same figures: no reason to change anything."""
    switch = some(family="vllm", changes=(KeyChange(("container", "family"), "tgi", "vllm"),))
    front, behind = divided([switch, some(family="tgi"), some(is_own=True)])
    assert [row.is_own for row in front] == [True]
    assert [row.family for row in behind] == ["tgi", "vllm"]
    assert all(row.dominated for row in behind)


def test_grade_d_is_not_first_where_a_better_grade_lies_in_its_range() -> None:
    """100 ms within 50 .. 200 against 150 ms of grade A: the guess gives way. Against 201 ms it stays."""
    guess = some(grade="D")
    assert [row.grade for row in ranked([guess, some(e2e_ms=Range(150, 75, 300))], "minimum latency")] == ["A", "D"]
    assert [row.grade for row in ranked([guess, some(e2e_ms=Range(201, 99, 402))], "minimum latency")] == ["D", "A"]


def test_a_price_is_exact_so_a_cheaper_guess_stays_first_and_says_so() -> None:
    """USD an hour has no range; the reason names the grade."""
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/own-server:1.4.2"
    server = {"family": "custom", "image": image, "cuda": "12.8", "settings": {"protocol": "openai"}}
    profile = profile_of("dev/llama-3-1-8b.yaml", container=server)
    found = find_alternatives(profile, "least cost per hour", AMONG)
    assert {row.family for row in found.ranked} == {"custom"}
    assert found.recommended.alternative is not None
    assert found.recommended.alternative.grade == "D"
    assert "grade D" in found.recommended.reason


def test_variables_of_one_server_keep_the_search_with_it() -> None:
    """`container.environment` means nothing to other families than SGLang: it alone is ranked, and a note says why."""
    server = {"family": "sglang", "settings": {}, "environment": {"A": "b"}}
    found = find_alternatives(profile_of("dev/llama-3-1-8b.yaml", container=server), "least cost per hour", AMONG)
    assert {row.family for row in found.ranked} == {"sglang"}
    assert any("container.environment has no counterpart" in note for note in found.notes)


@pytest.mark.parametrize(
    ("goal", "figure"),
    [
        ("minimum latency", lambda row: row.e2e_ms.value),
        ("maximum throughput", lambda row: -row.knee_output_tokens_per_s.value),
        ("least cost per hour", lambda row: row.usd_per_hour),
        ("least cost per million tokens", lambda row: row.usd_per_million_tokens.value),
    ],
)
def test_a_goal_orders_by_its_own_figure(goal: Any, figure: Any) -> None:
    """The figure never falls from row to row that has a price (own row last where it is beaten). A rough guess of
    grade D may have to let a better graded one go first."""
    found = find_alternatives(profile_of("dev/llama-3-1-8b.yaml"), goal, AMONG)
    priced = [row for row in found.ranked if row.usd_per_hour is not None]
    values = [figure(row) for row in priced if not row.dominated and row.grade != "D"]
    assert all(left <= right + 1e-5 * abs(right) for left, right in pairwise(values))
    assert values[0] == pytest.approx(min(values), rel=1e-5)


def test_the_cheapest_that_meets_the_objectives_costs_no_more_than_any_other_that_does() -> None:
    """And one that costs less misses them or may miss them."""
    for file in DEPLOYED[3:]:
        found = found_for(file)
        best = found.recommended.alternative
        assert best is not None
        assert best.objectives == "meets"
        for row in found.ranked:
            if row.objectives == "meets" and row.usd_per_hour is not None and best.usd_per_hour is not None:
                assert best.usd_per_hour <= row.usd_per_hour


def test_objectives_nobody_meets_are_recommended_to_nobody() -> None:
    """One millisecond a token is out of every machine's reach."""
    profile = profile_of("dev/llama-3-1-8b.yaml", objectives={"tpot_p95_ms": 0.1})
    two = Constraints(("ml.g6e.2xlarge", "ml.p5.48xlarge"))
    found = find_alternatives(profile, constraints=two)
    assert found.recommended.alternative is None
    assert found.recommended.reason == "none is predicted to meet every objective"
    assert settle(profile, found.goal, two).changes == ()


def test_constraints_hold_for_everything_but_the_row_of_the_profile_as_it_is() -> None:
    """Two types at no more than 3 USD an hour: each once (2.80 and 1.52 USD), neither twice (5.61 and 3.03)."""
    constraints = Constraints(("ml.g6e.2xlarge", "ml.g5.2xlarge"), 3.0)
    found = find_alternatives(profile_of("dev/llama-3-1-8b.yaml"), constraints=constraints)
    others = [row for row in found.ranked if not row.is_own]
    assert {row.instance_type for row in others} <= {"ml.g6e.2xlarge", "ml.g5.2xlarge"}
    assert {row.instances for row in others} == {1}
    assert any(
        re.fullmatch(r"left out: \d+ that cost more than 3\.00 USD an hour, or .*", note) for note in found.notes
    )
    elsewhere = find_alternatives(profile_of("dev/llama-3-1-8b.yaml"), constraints=Constraints(("ml.p5.4xlarge",)))
    assert all(
        row.alternative is not None and row.alternative.instance_type == "ml.p5.4xlarge"
        for row in elsewhere.recommendations
    )


def test_an_unknown_instance_type_is_named() -> None:
    """With the nearest names, as everywhere."""
    with pytest.raises(InputError, match=r"unknown instance type `ml\.g5\.2xlagre`"):
        find_alternatives(profile_of("dev/llama-3-1-8b.yaml"), constraints=Constraints(("ml.g5.2xlagre",)))


@pytest.mark.parametrize(("name", "why"), [("two-models", "further components"), ("vllm-pools", "instance pools")])
def test_where_there_is_no_choice_only_the_profile_is_shown(name: str, why: str) -> None:
    """The note says why."""
    found = found_for(ROOT / f"tests/profiles/good/{name}.yaml")
    assert [row.is_own for row in found.ranked] == [True]
    assert why in found.notes[0]


def test_a_capacity_reservation_keeps_its_machine() -> None:
    """Only numbers, degrees and families are left to choose, and a foreign type is refused."""
    reserved = {"capacity_reservation": {"arn": "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p"}}
    profile = profile_of("dev/llama-3-1-8b.yaml", endpoint=reserved)
    assert {row.instance_type for row in find_alternatives(profile).ranked} == {"ml.g6e.2xlarge"}
    with pytest.raises(InputError, match="capacity reservation"):
        find_alternatives(profile, constraints=Constraints(("ml.g5.2xlarge",)))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1, 1, (1,)),
        (1, 3, (1, 2, 3)),
        (2, 12, (2, 3, 4, 5, 6, 7, 8, 9, 12)),
        (1, 40, (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 40)),
    ],
)
def test_numbers_of_instances_lie_between_the_endpoints_bounds(low: int, high: int, expected: tuple[int, ...]) -> None:
    """One by one at first, then by doublings, with the maximum itself."""
    profile = profile_of("dev/llama-3-1-8b.yaml", endpoint={"min_instances": low, "max_instances": high})
    assert counts(profile) == expected


def test_room_to_scale_out_stays_in_proportion() -> None:
    """1 to 2 copies become 4 to 8 where an instance takes four, 8 to 8 where two instances are all there may be."""
    profile = profile_of("dev/llama-3-1-8b.yaml")
    one = {change.name: change.after for change in count_changes(profile, 4, 1)}
    assert one == {"copies.min": 4, "copies.max": 8}
    two = {change.name: change.after for change in count_changes(profile, 4, 2)}
    assert two == {"endpoint.min_instances": 2, "copies.min": 8, "copies.max": 8}


def test_a_model_that_idles_at_zero_keeps_its_zero() -> None:
    """It is planned with the one copy that wakes; its smallest numbers stay 0."""
    profile = loaded(ROOT / "tests/profiles/good/sglang-to-zero.yaml")
    assert profile.copies.min == 0
    assert counts(profile) == (1,)
    assert copies_at(profile, 4, 1) == 1
    assert not any(change.name in ("copies.min", "endpoint.min_instances") for change in count_changes(profile, 4, 1))


def test_a_profile_that_does_not_fit_is_shown_and_never_recommended() -> None:
    """Llama 3.1 70B on one L40S: others are."""
    profile = profile_of("dev/llama-3-1-8b.yaml", model={"id": "meta-llama/Llama-3.1-70B"})
    found = find_alternatives(profile, constraints=AMONG)
    own = next(row for row in found.ranked if row.is_own)
    assert (own.fits, own.e2e_ms, own.objectives) == ("no", None, "unknown")
    assert found.do_not_fit > 0
    assert all(row.alternative is not None and not row.alternative.is_own for row in found.recommendations[:4])


def test_the_outlook_of_many_objectives_is_the_worst_of_them() -> None:
    """Unknown is worse than near, and missed is worst."""
    (row, *_) = found_for(DEPLOYED[3]).ranked[0].outlook
    near, unknown = replace(row, expected="near"), replace(row, expected="unknown")
    assert worst((row, near)) == "near"
    assert worst((near, unknown)) == "unknown"
    assert worst((replace(row, expected="misses"), unknown)) == "misses"
    assert worst(()) == "unknown"


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["dev/llama-3-1-8b.yaml", "base/qwen3-32b.yaml", "base/llama-2-7b.yaml"]),
    st.sampled_from(sorted(catalog.accelerators())),
    st.floats(1.0, 8.0),
)
def test_more_memory_never_makes_a_model_fit_less(file: str, accelerator: str, factor: float) -> None:
    """From no to marginal to yes, never back."""
    order = ["no", "marginal", "yes"]
    deployment = planned_deployment(loaded(ROOT / "deploy_profiles" / file))
    chip = catalog.accelerator(accelerator)
    small = replace(deployment, accelerator=chip)
    large = replace(deployment, accelerator=replace(chip, memory_bytes=int(chip.memory_bytes * factor)))
    assert order.index(memory_fit(large).fits) >= order.index(memory_fit(small).fits)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.integers(1, 4)] * 4, st.sampled_from("ABCD")), min_size=1, max_size=30))
def test_nothing_on_the_front_is_beaten_and_all_else_is(rows: list[tuple[int, int, int, int, str]]) -> None:
    """Whatever the figures: front and rest are what a comparison of all pairs says."""
    made = [
        some(
            instance_type=f"ml.x{at}.large",
            e2e_ms=Range(e2e, e2e, e2e),
            usd_per_hour=float(price),
            usd_per_million_tokens=Range(million, million, million),
            knee_output_tokens_per_s=Range(rate, rate, rate),
            grade=grade,
        )
        for at, (e2e, price, million, rate, grade) in enumerate(rows)
    ]
    front, behind = divided(made)
    assert len(front) + len(behind) == len(made)
    for row in made:
        beaten = any(dominates(other, row) for other in made if other is not row)
        assert (row in front) is not beaten


def test_changes_of_one_key_become_one_and_none_where_nothing_changes() -> None:
    """The last word counts; back to what it was is no change."""
    profile = profile_of("dev/llama-3-1-8b.yaml")
    path = ("copies", "min")
    assert net_changes(profile, [KeyChange(path, 1, 2), KeyChange(path, 2, 1)]) == ()
    (one,) = net_changes(profile, [KeyChange(path, 1, 2), KeyChange(path, 2, 3)])
    assert (one.before, one.after) == (1, 3)
    assert change_to(profile, path, 1) == ()


def test_five_goals_each_have_their_recommendation() -> None:
    """In the order in which they are listed."""
    assert tuple(row.goal for row in found_for(DEPLOYED[0]).recommendations) == GOALS


def test_alternatives_name_the_derived_prices_and_unverified_figures_among_them() -> None:
    """The price of eight B200 is derived, and the row of B300 asks for verification."""
    found = find_alternatives(loaded(DEPLOYED[3]), constraints=BLACKWELL)
    assert set(BLACKWELL.instance_types) <= {row.instance_type for row in found.ranked}
    assert "prices derived, not published: ml.p6-b200.48xlarge" in found.notes
    assert "figures the catalog marks as unverified: B300" in found.notes
    b300 = next(row for row in found.ranked if row.instance_type == "ml.p6-b300.48xlarge")
    assert "the catalog's figures of B300 are unverified" in b300.notes


def test_a_recommendation_says_what_nobody_published_or_verified() -> None:
    """B300 is quickest, in the catalog from memory, and has no price; that of eight B200 is derived."""
    found = find_alternatives(loaded(DEPLOYED[3]), constraints=BLACKWELL).recommendations
    reasons = {row.goal: row.reason for row in found if row.alternative and not row.alternative.is_own}
    price, figures = "its price is derived, not published", "figures of its machine or accelerator are not verified"
    assert figures in reasons["minimum latency"] and price not in reasons["minimum latency"]
    assert price in reasons["least cost per million tokens"] and figures not in reasons["least cost per million tokens"]
