"""Custom resources: the stack's own function answers, and its answer decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from control_templates import create, delete, queue_template, reasons, update

from loadproof.constructs.cdk.emptied_bucket.infrastructure import CODE as EMPTYING
from loadproof.constructs.cdk.packing import inline_text

Aws = Callable[[str], Any]

_TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
# Answers as the test's properties say; what it was asked comes back as Data.
_ECHO = """
import json, urllib.request
def handler(event, context):
    asked = event["ResourceProperties"]
    if asked.get("Silent"):
        return
    answer = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    answer.update(Status=asked.get("Status", "SUCCESS"), Reason="it would not", PhysicalResourceId="it")
    answer["Data"] = {"Number": repr(asked["Number"]), "Type": event["ResourceType"], "Asked": event["RequestType"]}
    if event["RequestType"] == "Delete":
        answer["Status"] = "SUCCESS"
    body = json.dumps(answer).encode()
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], body, method="PUT"))
"""


def stack_with(code: str, more: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """Role, function and one custom resource named `Asked`."""
    function = {
        "Handler": "index.handler",
        "Runtime": "python3.13",
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Code": {"ZipFile": code},
        "Timeout": 20,
    }
    asked = {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}, **properties}
    return {
        "Resources": {
            "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": _TRUST}},
            "Function": {"Type": "AWS::Lambda::Function", "Properties": function},
            "Asked": {"Type": "Custom::Question", "Properties": asked},
            **more,
        }
    }


def test_inline_code_has_cfnresponse_beside_it(aws: Aws) -> None:
    """As public templates lean on it: the data it sends are the resource's attributes."""
    code = "import cfnresponse\ndef handler(e, c): cfnresponse.send(e, c, cfnresponse.SUCCESS, {'Number': '7'}, 'it')"
    template = stack_with(code, {})
    template["Outputs"] = {"Number": {"Value": {"Fn::GetAtt": ["Asked", "Number"]}}}
    assert _outputs(create(aws("cloudformation"), "public", template)) == {"Number": "7"}


def _answered(number: int) -> dict[str, Any]:
    template = stack_with(_ECHO, {}, Number=number)
    template["Outputs"] = {name: {"Value": {"Fn::GetAtt": ["Asked", name]}} for name in ("Number", "Type", "Asked")}
    return template


def _outputs(stack: dict[str, Any]) -> dict[str, str]:
    return {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}


def test_answer_becomes_attributes_and_numbers_arrive_as_text(aws: Aws) -> None:
    """GetAtt reads the answer's Data; CloudFormation hands numbers over as text; an edit asks for an update."""
    cfn = aws("cloudformation")
    made = create(cfn, "asks", _answered(7))
    assert made["StackStatus"] == "CREATE_COMPLETE", reasons(cfn, "asks")
    assert _outputs(made) == {"Number": "'7'", "Type": "Custom::Question", "Asked": "Create"}
    assert _outputs(update(cfn, "asks", _answered(8))) == {
        "Number": "'8'",
        "Type": "Custom::Question",
        "Asked": "Update",
    }
    assert delete(cfn, "asks")["StackStatus"] == "DELETE_COMPLETE"


def test_refusal_rolls_back_with_the_functions_reason(aws: Aws) -> None:
    """Status FAILED fails the deployment and the function's own reason stands in the event."""
    cfn = aws("cloudformation")
    made = create(cfn, "refused", stack_with(_ECHO, {}, Number=1, Status="FAILED"))
    assert made["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "Message returned: it would not" in str(reasons(cfn, "refused"))


def test_silent_or_broken_function_fails_the_deployment(aws: Aws) -> None:
    """No answer within ServiceTimeout fails it; a function's own error at once, where AWS would go on waiting."""
    cfn = aws("cloudformation")
    silent = stack_with(_ECHO, {}, Silent="yes", ServiceTimeout=1)
    assert create(cfn, "silent", silent)["StackStatus"].startswith("ROLLBACK_")
    assert "did not receive a response" in str(reasons(cfn, "silent"))
    broken = create(cfn, "broken", stack_with("def handler(event, context):\n    raise KeyError('lost')", {}))
    assert broken["StackStatus"].startswith("ROLLBACK_")
    assert "KeyError" in str(reasons(cfn, "broken"))


def _bucket(tags: dict[str, str]) -> dict[str, Any]:
    properties = {"Tags": [{"Key": name, "Value": value} for name, value in tags.items()]} if tags else {}
    return {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": properties}}


def _emptied(tags: dict[str, str]) -> dict[str, Any]:
    return stack_with(inline_text(EMPTYING), _bucket(tags), BucketName={"Ref": "Bucket"})


def _fill(aws: Aws, stack: str) -> str:
    found = aws("cloudformation").describe_stack_resource(StackName=stack, LogicalResourceId="Bucket")
    bucket: str = found["StackResourceDetail"]["PhysicalResourceId"]
    aws("s3").put_object(Bucket=bucket, Key="results/one.json", Body=b"{}")
    return bucket


def _bucket_names(aws: Aws) -> list[str]:
    return [bucket["Name"] for bucket in aws("s3").list_buckets()["Buckets"]]


def test_bucket_with_results_goes_with_its_stack(aws: Aws) -> None:
    """The stacks' own emptying function lets CloudFormation delete a bucket that holds results, versions included."""
    cfn = aws("cloudformation")
    made = create(cfn, "gone", _emptied({"loadproof:on-destroy": "delete"}))
    assert made["StackStatus"] == "CREATE_COMPLETE", reasons(cfn, "gone")
    bucket = _fill(aws, "gone")
    aws("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    aws("s3").put_object(Bucket=bucket, Key="results/one.json", Body=b"again")
    aws("s3").delete_object(Bucket=bucket, Key="results/one.json")
    assert delete(cfn, "gone")["StackStatus"] == "DELETE_COMPLETE"
    assert bucket not in _bucket_names(aws)


def test_going_back_to_keep_loses_no_result(aws: Aws) -> None:
    """The update that removes the emptying takes the tag away first, so the results are still there."""
    cfn = aws("cloudformation")
    create(cfn, "stays", _emptied({"loadproof:on-destroy": "delete"}))
    bucket = _fill(aws, "stays")
    kept = {"Resources": {**_bucket({}), **queue_template("stays")["Resources"]}}
    assert update(cfn, "stays", kept)["StackStatus"] == "UPDATE_COMPLETE"
    assert [one["Key"] for one in aws("s3").list_objects_v2(Bucket=bucket)["Contents"]] == ["results/one.json"]
