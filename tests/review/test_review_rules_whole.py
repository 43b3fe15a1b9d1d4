"""What holds for all rules together: nothing without a change, the worst first, whatever order, whatever shape."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

import pytest
import review_pairs
from review_rules_support import found, resource, reviewed, role, side

from loadproof.errors import Problem
from loadproof.profiles import check_file
from loadproof.profiles.checks import RULES as CHECKS
from loadproof.review.assemble import review_pair
from loadproof.review.model import SEVERITIES, Pair
from loadproof.review.rules import RULES
from loadproof.review.rules.change import unconditional
from loadproof.review.rules.refused import reported_by
from loadproof.review.rules.words import label, listing
from loadproof.templates.template import Resource

BAD = review_pairs.ROOT / "tests" / "profiles" / "bad"
TEMPLATES = [name for name in review_pairs.names() if name.startswith("t")]


@pytest.mark.parametrize("name", review_pairs.names())
def test_without_a_change_nothing_is_found(name: str) -> None:
    """Both sides alike, however bad: a review tells of the change. (Only a head that nobody can synthesize is told.)"""
    pair = review_pairs.pair(name)
    for one in (pair.before, pair.after):
        codes = {finding.code for finding in review_pair(Pair("prod", "chat", one, one), ()).findings} - {"LR066"}
        assert codes == (set() if one is None or one.templates else {"LR064"})


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_order_of_resources_means_nothing(name: str) -> None:
    """The same template written the other way round gives the same findings in the same order."""
    pair = review_pairs.pair(name)
    assert pair.after is not None
    (template,) = pair.after.templates.values()
    turned = {**template, "Resources": dict(reversed(list(template["Resources"].items())))}
    after = replace(pair.after, templates={"chat": turned})
    assert review_pair(replace(pair, after=after), ()).findings == review_pair(pair, ()).findings


@pytest.mark.parametrize("name", review_pairs.names())
def test_the_worst_comes_first(name: str) -> None:
    """A reader who stops after the first line has read the worst."""
    order = [SEVERITIES.index(one.severity) for one in review_pairs.findings(name)]
    assert order == sorted(order, reverse=True)


def test_templates_of_any_shape_are_reviewed() -> None:
    """Texts for maps, references for lists, nothing for something: a rule that cannot read says so, none fails."""
    odd: list[Any] = [
        {"Ref": "X"},
        {"Fn::GetAtt": "A.B"},
        [],
        {},
        "text",
        7,
        None,
        True,
        ["x"],
        {"Fn::If": ["C", 1, 2]},
    ]
    random_ = random.Random(20261122)
    for name in TEMPLATES:
        before, after = (copy.deepcopy(getattr(review_pairs.pair(name), which)) for which in ("before", "after"))
        for one in (before, after):
            (template,) = one.templates.values()
            held, key = random_.choice(list(_places(template["Resources"])))
            held[key] = random_.choice(odd)
        reviewed(before, after)


def test_every_rule_says_where_it_is_known_from() -> None:
    """A reviewer can look it up."""
    assert [rule.code for rule in RULES if len(rule.source) <= 12] == []


@pytest.mark.parametrize(
    ("check", "code"),
    [
        ("LP207", "LR021"),
        ("LP227", "LR015"),
        ("LP229", "LR016"),
        ("LP240", "LR030"),
        ("LP304", "LR025"),
        ("LP313", "LR020"),
        ("LP327", "LR023"),
        ("LP328", "LR022"),
        ("LP401", "LR044"),
        ("LP402", "LR045"),
        ("LP101", "LR060"),
    ],
)
def test_a_check_is_told_under_the_number_of_its_trap(check: str, code: str) -> None:
    """A reader finds one page for a trap, whichever way a profile walks into it."""
    (place,) = [file for file in (BAD / f"{check}.yaml", BAD / check / "chat.yaml") if file.is_file()]
    assert code in {reported_by(problem) for problem in check_file(place).problems if problem.code == check}


def test_every_check_is_told_under_a_number_that_exists() -> None:
    """No problem of a profile gets lost on its way into a review."""
    codes = {rule.code for rule in RULES}
    assert {reported_by(Problem("f", 1, 1, rule.code, "", "", "")) for rule in CHECKS} <= codes


def test_a_stack_that_is_synthesized_no_more_runs_on() -> None:
    """Not only a profile's: the environment's own stacks too are deleted by nobody."""
    both = replace(side({}), templates={"chat": {"Resources": {}}, "network": {"Resources": {"R": role()}}})
    assert [one.code for one in reviewed(both, side({}))] == ["LR061"]


def test_a_head_that_cannot_be_synthesized_is_a_break() -> None:
    """What is not known to deploy does not pass."""
    refused = replace(side({}), templates={}, refusal="scaling.policies: found metric x")
    (finding,) = reviewed(side({}), refused)
    assert (finding.code, finding.severity) == ("LR064", "break")
    assert "found metric x" in finding.message


def test_a_new_warning_does_not_hide_that_the_head_cannot_be_synthesized() -> None:
    """Only an error says already why nothing was synthesized."""
    warning = Problem("chat.yaml", 3, 1, "LP275", "x", "shorter than the weights are read", "longer", "warning")
    refused = replace(side({}), templates={}, problems=(warning,), refusal="scaling.policies[0].target: no number")
    found = [(one.code, one.severity) for one in reviewed(side({}), refused)]
    assert found == [("LR064", "break"), ("LR060", "warning")]


def test_problems_on_both_sides_are_no_news_but_hide_the_rest() -> None:
    """The change did not bring them; that nothing can be compared is said."""
    problem = Problem("chat.yaml", 3, 1, "LP101", "x", "unknown key `x`", "delete it")
    both = replace(side({}), templates={}, problems=(problem,))
    (finding,) = reviewed(both, both)
    assert (finding.code, finding.severity) == ("LR064", "warning")


def test_a_secret_in_a_reason_is_not_repeated() -> None:
    """A review is a public comment."""
    pair = review_pairs.pair("48-isolation-off-acknowledged")
    assert pair.after is not None and pair.after.profile is not None
    reason = "needed, see hf_abcdefghijklmnop"
    profile = pair.after.profile.model_copy(update={"acknowledged": {"LS005": reason}})
    findings = review_pair(replace(pair, after=replace(pair.after, profile=profile)), ()).findings
    assert "hf_abcdefghijklmnop" not in str(findings)


def test_conditions_are_looked_into() -> None:
    """In a list both branches are there; elsewhere the first that is something."""
    nothing = {"Ref": "AWS::NoValue"}
    assert unconditional({"A": [{"Fn::If": ["C", 1, 2]}, 3]}) == {"A": [1, 2, 3]}
    assert unconditional({"A": {"Fn::If": ["C", nothing, {"B": {"Fn::If": ["D", 1, nothing]}}]}}) == {"A": {"B": 1}}
    assert unconditional({"A": [{"Fn::If": ["C", nothing, nothing]}]}) == {"A": []}


def test_resources_are_called_what_people_call_them() -> None:
    """Their own name; without one the logical id, less the hash that CDK puts at its end."""
    assert (
        label(Resource("BufferQueue404A7D55", "AWS::SQS::Queue", {"QueueName": "chat-requests"}, {})) == "chat-requests"
    )
    assert label(Resource("BufferQueue404A7D55", "AWS::SQS::Queue", {"QueueName": {"Ref": "N"}}, {})) == "BufferQueue"
    assert label(Resource("Cafe", "AWS::SQS::Queue", {}, {})) == "Cafe"


def test_long_lists_are_cut() -> None:
    """A message stays one line: four names are shown, of five three and the rest counted."""
    assert listing(["a"]) == "a"
    assert listing(["a", "b", "c", "d"]) == "a, b, c and d"
    assert listing(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_a_queue_beside_its_profile_is_not_all_that_is_lost() -> None:
    """Queues of one deployment are one finding, with the name of each."""
    queues = {f"Q{at}": resource("SQS::Queue", QueueName=f"q{at}", KmsMasterKeyId="k") for at in (1, 2)}
    (finding,) = found(queues, {})
    assert finding.code == "LR031"
    assert finding.message == "queues q1 and q2 are deleted; lost with them: the messages in them"


def _places(value: Any) -> Any:
    """(map or list, key) of everything below the properties."""
    for body in value.values():
        yield from _inner(body.get("Properties", {}))


def _inner(value: Any) -> Any:
    if isinstance(value, dict) and any(key == "Ref" or key.startswith("Fn::") for key in value):
        return  # what a function takes is CloudFormation's own affair
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield value, key
        yield from _inner(item)
