"""Every pair gives exactly the findings that its expected.yaml lists: all of them, and no more."""

from __future__ import annotations

import pytest
import review_pairs

from loadproof.review.assemble import review_pair
from loadproof.review.model import Pair
from loadproof.review.rules import RULES

BUSIER = "86-busier-and-room"
CODES = {rule.code for rule in RULES}


@pytest.mark.parametrize("name", review_pairs.names())
def test_a_pair_gives_its_findings_and_no_more(name: str) -> None:
    """What the review finds in a pair is what a person wrote down beside it."""
    found = sorted((one.code, one.severity, one.place) for one in review_pairs.findings(name))
    assert found == list(review_pairs.expected(name))


@pytest.mark.parametrize("name", review_pairs.names())
def test_a_pair_is_told_in_the_words_that_were_read(name: str) -> None:
    """The words of every finding were read by a person once; a change of them is read again (said.txt)."""
    assert review_pairs.said(name) == (review_pairs.PAIRS / name / "said.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_is_shown_by_a_pair(code: str) -> None:
    """A finding that no pair shows would be a promise without a test."""
    assert any(code in {found[0] for found in review_pairs.expected(name)} for name in review_pairs.names())


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_has_a_near_miss(code: str) -> None:
    """Somewhere a change comes close to each finding and is not one: silence is shown too."""
    near = [name for name in review_pairs.names() if code in review_pairs.about(name).get("near_miss", ())]
    assert near, f"no pair names {code} as a near miss"
    for name in near:
        assert code not in {found[0] for found in review_pairs.expected(name)}


def test_a_rule_says_what_severities_it_gives() -> None:
    """A review that is read again takes no other."""
    given = {found[:2] for name in review_pairs.names() for found in review_pairs.expected(name)}
    known = {(rule.code, severity) for rule in RULES for severity in (rule.severity, *rule.also)}
    assert given <= known


def test_pairs_name_only_codes_that_exist() -> None:
    """A number that was misspelt would never be missed."""
    named = {
        code
        for name in review_pairs.names()
        for code in (*review_pairs.about(name).get("near_miss", ()), *(one[0] for one in review_pairs.expected(name)))
    }
    assert named <= CODES


def test_what_the_workload_lacks_is_told_of_what_would_be_deployed() -> None:
    """85: 18 copies for 4; 86: as busy, with room; and it stays told where a change is not about it."""
    shorts = {name: review_pair(review_pairs.pair(name), ()).copies_short for name in ("85-more-than-the-most", BUSIER)}
    assert shorts == {"85-more-than-the-most": (18, 4), BUSIER: None}
    after = review_pairs.pair("85-more-than-the-most").after
    same = review_pair(Pair("prod", "chat", after, after), ())
    assert (same.copies_short, "LR019" in {one.code for one in same.findings}) == ((18, 4), False)
