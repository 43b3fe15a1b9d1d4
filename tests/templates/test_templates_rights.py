"""A wrong right is found however it is written: any case, any wildcard, any place that a template can keep it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from loadproof.templates import check_template

# (code, action, resource): each alone is a finding.
WRONG = (
    ("LS007", "sagemaker:InvokeEndpoint", "arn:aws:sagemaker:us-east-1:123456789012:endpoint/loadproof-prod-*"),
    ("LS007", "sagemaker:InvokeEndpointAsync", "arn:aws:sagemaker:us-east-1:123456789012:endpoint/chat?"),
    ("LS011", "iam:PassRole", "arn:aws:iam::123456789012:role/job"),
    ("LS014", "s3:PutObject", "arn:aws:s3:::captures/chat/*"),
    ("LS014", "s3:DeleteObject", "arn:aws:s3:::captures/chat/*"),
    ("LS015", "iam:CreatePolicyVersion", "arn:aws:iam::123456789012:policy/x"),
    ("LS015", "lambda:UpdateFunctionCode", "arn:aws:lambda:us-east-1:123456789012:function:x"),
    ("LS015", "cloudformation:UpdateStack", "arn:aws:cloudformation:us-east-1:123456789012:stack/x/y"),
    ("LS017", "cloudwatch:DescribeAlarms", "arn:aws:cloudwatch:us-east-1:123456789012:alarm:loadproof-prod-*"),
    ("LS017", "sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:loadproof-prod-*"),
    ("LS017", "s3:GetObject", "arn:aws:s3:::acme-models-*/weights/x"),
)
ABOUT_ELSE = {"StringEquals": {"aws:RequestedRegion": "us-east-1"}}


@st.composite
def written(draw: st.DrawFn, action: str) -> str:
    """The action, or a pattern that reaches it: letters in any case, an end or a letter left to a wildcard."""
    service, _, name = action.partition(":")
    cut = draw(st.integers(min_value=3, max_value=len(name)))
    way = draw(st.sampled_from(["whole", "end", "letter"]))
    name = {"whole": name, "end": f"{name[:cut]}*", "letter": f"{name[: cut - 1]}?{name[cut:]}"}[way]
    cased = draw(st.lists(st.booleans(), min_size=len(name), max_size=len(name)))
    return service + ":" + "".join(one.upper() if up else one.lower() for one, up in zip(name, cased, strict=True))


@st.composite
def hidden(draw: st.DrawFn, action: str, resource: str) -> dict[str, Any]:
    """A template with the right somewhere: a list or a text, among harmless rights, inline, attached or managed."""
    also = draw(st.lists(st.sampled_from(["logs:PutLogEvents", "sqs:SendMessage"]), max_size=2))
    actions: Any = draw(st.permutations([draw(written(action)), *also]))
    parts = resource.split("aws")
    place: Any = draw(
        st.sampled_from(
            [
                resource,
                {"Fn::Sub": "${AWS::Partition}".join(parts)},
                {"Fn::Join": ["", [parts[0], {"Ref": "AWS::Partition"}, parts[1]]]},
            ]
        )
    )
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Action": actions[0] if len(actions) == 1 and draw(st.booleans()) else actions,
        "Resource": place if draw(st.booleans()) else [place],
    }
    if draw(st.booleans()):
        statement["Condition"] = ABOUT_ELSE
    harmless = {"Effect": "Deny", "Action": "*", "Resource": "*"}
    document = {"Statement": draw(st.sampled_from([statement, [statement], [harmless, statement]]))}
    kind = draw(st.sampled_from(["Role", "Policy", "ManagedPolicy"]))
    properties = {"Policies": [{"PolicyDocument": document}]} if kind == "Role" else {"PolicyDocument": document}
    return {"Resources": {"Hidden": {"Type": f"AWS::IAM::{kind}", "Properties": properties}}}


@given(st.data(), st.sampled_from(WRONG))
def test_a_wrong_right_is_found_however_it_is_written(data: st.DataObject, wrong: tuple[str, str, str]) -> None:
    """Its code is among the findings."""
    code, action, resource = wrong
    template = data.draw(hidden(action, resource))
    assert code in {finding.code for finding in check_template(template, {})}


@given(st.data(), st.sampled_from(WRONG))
def test_a_denied_right_is_none(data: st.DataObject, wrong: tuple[str, str, str]) -> None:
    """The same, denied."""
    _, action, resource = wrong
    template = data.draw(hidden(action, resource))
    denied = json.loads(json.dumps(template).replace("Allow", "Deny"))
    assert check_template(denied, {}) == ()


@given(st.sampled_from(["lambda:CreateFunction", "ec2:RunInstances", "sagemaker:CreateTrainingJob"]), st.booleans())
def test_passing_a_role_to_what_runs_code_is_an_escalation(action: str, apart: bool) -> None:
    """In one policy or in two of the same role; each of the two rights alone is none."""
    passing = {
        "Effect": "Allow",
        "Action": "iam:PassRole",
        "Resource": "arn:aws:iam::123456789012:role/job",
        "Condition": {"StringEquals": {"iam:PassedToService": "lambda.amazonaws.com"}},
    }
    running = {"Effect": "Allow", "Action": action, "Resource": "arn:aws:lambda:us-east-1:123456789012:function:x"}

    def codes(*documents: list[dict[str, Any]]) -> set[str]:
        policies = [{"PolicyDocument": {"Statement": statements}} for statements in documents]
        role = {"Type": "AWS::IAM::Role", "Properties": {"Policies": policies}}
        return {finding.code for finding in check_template({"Resources": {"Role": role}}, {})}

    assert "LS015" in (codes([passing], [running]) if apart else codes([passing, running]))
    assert "LS015" not in codes([passing]) | codes([running])


@given(
    st.sampled_from(["sagemaker", "states", "events", "scheduler", "bedrock"]),
    st.sampled_from([".amazonaws.com", ".amazonaws.com.cn"]),
    st.sampled_from([None, "aws:SourceAccount", "AWS:sourcearn", "aws:RequestedRegion"]),
    st.booleans(),
)
def test_a_role_that_any_accounts_deputy_takes_is_found(service: str, end: str, asks: str | None, many: bool) -> None:
    """Unless its trust asks for the account or the resource that the service acts for."""
    name = service + end
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Action": "sts:AssumeRole",
        "Principal": {"Service": ["lambda.amazonaws.com", name] if many else name},
    }
    if asks:
        statement["Condition"] = {"StringEquals": {asks: "123456789012"}}
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": [statement]}}}
    found = {finding.code for finding in check_template({"Resources": {"Role": role}}, {})}
    assert ("LS013" in found) == (asks is None or "source" not in asks.lower())


@given(
    st.from_regex(r"loadproof-[a-z]{2,8}-[0-9a-f]{8}-\*", fullmatch=True)
    | st.from_regex(r"loadproof-[a-z]{2,8}(/[a-z]{1,4})?/\*", fullmatch=True)
)
def test_a_beginning_that_only_one_can_have_is_well(name: str) -> None:
    """Closed by a hash or by a separator that no name holds."""
    place = f"arn:aws:sagemaker:us-east-1:123456789012:processing-job/{name}"
    statement = {"Effect": "Allow", "Action": "sagemaker:DescribeProcessingJob", "Resource": place}
    policy = {"Type": "AWS::IAM::Policy", "Properties": {"PolicyDocument": {"Statement": statement}}}
    assert "LS017" not in {finding.code for finding in check_template({"Resources": {"P": policy}}, {})}
