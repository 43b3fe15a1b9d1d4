"""Rights that owners give: exactly their own resource, to whoever asks in code."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import aws_iam as iam
from stacks_support import ENVIRONMENT, App, profile

from loadproof.constructs.deployment import Deployment
from stacks.endpoint_stack import EndpointStack


def test_invoke_and_send_are_granted_by_their_owners(tmp_path: Path) -> None:
    """A caller may invoke this endpoint and its component, and send to this queue; nothing else comes along."""
    app = App(builtin_cloud_formation_validation=False)
    chosen = profile(tmp_path, {"buffer": {"max_concurrency": 2}})
    stack = EndpointStack(app, deployment=Deployment("test", ENVIRONMENT, chosen))
    caller = iam.Role(stack, "Caller", assumed_by=iam.AccountRootPrincipal())
    assert stack.buffer is not None
    stack.endpoint.grant_invoke(caller)
    stack.buffer.grant_send(caller)
    template = app.synth().get_stack_by_name("loadproof-test-chat").template
    (policy,) = [
        body
        for name, body in template["Resources"].items()
        if body["Type"] == "AWS::IAM::Policy" and name.startswith("Caller")
    ]
    invoke, send = policy["Properties"]["PolicyDocument"]["Statement"]
    assert invoke["Action"] == ["sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream"]
    assert invoke["Resource"] == [
        "arn:aws:sagemaker:us-east-1:123456789012:endpoint/loadproof-test-chat",
        "arn:aws:sagemaker:us-east-1:123456789012:inference-component/loadproof-test-chat-main",
    ]
    assert send["Action"] == ["sqs:SendMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl"]
    (queue,) = [
        name
        for name, body in template["Resources"].items()
        if body["Properties"].get("QueueName") == "loadproof-test-chat-requests"
    ]
    assert send["Resource"] == {"Fn::GetAtt": [queue, "Arn"]}
