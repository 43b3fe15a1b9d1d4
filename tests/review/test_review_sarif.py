"""SARIF 2.1.0: rules with help, findings with place, level and a fingerprint that lasts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from review_samples import chat, empty, hostile, ordinary, side, with_text

from loadproof.review.document import document
from loadproof.review.formats.sarif import as_sarif
from loadproof.review.model import Pair, ProfileReview, Review
from loadproof.review.rules import RULES


def run_of(review: Review) -> dict[str, Any]:
    log = json.loads(as_sarif(document(review)))
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def fingerprints(one: ProfileReview) -> list[str]:
    found = run_of(Review("a", "b", (one,), 0))["results"]
    return [row["partialFingerprints"]["primaryLocationLineHash"] for row in found]


def test_every_rule_comes_with_its_help() -> None:
    """Also those that found nothing: a host lists them."""
    rules = run_of(empty())["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.code for rule in RULES]
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"] and rule["name"].isalnum() for rule in rules)


def test_results_point_at_rule_file_and_line() -> None:
    """SARIF 2.1.0 §3.27: the index is that of the rule, lines count from 1."""
    run = run_of(ordinary())
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    places = {
        row["ruleId"]: (
            row["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            row["locations"][0]["physicalLocation"]["region"]["startLine"],
        )
        for row in run["results"]
    }
    assert places["LR010"] == ("deploy_profiles/prod/chat.yaml", 7)
    assert places["LR050"] == ("deploy_profiles/base/chat.yaml", 40)
    assert places["LR001"] == ("deploy_profiles/prod/chat.yaml", 1)


def test_severities_become_levels_the_worst_first() -> None:
    """A break is an error, a risk and a warning are warnings, an info is a note."""
    found = [(row["properties"]["severity"], row["level"]) for row in run_of(ordinary())["results"]]
    assert found == [
        ("break", "error"),
        ("break", "error"),
        ("risk", "warning"),
        ("risk", "warning"),
        ("info", "note"),
        ("info", "note"),
    ]


def test_a_finding_stays_the_same_when_its_words_or_lines_move() -> None:
    """A host would open it again."""
    first = chat()
    moved = replace(first, pair=Pair("prod", "chat", None, side("chat", places={"endpoint.instance_type": ("x", 99)})))
    reworded = replace(first, findings=tuple(replace(found, message="other") for found in first.findings))
    assert fingerprints(moved) == fingerprints(first) == fingerprints(reworded)


def test_another_profile_or_subject_is_another_finding() -> None:
    """So is another rule."""
    first = chat()
    renamed = replace(first, pair=Pair("dev", "chat", None, side("chat")))
    elsewhere = replace(first, findings=tuple(replace(found, place="x") for found in first.findings))
    known = [*fingerprints(first), *fingerprints(renamed), *fingerprints(elsewhere)]
    assert len(set(known)) == len(known) == 12


def test_a_hostile_path_is_a_relative_reference() -> None:
    """Spaces, colons and brackets are percent-encoded, so that no scheme and no host arises (RFC 3986)."""
    found = run_of(with_text("javascript:a b\n#?%[\ud800"))["results"]
    uris = {row["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for row in found}
    assert uris == {"javascript%3Aa%20b%0A%23%3F%25%5B%ED%A0%80"}


def test_a_hostile_review_is_sarif_all_the_same() -> None:
    """Every message is text; two profiles with two findings are four results."""
    found = run_of(hostile())["results"]
    assert len(found) == 4 and all(isinstance(row["message"]["text"], str) for row in found)


def test_a_message_holds_no_link() -> None:
    """A host makes one of `[text](address)`; field paths keep their brackets."""
    texts = [row["message"]["text"] for row in run_of(with_text("policies[0] [click](https://e.example)"))["results"]]
    assert all("](" not in text and "policies[0]" in text for text in texts)
