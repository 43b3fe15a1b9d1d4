"""LR040: what a role may do more than before, whatever way it is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from review_rules_support import allow, found, resource, reviewed, role, side

from loadproof.review.model import Side

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
    named = role(allow(["sqs:SendMessage", "sqs:GetQueueUrl"], ORDERS))
    (finding,) = found({"Role": named}, {"Role": role(allow("sqs:*", ORDERS))}, "LR040")
    assert finding.severity == "risk"


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
    (finding,) = found({"F": function}, {"F": function, "P": permission}, "LR040")
    assert finding.message == "events.amazonaws.com may newly invoke function worker"
    assert found({}, {"F": function, "P": permission}, "LR040") == []


def test_a_denial_that_goes_widens() -> None:
    """What the role may do and was denied it may do now; a denial of what it never could do is missed by nobody."""
    deny = {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "*"}
    right = allow("s3:*", RESULTS)
    (message,) = rights(role(right, deny), role(right))
    assert message == "role Role is no longer denied s3:DeleteObject on *"
    assert rights(role(allow("sqs:SendMessage", ORDERS), deny), role(allow("sqs:SendMessage", ORDERS))) == []


def test_a_denial_of_more_is_none_of_less() -> None:
    """`s3:*` denied holds what `s3:DeleteObject` denied."""
    right = allow("s3:*", RESULTS)
    one, all_of_it = ({"Effect": "Deny", "Action": action, "Resource": "*"} for action in ("s3:DeleteObject", "s3:*"))
    assert rights(role(right, one), role(right, all_of_it)) == []
    assert len(rights(role(right, all_of_it), role(right, one))) == 1


def test_a_boundary_that_goes_is_a_risk_and_another_is_looked_at() -> None:
    """It held all rights within it, whatever the policies say."""
    bound = {"Role": role(PermissionsBoundary="arn:aws:iam::123456789012:policy/b")}
    other = {"Role": role(PermissionsBoundary="arn:aws:iam::123456789012:policy/c")}
    assert [one.severity for one in found(bound, {"Role": role()}, "LR040")] == ["risk"]
    assert [one.severity for one in found(bound, other, "LR040")] == ["warning"]
    assert found({"Role": role()}, bound, "LR040") == []


def test_a_policy_of_one_role_counts_as_the_roles() -> None:
    """AWS::IAM::RolePolicy holds rights as an inline policy does."""

    def rest(action: str, place: str) -> dict[str, Any]:
        statements = {"Statement": [allow(action, place)]}
        policy = resource("IAM::RolePolicy", RoleName={"Ref": "Role"}, PolicyName="p", PolicyDocument=statements)
        return {"Role": role(), "More": policy}

    (finding,) = found(rest("s3:GetObject", RESULTS), rest("*", "*"), "LR040")
    assert (finding.place, finding.severity, finding.message) == (
        "Role",
        "risk",
        "role Role is newly allowed * on *",
    )
    assert found({"Role": role(allow("s3:GetObject", RESULTS))}, rest("s3:GetObject", RESULTS), "LR040") == []


def test_a_user_may_not_do_everything_unseen() -> None:
    """A person's rights are as dangerous as a function's."""
    policies = [{"PolicyName": "p", "PolicyDocument": {"Statement": [allow("*", "*")]}}]
    before, after = resource("IAM::User", UserName="u"), resource("IAM::User", Policies=policies)
    (finding,) = found({"U": before}, {"U": after}, "LR040")
    assert (finding.severity, finding.message) == ("risk", "user U is newly allowed * on *")


def test_fewer_exceptions_are_more_rights() -> None:
    """NotAction, and a condition on what must not be: what they no longer name is allowed."""
    two, one = ({"Effect": "Allow", "NotAction": names, "Resource": "*"} for names in (["iam:*", "kms:*"], ["iam:*"]))
    assert rights(role(two), role(one)) == ["role Role is newly allowed everything but iam:* on *"]
    assert rights(role(one), role(two)) == []
    both, less = (
        allow("s3:GetObject", RESULTS, Condition={"StringNotEquals": {"s3:prefix": names}})
        for names in (["secret", "hr"], ["hr"])
    )
    assert len(rights(role(both), role(less))) == 1
    assert rights(role(less), role(both)) == []


def test_what_an_exception_never_touched_is_still_covered() -> None:
    """All but iam held every right on a queue."""
    but = {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}
    assert rights(role(but), role(allow("sqs:*", "*"))) == []
    assert len(rights(role(but), role(allow("iam:PassRole", "*")))) == 1


def test_a_trust_in_everybody_with_fewer_exceptions_is_told() -> None:
    """One account more may take on the role."""

    def trusting(accounts: list[str]) -> dict[str, Any]:
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": "*"},
            "Action": "sts:AssumeRole",
            "Condition": {"StringNotEquals": {"aws:PrincipalAccount": accounts}},
        }
        return role(AssumeRolePolicyDocument={"Statement": [statement]})

    message = "everybody may newly take on role Role, the condition on it is gone or another"
    assert rights(trusting(["111111111111", "222222222222"]), trusting(["111111111111"])) == [message]
    assert rights(trusting(["111111111111"]), trusting(["111111111111", "222222222222"])) == []


def test_a_condition_that_may_be_missing_is_weaker() -> None:
    """StringEqualsIfExists lets through whoever says nothing; that is no going over to other resources."""
    strict, loose = (
        allow("s3:GetObject", RESULTS, Condition={operator: {"aws:PrincipalOrgID": "o-1"}})
        for operator in ("StringEquals", "StringEqualsIfExists")
    )
    (finding,) = found({"Role": role(strict)}, {"Role": role(loose)}, "LR040")
    assert finding.severity == "warning"
    assert finding.message.endswith("the condition on it is gone or another")
    assert rights(role(loose), role(strict)) == []


def test_the_rights_of_another_stacks_role_are_its_own() -> None:
    """Two stacks may give the same logical id: what the one's role may do does not cover the other's."""

    def stacks(*statements: dict[str, Any]) -> Side:
        wide = {"Resources": {"R": role(allow("s3:*", "*"), RoleName="a")}}
        return replace(side({}), templates={"a": wide, "b": {"Resources": {"R": role(*statements, RoleName="b")}}})

    told = reviewed(stacks(), stacks(allow("s3:GetObject", "*")))
    assert [one.message for one in told if one.code == "LR040"] == ["role b is newly allowed s3:GetObject on *"]


def test_a_denial_that_leaves_a_resources_policy_is_told() -> None:
    """Objects that are not encrypted were refused."""
    bucket = resource("S3::Bucket", BucketName="b")
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "*"}
    read = {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::1:root"}, "Action": "s3:GetObject", "Resource": "*"}

    def policy(*statements: dict[str, Any]) -> dict[str, Any]:
        document = {"Statement": list(statements)}
        return {"B": bucket, "P": resource("S3::BucketPolicy", Bucket={"Ref": "B"}, PolicyDocument=document)}

    (finding,) = found(policy(deny, read), policy(read), "LR040")
    assert (finding.place, finding.severity) == ("B", "risk")
    assert finding.message == "the policy on b no longer denies everybody s3:PutObject"


def test_all_but_one_is_everybody() -> None:
    """NotPrincipal with Allow gives the right to all the world but who is named."""
    queue = resource("SQS::Queue", QueueName="q")
    given = {"Effect": "Allow", "NotPrincipal": {"AWS": "arn:aws:iam::1:root"}, "Action": "sqs:*", "Resource": "*"}
    empty, filled = (
        {"Q": queue, "P": resource("SQS::QueuePolicy", Queues=[{"Ref": "Q"}], PolicyDocument={"Statement": statements})}
        for statements in ([], [given])
    )
    told = found(empty, filled, "LR040", "LR043")
    assert [(one.code, one.message) for one in told] == [
        ("LR043", "P allows everybody but arn:aws:iam::1:root sqs:* on *")
    ]
