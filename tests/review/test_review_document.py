"""The document: plain JSON, worst first, and all that any format needs."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from review_samples import chat, comment_only, empty, hostile, only_good, ordinary, refused, side, summaries

from loadproof.review import shapes
from loadproof.review.brief import brief_of
from loadproof.review.document import document, place_of, plain
from loadproof.review.formats import FORMATS, Format, as_json, formatted
from loadproof.review.model import CostChange, CostFigure, Finding, Pair, Review


def test_the_worst_profile_comes_first_then_by_name() -> None:
    """Two breaks by name, then an info, then none."""
    names = [f"{one['environment']}/{one['profile']}" for one in document(ordinary())["profiles"]]
    assert names == ["prod/chat", "staging/chat", "dev/rerank", "prod/summaries"]


def test_findings_come_worst_first_then_by_code() -> None:
    """Whatever order the rules ran in."""
    first = document(ordinary())["profiles"][0]
    assert [row["code"] for row in first["findings"]] == ["LR001", "LR010", "LR050", "LR026"]


def test_findings_are_counted_by_severity() -> None:
    """Of all profiles, the worst severity first."""
    assert list(document(ordinary())["findings"].items()) == [("break", 2), ("risk", 2), ("warning", 0), ("info", 2)]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("sample", [ordinary, hostile, comment_only, empty])
def test_every_format_is_written_from_the_json_alone(form: Format, sample: object) -> None:
    """A review read back from its JSON gives the same bytes in every format."""
    original = document(sample())  # type: ignore[operator]
    assert formatted(json.loads(as_json(original)), form) == formatted(original, form)


@pytest.mark.parametrize("form", get_args(Format))
def test_the_order_in_which_profiles_were_looked_at_does_not_matter(form: Format) -> None:
    """The same review gives the same bytes."""
    review = ordinary()
    backwards = replace(review, profiles=tuple(reversed(review.profiles)))
    assert formatted(document(backwards), form) == formatted(document(review), form)


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("endpoint.instance_type", ("prod/chat.yaml", 7)),  # written here
        ("endpoint", ("prod/chat.yaml", 5)),  # the first of what stands below
        ("endpoint.max_instances", ("prod/chat.yaml", 5)),  # not written: where its part begins
        ("scaling.policies[1].target", ("prod/chat.yaml", 12)),
        ("objectives.ttft_p95_ms", ("base/chat.yaml", 40)),  # its part stands in the parent alone
        ("environment.yaml: region", ("prod/environment.yaml", 1)),
        ("EndpointConfig3F1", ("prod/chat.yaml", 1)),  # a logical id stands in no profile
        ("", ("prod/chat.yaml", 1)),
    ],
)
def test_a_finding_points_at_the_line_that_is_closest_to_its_subject(subject: str, expected: tuple[str, int]) -> None:
    """Its own line, else the first below, else its part, else the file."""
    places = {
        "endpoint.min_instances": ("prod/chat.yaml", 5),
        "endpoint.instance_type": ("prod/chat.yaml", 7),
        "endpointless": ("prod/chat.yaml", 1),
        "scaling.policies[0].type": ("prod/chat.yaml", 12),
        "objectives.at_concurrency": ("base/chat.yaml", 40),
    }
    assert place_of(subject, replace(side("chat", places=places), file="prod/chat.yaml")) == expected


def test_a_cost_that_begins_is_its_whole_amount() -> None:
    """Nothing ran before: $1.006 an hour for 730 hours is $734.38 more a month."""
    assert CostChange("minimum", None, CostFigure(1.006)).delta_usd_per_month == pytest.approx(734.38)


@pytest.mark.parametrize("sides", [(None, CostFigure(None)), (CostFigure(None), CostFigure(2.0))])
def test_an_unknown_price_gives_no_difference(sides: tuple[CostFigure | None, CostFigure]) -> None:
    """Unknown is not $0."""
    assert CostChange("minimum", *sides).delta_usd_per_month is None


def test_what_is_no_number_is_null() -> None:
    """JSON has neither NaN nor infinity."""
    assert plain({"a": (math.nan, math.inf, 1.5), "b": None}) == {"a": [None, None, 1.5], "b": None}


def test_a_profile_is_added_changed_removed_refused_or_unchanged() -> None:
    """By its sides, and by whether anything differs."""
    removed = replace(chat(), pair=Pair("prod", "gone", side("gone"), None))
    states = {
        one["profile"]: one["state"]
        for review in (ordinary(), comment_only(), Review("a", "b", (removed,), 0))
        for one in document(review)["profiles"]
        if one["environment"] != "staging"
    }
    assert states == {"chat": "changed", "rerank": "added", "summaries": "unchanged", "gone": "removed"}
    assert document(Review("a", "b", (refused(),), 0))["profiles"][0]["state"] == "refused"


def test_a_warning_of_the_checks_refuses_nothing() -> None:
    """Only errors stop synthesis."""
    one = refused()
    assert one.pair.after is not None
    mild = replace(one.pair.after, problems=(replace(one.pair.after.problems[0], severity="warning"),))
    reviewed = replace(one, pair=replace(one.pair, after=mild))
    assert document(Review("a", "b", (reviewed,), 0))["profiles"][0]["state"] == "changed"


def test_a_finding_names_its_page() -> None:
    """A path of the repository, or below the address that is given."""
    assert document(ordinary())["profiles"][0]["findings"][0]["doc"] == "docs/review-findings.md#lr001"
    there = document(ordinary(), docs="https://docs.example/findings/")
    assert there["profiles"][0]["findings"][0]["doc"] == "https://docs.example/findings/#lr001"


def test_nothing_more_than_objectives_needs_a_good_change() -> None:
    """A review of a good change counts no finding."""
    assert set(document(only_good())["findings"].values()) == {0}


def test_every_key_of_the_document_is_on_its_page() -> None:
    """docs/review.md says what each key holds."""
    page = (Path(__file__).parents[2] / "docs" / "review.md").read_text(encoding="utf-8")
    for shape in vars(shapes).values():
        for key in getattr(shape, "__required_keys__", ()):
            assert re.search(rf"`(?:profiles\[\]\.)?{key}(?:\[\])?`", page), key


def test_a_refused_profile_has_no_cost_and_no_objectives_in_the_brief() -> None:
    """Figures of what cannot be deployed are none; what comes next says why."""
    brief = brief_of(document(Review("a", "b", (replace(refused(), costs=summaries().costs),), 0)))
    assert (brief.cost, brief.promise) == (
        "not known; 1 profile refused",
        "no objective is predicted for what this changes; 1 profile refused",
    )


def test_a_refusal_is_told_in_what_comes_next() -> None:
    why = "the head cannot be synthesized: auto has no number"
    finding = Finding("LR064", "break", "", why, "mend it, then review again")
    one = replace(refused(), findings=(finding,))
    assert f"{why}; mend it, then review again" in brief_of(document(Review("a", "b", (one,), 0))).next


@pytest.mark.parametrize("form", ["markdown", "html", "text"])
def test_where_copies_are_too_few_the_cost_says_so(form: Format) -> None:
    """In the overview and in the brief, before anything is unfolded: what costs that much is too little."""
    short = (18, 4)
    costs = (*summaries().costs, CostChange("expected", CostFigure(8.0), CostFigure(8.0)))
    one = replace(ordinary(), profiles=(replace(summaries(), copies_short=short, costs=costs),))
    shown = " ".join(formatted(document(one), form).split()).replace("&#39;", "'")
    assert "too few for that load: prod/summaries needs 18 copies, 4 at the most" in shown
    assert shown.count("needs 18 copies, 4 at the most") == 2
    enough = formatted(document(replace(one, profiles=(replace(summaries(), costs=costs),))), form)
    assert "at the expected load" in enough and "too few" not in enough
