"""The execution role: exactly what the containers need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from stacks_support import ENVIRONMENT, FROM_HUB, KEY_ARN, NETWORK, PROFILE, Synthesized, merged, profile, synthesize

from loadproof.errors import InputError
from loadproof.profiles import load_profile


def execution_role(stack: Synthesized) -> dict[str, Any]:
    (role,) = [
        body["Properties"]
        for body in stack.all("AWS::IAM::Role").values()
        if "sagemaker.amazonaws.com" in str(body["Properties"]["AssumeRolePolicyDocument"])
    ]
    return role


def statements(stack: Synthesized) -> dict[str, dict[str, Any]]:
    (policy,) = stack.all("AWS::IAM::Policy").values()
    return {statement["Sid"]: statement for statement in policy["Properties"]["PolicyDocument"]["Statement"]}


def test_trusts_sagemaker_for_this_account_only(tmp_path: Path) -> None:
    """Another account's SageMaker cannot be talked into using the role."""
    document = execution_role(synthesize(profile(tmp_path)))["AssumeRolePolicyDocument"]
    assert document["Statement"] == [
        {
            "Effect": "Allow",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
            "Action": "sts:AssumeRole",
            "Condition": {"StringEquals": {"aws:SourceAccount": "123456789012"}},
        }
    ]


def test_rights_of_a_component_endpoint(tmp_path: Path) -> None:
    """One prefix, one repository, the endpoint's own log groups; a star only where AWS knows nothing narrower."""
    endpoint_logs = "arn:aws:logs:us-east-1:123456789012:log-group:/aws/sagemaker/Endpoints/loadproof-test-chat"
    copy_logs = (
        "arn:aws:logs:us-east-1:123456789012:log-group:/aws/sagemaker/InferenceComponents/loadproof-test-chat-main"
    )
    assert list(statements(synthesize(profile(tmp_path))).values()) == [
        {
            "Sid": "Logs",
            "Effect": "Allow",
            "Action": [
                "logs:CreateLogGroup",
                "logs:CreateLogStream",
                "logs:DescribeLogStreams",
                "logs:PutLogEvents",
            ],
            "Resource": [f"{endpoint_logs}:*", f"{copy_logs}:*"],
        },
        {
            "Sid": "Metrics",
            "Effect": "Allow",
            "Action": "cloudwatch:PutMetricData",
            "Resource": "*",
            "Condition": {"StringLike": {"cloudwatch:namespace": ["AWS/SageMaker", "/aws/sagemaker/*"]}},
        },
        {
            "Sid": "RollbackAlarms",
            "Effect": "Allow",
            "Action": "cloudwatch:DescribeAlarms",
            "Resource": [
                "arn:aws:cloudwatch:us-east-1:123456789012:alarm:loadproof-test-chat-latency-p95",
                "arn:aws:cloudwatch:us-east-1:123456789012:alarm:loadproof-test-chat-error-rate",
            ],
        },
        {"Sid": "RegistryLogin", "Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"},
        {
            "Sid": "PullImages",
            "Effect": "Allow",
            "Action": [
                "ecr:BatchCheckLayerAvailability",
                "ecr:BatchGetImage",
                "ecr:GetDownloadUrlForLayer",
            ],
            "Resource": "arn:aws:ecr:us-east-1:763104351884:repository/huggingface-pytorch-tgi-inference",
        },
        {
            "Sid": "ReadNamedWeights",
            "Effect": "Allow",
            "Action": "s3:GetObject",
            "Resource": "arn:aws:s3:::example-models/llama/*",
            "Condition": {"StringEquals": {"aws:ResourceAccount": "123456789012"}},
        },
        {
            "Sid": "ListNamedWeights",
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": "arn:aws:s3:::example-models",
            "Condition": {
                "StringEquals": {"aws:ResourceAccount": "123456789012"},
                "StringLike": {"s3:prefix": ["llama/*"]},
            },
        },
    ]


def test_the_role_has_these_rights_and_no_others(tmp_path: Path) -> None:
    """One policy, the role's alone."""
    stack = synthesize(profile(tmp_path))
    assert "Policies" not in execution_role(stack)
    roles = [name for name, body in stack.all("AWS::IAM::Role").items() if body["Properties"] == execution_role(stack)]
    assert stack.only("AWS::IAM::Policy")["Roles"] == [{"Ref": name} for name in roles]


