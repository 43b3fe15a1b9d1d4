"""The sentence that is read first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from review_samples import (
    added,
    chat,
    comment_only,
    costs,
    empty,
    figure,
    only_good,
    ordinary,
    refused,
    side,
    summaries,
)

from loadproof.review.document import document
from loadproof.review.model import CostChange, CostFigure, Finding, ObjectiveChange, Pair, ProfileReview, Review
from loadproof.review.wording import headline, usd, usd_more


def said(review: Review) -> str:
    verdict = document(review)["verdict"]
    return f"{verdict['word']} {verdict['text']}"


def line(*profiles: ProfileReview) -> str:
    return said(Review("main", "HEAD", profiles, 0))


def finding(code: str, severity: str, message: str) -> Finding:
    return Finding(code, severity, "", message, "")  # type: ignore[arg-type]


def test_the_gravest_finding_the_cost_and_the_missed_objective_are_in_it() -> None:
    """(7.09 - 2.42) · 730 = $3,409 and 1.006 · 730 = $734 are $4,143 more."""
    assert document(ordinary())["verdict"]["worst"] == "break"
    assert said(ordinary()) == (
        "BREAKS prod/chat: endpoint prod-chat is replaced by prod-chat-g5 (LR001), and 1 more break; "
        "+$4,143 a month at the fewest copies; prod/chat TTFT p95 predicted 660 ms, objective at most 500 ms."
    )


def test_a_good_change_is_said_to_break_nothing() -> None:
    """(16 - 8) · 730 = $5,840 at the most copies."""
    assert document(only_good())["verdict"]["worst"] is None
    assert said(only_good()) == (
        "Nothing breaks: 1 profile changed; cost unchanged at the fewest copies, +$5,840 a month at the most; "
        "objectives predicted to hold."
    )


def test_an_edit_of_words_changes_nothing() -> None:
    """The file changed, nothing that is deployed did."""
    assert said(comment_only()) == "Nothing changes in what is deployed by prod/summaries."


def test_no_profile_is_said_to_be_none() -> None:
    """Base and head are alike."""
    assert said(empty()) == "Nothing changes in what is deployed: no profile is touched."


def test_a_refused_profile_is_said_to_be_refused() -> None:
    """Its cost is not known, and is not counted."""
    assert line(refused()) == "BREAKS staging/chat: refused: copies.min: expected 0..4, found 6 (LR060)."


def test_a_long_refusal_is_said_by_its_title_once() -> None:
    """Of a message over 70 characters only the field is named."""
    found = Finding(
        "LR060", "break", "copies.max", "6 copies need 6 instances of ml.g6e.12xlarge " + "x" * 40, "lower it"
    )
    assert line(replace(refused(), findings=(found,))) == (
        "BREAKS staging/chat: copies.max refused by the checks (LR060)."
    )


@pytest.mark.parametrize(("severity", "word"), [("break", "BREAKS"), ("risk", "AT RISK"), ("warning", "LOOK AT")])
def test_its_first_word_is_the_severity(severity: str, word: str) -> None:
    """An info is no reason for a word."""
    assert line(replace(summaries(), findings=(finding("LR010", severity, "x"),))).startswith(
        f"{word} prod/summaries: x"
    )
    assert line(replace(summaries(), findings=(finding("LR010", "info", "x"),))).startswith("Nothing breaks: ")


def test_a_long_clause_gives_way_to_the_rules_title() -> None:
    """A sentence has room for some 70 characters of it."""
    message = "this update replaces running copies, and answers of streams take up to 37 s: they are cut"
    long = finding("LR018", "risk", message)
    assert line(replace(summaries(), findings=(long,))).startswith(
        "AT RISK prod/summaries: streams cut by the update (LR018); "
    )


def test_a_clause_that_says_too_little_gives_way_too() -> None:
    """`taken away: the network isolation` is about isolation, which its beginning does not say."""
    taken = finding("LR041", "risk", "taken away: the network isolation of model `main`")
    assert line(replace(summaries(), findings=(taken,))).startswith(
        "AT RISK prod/summaries: isolation weakened (LR041)"
    )


def test_profiles_with_the_same_finding_are_told_together() -> None:
    """Forty profiles under one changed construct are one sentence."""
    found = (finding("LR001", "break", "endpoint `a` is replaced: gone"),)
    many = [replace(summaries(), pair=Pair("prod", name, side(name), side(name)), findings=found) for name in "cab"]
    assert line(*many).startswith("BREAKS prod/a and 2 more: endpoint a is replaced (LR001); ")


def test_an_unknown_price_is_said_to_be_unknown() -> None:
    """Alone, and beside a known one."""
    unknown = replace(summaries(), costs=(CostChange("minimum", CostFigure(None), CostFigure(1.0)),), objectives=())
    assert line(unknown) == "Nothing breaks: 1 profile changed; cost unknown."
    assert "+$734 a month at the fewest copies (price unknown for 1 profile)" in line(unknown, added())


def test_what_the_expected_load_costs_comes_first() -> None:
    """(3.2 - 2) · 730 = $876 at the fewest; (12.8 - 4) · 730 = $6,424 with the copies that the workload needs."""
    rows = (
        CostChange("minimum", CostFigure(2.0), CostFigure(3.2)),
        CostChange("expected", CostFigure(4.0), CostFigure(12.8)),
    )
    one = replace(summaries(), costs=rows, objectives=())
    costs_more = "+$6,424 a month at the expected load, +$876 at the fewest copies."
    assert line(one) == f"Nothing breaks: 1 profile changed; {costs_more}"


def test_cheaper_at_rest_and_dearer_under_load_is_told_whole() -> None:
    """(1 - 2) · 730 = -$730 at the fewest, (9 - 8) · 730 = $730 more at the most."""
    rows = (
        CostChange("minimum", CostFigure(2.0), CostFigure(1.0)),
        CostChange("maximum", CostFigure(8.0), CostFigure(9.0)),
    )
    one = replace(summaries(), costs=rows, objectives=())
    assert line(one) == ("Nothing breaks: 1 profile changed; −$730 a month at the fewest copies, +$730 at the most.")


def test_a_removed_profile_saves_nothing_by_itself() -> None:
    """CDK deletes no stack whose file is gone, so no saving is counted."""
    removed = replace(
        chat(), pair=Pair("prod", "chat", side("chat"), None), findings=(finding("LR061", "risk", "stays"),)
    )
    assert line(removed) == "AT RISK prod/chat: stays (LR061)."


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("meets", "misses", "TTFT p95 predicted 610 ms, objective at most 500 ms"),
        (None, "misses", "TTFT p95 predicted 610 ms, objective at most 500 ms"),
        ("misses", "misses", "1 objective predicted to be missed, as before"),
        ("meets", "near", "1 objective in doubt: the bound lies within the predicted range"),
        ("misses", "meets", "objectives predicted to hold"),
    ],
)
def test_objectives_are_told_by_what_becomes_of_them(before: str | None, after: str, said: str) -> None:
    """Newly missed with its figures, missed as before, in doubt, held."""
    row = ObjectiveChange("ttft_p95_ms", "<=", figure(500, 400, before) if before else None, figure(500, 610, after))
    one = replace(summaries(), objectives=(row,), costs=costs(1.0, 1.0))
    assert line(one) == f"Nothing breaks: 1 profile changed; cost unchanged; {said}."


def test_a_rate_is_missed_from_below() -> None:
    """The bound of a throughput is a least."""
    row = ObjectiveChange("output_tokens_per_s_min", ">=", None, figure(900, 610, "misses"))
    said = "Output tokens per second predicted 610 tokens/s, objective at least 900 tokens/s."
    assert line(replace(summaries(), objectives=(row,))).endswith(said)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("endpoint `a: b; c` is replaced: gone; all of it", "endpoint a: b; c is replaced"),
        ("copies 4 -> 2. Less", "copies 4 -> 2"),
        ("ratio 1.5 of 2", "ratio 1.5 of 2"),
        ("69 ms (before: 28 ms), at most 45: missed", "69 ms (before: 28 ms), at most 45"),
        ("one ` alone", "one  alone"),
        (":", ":"),
        ("", ""),
        ("w" * 200, "w" * 119 + "…"),
    ],
)
def test_a_headline_is_a_messages_first_clause(message: str, expected: str) -> None:
    """Up to a stop that stands in no code, without backticks, at most 120 characters."""
    assert headline(message) == expected


def test_money_has_a_sign_and_cents_only_where_they_matter() -> None:
    """Below ten dollars; a difference says plus."""
    assert [usd(1312.4), usd(9.5), usd(0), usd(-40), usd(None)] == ["$1,312", "$9.50", "$0", "−$40", "unknown"]
    assert [usd_more(1312.4), usd_more(-0.333), usd_more(0)] == ["+$1,312", "−$0.33", "$0"]
