"""Weights of the hub in a stack: the template, and deployments to a local cloud with a hub on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stacks_cloud import Cloud, local_cloud
from stacks_support import ENVIRONMENT, profile, synthesize
from staging_hub import REPOSITORY, REVISION, Hub, served
from tiny_weights import TINY_SHAPE, safetensors

from loadproof.profiles.schema import Environment, Profile

STACK = "loadproof-test-chat"
PREFIX = f"models/{REPOSITORY}/{REVISION}/"
FILES = {
    "config.json": b"{}",
    "model.safetensors": safetensors(),
    "tokenizer.json": b'{"version": "1.0"}',
    "pytorch_model.bin": b"a pickle",
}


def staged(folder: Path, *, revision: str = REVISION, secret: str | None = None) -> Profile:
    source: dict[str, Any] = {"type": "hub", "revision": revision, "s3_uri": None, "accept_eula": None}
    if secret:
        source["token_secret_arn"] = secret
    return profile(folder, {"model": {"id": REPOSITORY, "source": source, "architecture": TINY_SHAPE}})


def test_an_isolated_model_waits_for_its_weights(tmp_path: Path) -> None:
    """The model reads S3, has no network, knows no token; its address comes from what waits for the staging."""
    secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:hub-a1b2c3"
    stack = synthesize(staged(tmp_path, secret=secret))
    model = stack.only("AWS::SageMaker::Model")
    (waiting,) = [
        name
        for name, body in stack.all("AWS::CloudFormation::CustomResource").items()
        if body["Properties"].get("repository") == REPOSITORY
    ]
    assert model["EnableNetworkIsolation"] is True
    assert model["PrimaryContainer"]["ModelDataSource"]["S3DataSource"] == {
        "S3Uri": {"Fn::GetAtt": [waiting, "S3Uri"]},
        "S3DataType": "S3Prefix",
        "CompressionType": "None",
    }
    assert model["PrimaryContainer"]["Environment"]["HF_MODEL_ID"] == "/opt/ml/model"
    assert "HF_MODEL_REVISION" not in model["PrimaryContainer"]["Environment"]
    assert secret not in json.dumps(model)


def test_only_the_fetching_function_reads_the_token(tmp_path: Path) -> None:
    """The secret's ARN stands in one role and in the request, in no variable, and its value nowhere."""
    secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:hub-a1b2c3"
    stack = synthesize(staged(tmp_path, secret=secret))
    holders = sorted(body["Type"] for body in stack.template["Resources"].values() if secret in json.dumps(body))
    assert holders == ["AWS::CloudFormation::CustomResource", "AWS::IAM::Role"]
    assert "{{resolve:" not in json.dumps(stack.template)


def test_another_commit_is_another_resource(tmp_path: Path) -> None:
    """So the new weights are staged before, and the old ones deleted after the endpoint has moved over."""

    def waiting(revision: str) -> set[str]:
        template = synthesize(staged(tmp_path, revision=revision))
        return {name for name in template.all("AWS::CloudFormation::CustomResource") if "Staged" in name}

    assert waiting(REVISION).isdisjoint(waiting("f" * 40))
    assert waiting(REVISION) == waiting(REVISION)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with local_cloud(tmp_path_factory.mktemp("state"), "staging") as running:
        yield running


@pytest.fixture
def hub() -> Iterator[Hub]:
    with served(Hub(dict(FILES), frozenset(["model.safetensors"]))) as running:
        yield running


def environment_of(hub: Hub) -> Environment:
    return ENVIRONMENT.model_copy(update={"hub_url": hub.address})


def weights(cloud: Cloud) -> dict[str, bytes]:
    """Everything in the weights' bucket; empty where there is none."""
    s3 = cloud.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        found = s3.list_objects_v2(Bucket=bucket["Name"], Prefix="models/").get("Contents", [])
        if found:
            return {one["Key"]: s3.get_object(Bucket=bucket["Name"], Key=one["Key"])["Body"].read() for one in found}
    return {}


def test_a_deployment_waits_for_the_weights_and_a_destruction_takes_them_away(
    cloud: Cloud, hub: Hub, tmp_path: Path
) -> None:
    """With a token from Secrets Manager: staged by commit, in service, and nothing left behind."""
    hub.token = "hf_open"
    secret = cloud.client("secretsmanager").create_secret(Name="hub", SecretString="hf_open")["ARN"]
    assert cloud.deploy(staged(tmp_path, secret=secret), environment_of(hub)) == "CREATE_COMPLETE", cloud.reasons(STACK)
    kept = {PREFIX + name: body for name, body in FILES.items() if not name.endswith(".bin")}
    assert weights(cloud) == kept
    models = cloud.client("sagemaker").list_models()["Models"]
    (model,) = [cloud.client("sagemaker").describe_model(ModelName=one["ModelName"]) for one in models]
    uri = model["PrimaryContainer"]["ModelDataSource"]["S3DataSource"]["S3Uri"]
    assert uri.endswith(f"/{PREFIX}")
    assert "hf_open" not in json.dumps(model, default=str)
    assert cloud.destroy(STACK) == "DELETE_COMPLETE"
    assert weights(cloud) == {}


def test_another_commit_is_staged_before_the_old_one_goes(cloud: Cloud, hub: Hub, tmp_path: Path) -> None:
    """The endpoint moves from one commit to the next; a commit that the hub does not have leaves all as it was."""
    environment, following = environment_of(hub), "f" * 40
    assert cloud.deploy(staged(tmp_path), environment) == "CREATE_COMPLETE", cloud.reasons(STACK)
    assert cloud.deploy(staged(tmp_path, revision=following), environment) == "UPDATE_ROLLBACK_COMPLETE"
    assert {key.split("/")[3] for key in weights(cloud)} == {REVISION}
    assert any("the hub knows no acme/chat-7b at ffffffffffff" in reason for reason in cloud.reasons(STACK))
    hub.revision = following
    assert cloud.deploy(staged(tmp_path, revision=following), environment) == "UPDATE_COMPLETE", cloud.reasons(STACK)
    assert {key.split("/")[3] for key in weights(cloud)} == {following}
    assert cloud.destroy(STACK) == "DELETE_COMPLETE"


def test_a_gated_repository_fails_the_deployment_with_its_reason(cloud: Cloud, hub: Hub, tmp_path: Path) -> None:
    """The stack's event says what the hub said and what to do; the rollback leaves no weights."""
    hub.refuses_with = 403
    assert cloud.deploy(staged(tmp_path), environment_of(hub)) == "ROLLBACK_COMPLETE"
    assert any("the hub answers 403 for acme/chat-7b" in reason for reason in cloud.reasons(STACK))
    assert weights(cloud) == {}
    assert cloud.destroy(STACK) == "DELETE_COMPLETE"


def test_a_wrong_checksum_fails_the_deployment(cloud: Cloud, hub: Hub, tmp_path: Path) -> None:
    """Tried once more, then given up: weights that are not the commit's reach no container."""
    hub.wrong_sum = "model.safetensors"
    assert cloud.deploy(staged(tmp_path), environment_of(hub)) == "ROLLBACK_COMPLETE"
    assert any("model.safetensors: checksum" in reason for reason in cloud.reasons(STACK))
    assert len(hub.ranges) == 2
    assert cloud.destroy(STACK) == "DELETE_COMPLETE"