NEW_RIGHTS: dict[str, dict[str, Any]] = {
    "weights": {"model": {"source": {"s3_uri": "s3://example-models/llama-v2/"}}},
    "image": {"container": {"version": None, "image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/own:1.0"}},
    "outputs": {"endpoint": {"data_capture": {"s3_uri": "s3://captures/chat/"}}},
}


@pytest.mark.parametrize("edit", NEW_RIGHTS)
def test_old_copies_keep_their_rights_while_the_endpoint_moves(tmp_path: Path, edit: str) -> None:
    """New rights are another resource of another name, so CloudFormation takes the old ones away last of all."""
    before, after = synthesize(profile(tmp_path)), synthesize(profile(tmp_path, NEW_RIGHTS[edit]))
    policy = "AWS::IAM::Policy"
    assert before.logical_id(policy) != after.logical_id(policy)
    assert before.only(policy)["PolicyName"] != after.only(policy)["PolicyName"]


def test_rights_that_stay_the_same_stay_where_they_are(tmp_path: Path) -> None:
    """An edit of something else leaves the policy alone."""
    other = {"container": {"settings": {"max_total_tokens": 2048}}, "objectives": {"e2e_p95_ms": 1000}}
    before, after = synthesize(profile(tmp_path)), synthesize(profile(tmp_path, other))
    assert before.all("AWS::IAM::Policy") == after.all("AWS::IAM::Policy")


@pytest.mark.parametrize("hosting", ["inference_components", "plain_variant"])
def test_nothing_is_made_before_its_rights(tmp_path: Path, hosting: str) -> None:
    """Models and configuration wait for the policy: SageMaker tries the role at once, and again when it deletes."""
    stack = synthesize(profile(tmp_path, {"endpoint": {"hosting": hosting}}))
    rights = stack.logical_id("AWS::IAM::Policy")
    for kind in ("AWS::SageMaker::Model", "AWS::SageMaker::EndpointConfig"):
        for body in stack.all(kind).values():
            assert rights in body["DependsOn"]


def test_a_copy_with_a_shortened_name_may_write_its_log(tmp_path: Path) -> None:
    """63 characters are SageMaker's limit: the names of an endpoint and of its component begin differently then."""
    name = "chat-" + "x" * 34
    (tmp_path / f"{name}.yaml").write_text(
        yaml.safe_dump(merged(PROFILE, {"name": name}), sort_keys=False), encoding="utf-8"
    )
    stack = synthesize(load_profile(tmp_path / f"{name}.yaml"), environment_name="production-in-ireland")
    component = stack.only("AWS::SageMaker::InferenceComponent")["InferenceComponentName"]
    assert not component.startswith(stack.only("AWS::SageMaker::Endpoint")["EndpointName"])
    group = f"arn:aws:logs:us-east-1:123456789012:log-group:/aws/sagemaker/InferenceComponents/{component}:*"
    assert group in statements(stack)["Logs"]["Resource"]


def test_weights_may_come_from_accounts_that_the_environment_names(tmp_path: Path) -> None:
    """This one, and those: a bucket's name alone says nothing of its owner."""
    environment = ENVIRONMENT.model_copy(update={"weights_accounts": ("210987654321",)})
    found = statements(synthesize(profile(tmp_path), environment))["ReadNamedWeights"]
    assert found["Condition"] == {"StringEquals": {"aws:ResourceAccount": ["123456789012", "210987654321"]}}


def test_jumpstarts_buckets_are_awss(tmp_path: Path) -> None:
    """Read without a condition on their account, which nobody else can know."""
    uri = "s3://jumpstart-private-cache-prod-us-east-1/llama/"
    source = {"type": "jumpstart", "s3_uri": uri, "accept_eula": True}
    found = statements(synthesize(profile(tmp_path, {"model": {"source": source}})))
    assert "Condition" not in found["ReadWeights"] and "ReadNamedWeights" not in found


def test_hub_weights_need_no_bucket(tmp_path: Path) -> None:
    """A model from the hub reads nothing from S3."""
    assert not [sid for sid in statements(synthesize(profile(tmp_path, FROM_HUB))) if sid.endswith("Weights")]


