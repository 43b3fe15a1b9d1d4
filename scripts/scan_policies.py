"""IAM policies of a template as AWS would see them deployed: every reference a name or an ARN that could be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from loadproof.wire.documents import Json

_HOME: Final = {
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::AccountId": "123456789012",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": "stack",
    "AWS::StackId": "arn:aws:cloudformation:us-east-1:123456789012:stack/stack/1",
}
_ARNS: Final = {
    "AWS::S3::Bucket": "arn:aws:s3:::{name}",
    "AWS::SQS::Queue": "arn:aws:sqs:us-east-1:123456789012:{name}",
    "AWS::SNS::Topic": "arn:aws:sns:us-east-1:123456789012:{name}",
    "AWS::DynamoDB::Table": "arn:aws:dynamodb:us-east-1:123456789012:table/{name}",
    "AWS::Lambda::Function": "arn:aws:lambda:us-east-1:123456789012:function:{name}",
    "AWS::Logs::LogGroup": "arn:aws:logs:us-east-1:123456789012:log-group:{name}:*",
    "AWS::StepFunctions::StateMachine": "arn:aws:states:us-east-1:123456789012:stateMachine:{name}",
    "AWS::IAM::Role": "arn:aws:iam::123456789012:role/{name}",
    "AWS::KMS::Key": "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    "AWS::SageMaker::Endpoint": "arn:aws:sagemaker:us-east-1:123456789012:endpoint/{name}",
    "AWS::Bedrock::ApplicationInferenceProfile": (
        "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/{name}"
    ),
}
_ANSWERED: Final = {  # by custom resources, where a policy names it
    "Arn": "arn:aws:bedrock:us-east-1:123456789012:provisioned-model/abcdefghij12"
}
_ARN_BY_REF: Final = ("AWS::SNS::Topic", "AWS::StepFunctions::StateMachine", "AWS::SageMaker::Endpoint")


def policies(template: Mapping[str, Json]) -> Iterator[tuple[str, dict[str, Json]]]:
    """(Type and logical id, policy document) of every policy of an identity; trust and resource policies are others."""
    for logical_id, body in template.get("Resources", {}).items():
        properties = body.get("Properties", {})
        inline = [one["PolicyDocument"] for one in properties.get("Policies", ()) if body["Type"] == "AWS::IAM::Role"]
        own = [properties["PolicyDocument"]] if body["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy") else []
        for document in (*inline, *own):
            yield f"{body['Type']}.{logical_id}", _resolved(document, template)


def _resolved(value: Json, template: Mapping[str, Json]) -> Json:
    if isinstance(value, list):
        return [_resolved(one, template) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((function, argument),) = value.items()
        if function == "Ref":
            return _named(argument, "Ref", template)
        if function == "Fn::GetAtt":
            return _named(*argument, template)
        if function == "Fn::Join":
            return argument[0].join(_resolved(one, template) for one in argument[1])
        if function == "Fn::Sub":
            return re.sub(r"\$\{([^}.]+)\.?(\w*)\}", lambda at: _named(at[1], at[2] or "Ref", template), argument)
        if function.startswith("Fn::"):
            raise ValueError(f"{function} in a policy: teach it to scripts/scan_policies.py")
    return {name: _resolved(one, template) for name, one in value.items()}


def _named(logical_id: str, attribute: str, template: Mapping[str, Json]) -> str:
    if logical_id in _HOME:
        return _HOME[logical_id]
    if "Default" in template.get("Parameters", {}).get(logical_id, {}):
        return str(template["Parameters"][logical_id]["Default"])
    kind, name = template["Resources"][logical_id]["Type"], logical_id.lower()
    if kind == "AWS::CloudFormation::CustomResource":
        return _ANSWERED[attribute]
    by_arn = attribute.endswith("Arn") or (attribute == "Ref" and kind in _ARN_BY_REF)
    return _ARNS[kind].format(name=name) if by_arn else name
