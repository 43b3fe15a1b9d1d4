"""LR040: what a role may do more than before, whatever way it is written."""

from __future__ import annotations

from typing import Any

from review_rules_support import allow, found, resource, role

RESULTS = "arn:aws:s3:::results/*"
ORDERS = "arn:aws:sqs:us-east-1:123456789012:orders"
PREFIX: dict[str, Any] = {"StringLike": {"s3:prefix": ["a/*", "b/*"]}}


def rights(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The messages about rights when one role becomes another."""
    return [one.message for one in found({"Role": before}, {"Role": after}, "LR040")]


def test_a_new_action_is_told_with_its_resource() -> None:
    """The role may delete what it could only read."""
    message = rights(role(allow("s3:GetObject", RESULTS)), role(allow(["s3:GetObject", "s3:DeleteObject"], RESULTS)))
    assert message == [f"role Role is newly allowed s3:DeleteObject on {RESULTS}"]


def test_what_a_wildcard_covered_is_not_new() -> None:
    """`s3:*` on a bucket held s3:GetObject on each of its keys; the case of an action means nothing to IAM."""
    assert rights(role(allow("s3:*", RESULTS)), role(allow("S3:getobject", "arn:aws:s3:::results/a/*"))) == []


def test_a_wildcard_in_place_of_names_is_new() -> None:
    """From two named actions to all of the service is more, and a risk: it is nobody's need."""
    (finding,) = found(
        {"Role": role(allow(["sqs:SendMessage", "sqs:GetQueueUrl"], ORDERS))}, {"Role": role(allow("sqs:*", ORDERS))}
    )
    assert (finding.code, finding.severity) == ("LR040", "risk")


def test_brackets_in_a_name_are_no_pattern() -> None:
    """IAM knows `*` and `?` only: `[ab]` is a key of that name."""
    assert rights(role(allow("s3:GetObject", "arn:aws:s3:::x/[ab]*")), role(allow("s3:GetObject", "arn:aws:s3:::x/a1")))


def test_a_policy_of_its_own_in_place_of_an_inline_one_is_the_same() -> None:
    """Rights belong to the role, wherever they are written and whatever the policy is called."""
    statements = [allow("s3:GetObject", RESULTS)]
    apart = resource("IAM::Policy", PolicyName="p", Roles=[{"Ref": "Role"}], PolicyDocument={"Statement": statements})
    assert found({"Role": role(*statements)}, {"Role": role(), "Policy": apart}, "LR040") == []


def test_a_condition_that_goes_widens() -> None:
    """Without its condition the same right holds for everything."""
    narrow, wide = allow("s3:ListBucket", "arn:aws:s3:::x", Condition=PREFIX), allow("s3:ListBucket", "arn:aws:s3:::x")
    assert len(rights(role(narrow), role(wide))) == 1
    assert rights(role(wide), role(narrow)) == []


def test_a_condition_of_fewer_values_does_not_widen() -> None:
    """Any of the values will do, so fewer are less; one more is more."""
    both = allow("s3:ListBucket", "arn:aws:s3:::x", Condition=PREFIX)
    one = allow("s3:ListBucket", "arn:aws:s3:::x", Condition={"StringLike": {"s3:prefix": "a/*"}})
    assert rights(role(both), role(one)) == []
    assert len(rights(role(one), role(both))) == 1


def test_all_but_a_few_actions_is_all() -> None:
    """NotAction allows what nobody has listed."""
    statement = {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}
    assert len(rights(role(allow("s3:GetObject", RESULTS)), role(allow("s3:GetObject", RESULTS), statement))) == 1


def test_a_managed_policy_is_told_by_name() -> None:
    """What AWS's policy holds is not in the template; that it is there is."""
    arn = "arn:aws:iam::aws:policy/AmazonSageMakerFullAccess"
    (message,) = rights(role(), role(ManagedPolicyArns=[arn]))
    assert "AmazonSageMakerFullAccess" in message


def test_a_denied_action_is_no_right() -> None:
    """Deny takes away."""
    deny = {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}
    assert rights(role(allow("s3:GetObject", RESULTS)), role(allow("s3:GetObject", RESULTS), deny)) == []


def test_rights_that_only_go_over_to_another_resource_are_worth_knowing() -> None:
    """The same actions on the new weights instead of the old: nothing more may be done than before."""
    (finding,) = found(
        {"Role": role(allow("s3:GetObject", "arn:aws:s3:::w/1/*"))},
        {"Role": role(allow("s3:GetObject", "arn:aws:s3:::w/2/*"))},
    )
    assert (finding.code, finding.severity) == ("LR040", "info")


def test_references_are_shown_by_name() -> None:
    """A reader knows the queue, not its logical id."""
    queue = resource("SQS::Queue", QueueName="orders", KmsMasterKeyId="alias/x")
    more = allow("sqs:PurgeQueue", {"Fn::GetAtt": ["Queue", "Arn"]})
    (finding,) = found({"Role": role(), "Queue": queue}, {"Role": role(more), "Queue": queue})
    assert finding.message == "role Role is newly allowed sqs:PurgeQueue on orders"


def test_a_permission_on_a_function_that_was_there_is_told() -> None:
    """Another service may call the function from now on; with a new function that would be no news."""
    function = resource("Lambda::Function", FunctionName="worker", Code={}, Role="r")
    permission = resource(
        "Lambda::Permission",
        Action="lambda:InvokeFunction",
        FunctionName={"Ref": "F"},
        Principal="events.amazonaws.com",
    )
    (finding,) = found({"F": function}, {"F": function, "P": permission})
    assert finding.message == "events.amazonaws.com may newly invoke function worker"
    assert found({}, {"F": function, "P": permission}, "LR040") == []