def test_key_is_used_through_services_only(tmp_path: Path) -> None:
    """With a key: decrypt by way of S3 and SageMaker, and grants for AWS resources only."""
    environment = ENVIRONMENT.model_copy(update={"kms_key_arn": KEY_ARN})
    found = statements(synthesize(profile(tmp_path), environment))
    assert found["UseKey"]["Resource"] == KEY_ARN
    assert found["UseKey"]["Condition"] == {
        "StringEquals": {"kms:ViaService": ["s3.us-east-1.amazonaws.com", "sagemaker.us-east-1.amazonaws.com"]}
    }
    assert found["GrantKeyToVolumes"]["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}


def test_an_alias_is_no_key(tmp_path: Path) -> None:
    """A right on an alias grants nothing, so the alias is refused instead of failing at night."""
    aliased = ENVIRONMENT.model_copy(update={"kms_key_arn": "arn:aws:kms:us-east-1:123456789012:alias/models"})
    with pytest.raises(InputError, match=r"kms_key_arn: found .*alias/models.*write arn:…:key/…"):
        synthesize(profile(tmp_path), aliased)


def test_network_interfaces_only_inside_a_network(tmp_path: Path) -> None:
    """The right to make network interfaces comes with a network and not before."""
    assert "NetworkInterfaces" not in statements(synthesize(profile(tmp_path)))
    inside = ENVIRONMENT.model_copy(update={"network": NETWORK})
    assert (
        "ec2:CreateNetworkInterface" in statements(synthesize(profile(tmp_path), inside))["NetworkInterfaces"]["Action"]
    )


def test_captured_data_may_be_written_to_its_prefix(tmp_path: Path) -> None:
    """Data capture adds PutObject below its prefix."""
    captured = profile(tmp_path, {"endpoint": {"data_capture": {"s3_uri": "s3://captures/chat/"}}})
    environment = ENVIRONMENT.model_copy(update={"kms_key_arn": KEY_ARN})
    written = statements(synthesize(captured, environment))["WriteOutputs"]
    assert (written["Action"], written["Resource"]) == ("s3:PutObject", "arn:aws:s3:::captures/chat/*")


def test_asynchronous_inference_reads_requests_and_tells_topics(tmp_path: Path) -> None:
    """SageMaker reads requests, writes answers and failures and tells topics as the endpoint's role: nothing else."""
    topic = "arn:aws:sns:us-east-1:123456789012:chat-failed"
    wanted = {
        "input_s3_uri": "s3://inputs/chat/",
        "output_s3_uri": "s3://outputs/chat/",
        "failure_s3_uri": "s3://outputs/failed/",
        "error_topic_arn": topic,
    }
    endpoint = {"hosting": "plain_variant", "max_instances": 1, "async_inference": wanted}
    found = statements(synthesize(profile(tmp_path, {"endpoint": endpoint, "copies": {"max": 1}})))
    assert found["ReadRequests"]["Resource"] == "arn:aws:s3:::inputs/chat/*"
    assert found["WriteOutputs"]["Resource"] == ["arn:aws:s3:::outputs/chat/*", "arn:aws:s3:::outputs/failed/*"]
    assert (found["TellResults"]["Action"], found["TellResults"]["Resource"]) == ("sns:Publish", topic)


def test_own_image_gives_its_own_repository(tmp_path: Path) -> None:
    """An image of one's own is pulled from its account, region and repository, digest or tag aside."""
    image = f"210987654321.dkr.ecr.eu-west-1.amazonaws.com/team/server@sha256:{'a' * 64}"
    chosen = profile(tmp_path, {"container": {"image": image, "version": None}})
    assert statements(synthesize(chosen))["PullImages"]["Resource"] == (
        "arn:aws:ecr:eu-west-1:210987654321:repository/team/server"
    )


def test_image_outside_ecr_is_refused(tmp_path: Path) -> None:
    """SageMaker pulls from ECR only; the message says what to write instead."""
    chosen = profile(tmp_path)
    assert chosen.container is not None
    outside = chosen.container.model_copy(update={"image": "ghcr.io/team/server:1.0"})
    with pytest.raises(InputError, match=r"found `ghcr.io/team/server:1.0`.*Amazon ECR only"):
        synthesize(chosen.model_copy(update={"container": outside}))
