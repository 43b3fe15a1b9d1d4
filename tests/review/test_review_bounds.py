"""What a review hands over can be read: by `--from` and by the job that comments."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from review_samples import chat, ordinary, refused

from loadproof.review.bounds import MOST_BYTES, ROOM_OF_ONE
from loadproof.review.document import document
from loadproof.review.formats import as_json, formatted
from loadproof.review.model import FieldChange, Finding, Review
from loadproof.review.reading import read_document


def many(profiles: int) -> Review:
    """As many profiles that the checks refuse, each with a finding of some 1,000 characters."""
    one = refused()
    found = (replace(one.findings[0], message="x" * 1_000),)
    pairs = [replace(one.pair, name=f"z{at}", after=replace(one.pair.after, file=f"deploy_profiles/staging/z{at}.yaml"))
             for at in range(profiles)]  # fmt: skip
    return Review("a", "b", tuple(replace(one, pair=pair, findings=found) for pair in pairs), 0)


def test_an_ordinary_document_is_left_alone() -> None:
    """Every key and text of it."""
    made = document(ordinary())
    assert json.loads(as_json(made)) == made


def test_5000_refused_profiles_are_handed_over_and_counted() -> None:
    """All 5,000 breaks are told, those shown and those only counted."""
    written = as_json(document(many(5_000)))
    assert len(written.encode()) <= MOST_BYTES
    shown = read_document(written.encode())
    more = shown["left_out"]
    assert len(shown["profiles"]) + more["profiles"] == 5_000 and more["profiles"] > 0
    assert shown["findings"]["break"] == 5_000
    assert f"left out here: {more['profiles']:,} profiles, {more['findings']['break']:,} breaks" in formatted(
        shown, "markdown"
    )


def test_the_gravest_are_handed_over_first() -> None:
    """A warning among them is what is left out."""
    review = many(5_000)
    mild = replace(chat(), findings=(Finding("LR064", "warning", "", "x" * 1_000, ""),))
    shown = read_document(as_json(document(replace(review, profiles=(mild, *review.profiles)))).encode())
    assert shown["left_out"]["findings"]["warning"] == 1
    assert {one["severity"] for one in shown["profiles"]} == {"break"}


@pytest.mark.parametrize(
    "value", ["x" * 20_001, "\0" * 3_000_000, [1] * 20_001, {str(at): at for at in range(20_001)}, 10**40]
)
def test_one_value_that_is_too_long_is_cut(value: object) -> None:
    """The rest of its profile stays."""
    one = replace(chat(), fields=(FieldChange("container.environment", None, value),))
    shown = read_document(as_json(document(Review("a", "b", (one,), 0))).encode())
    assert [row["path"] for row in shown["profiles"][0]["fields"]] == ["container.environment"]
    assert len(shown["profiles"][0]["findings"]) == len(chat().findings)


def test_a_value_that_is_too_deep_is_cut() -> None:
    """60 lists in one another, where 40 levels are read."""
    value: object = 1
    for _ in range(60):
        value = [value]
    one = replace(chat(), fields=(FieldChange("model.extra", None, value),))
    shown = read_document(as_json(document(Review("a", "b", (one,), 0))).encode())
    assert json.dumps(shown["profiles"][0]["fields"]).count("…".encode("unicode_escape").decode()) == 1


def test_the_rows_of_one_long_profile_are_counted() -> None:
    """30,000 fields, of which 1,000 or fewer have room."""
    fields = tuple(FieldChange(f"container.environment.V{at}", None, "x" * 60) for at in range(30_000))
    shown = read_document(as_json(document(Review("a", "b", (replace(chat(), fields=fields),), 0))).encode())
    kept = len(shown["profiles"][0]["fields"])
    assert kept in (1_000, 100, 10) and shown["left_out"]["rows"] >= 30_000 - kept
    assert len(json.dumps(shown["profiles"][0])) < ROOM_OF_ONE
