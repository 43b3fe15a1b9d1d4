"""Public examples, deployed with the calls they make and asked once with their own payload.

examples.yaml has the facts of each with its source, ledger.yaml those that do not answer here, and why.
"""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadproof.catalog import architecture

HERE = Path(__file__).parent
EXAMPLES: list[dict[str, Any]] = yaml.safe_load((HERE / "examples.yaml").read_text(encoding="utf-8"))
LEDGER: dict[str, dict[str, str]] = yaml.safe_load((HERE / "ledger.yaml").read_text(encoding="utf-8"))
ACCOUNT, REGION, BUCKET = "123456789012", "us-east-1", "sagemaker-us-east-1-123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/examples"
TRUST = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
Aws = Callable[[str], Any]


@pytest.fixture(scope="module")
def account(aws: Aws) -> Aws:
    """With the role and the bucket that every example takes from its account."""
    policy = json.dumps({"Version": "2012-10-17", "Statement": [TRUST]})
    aws("iam").create_role(RoleName="examples", AssumeRolePolicyDocument=policy)
    aws("s3").create_bucket(Bucket=BUCKET)
    return aws


def placed(facts: Any) -> Any:
    """The facts with this account's names."""
    text = json.dumps(facts)
    for word, value in {"REGION": REGION, "BUCKET": BUCKET, "ACCOUNT": ACCOUNT}.items():
        text = text.replace(word, value)
    return json.loads(text)


def config_json(model_id: str) -> bytes:
    """A file of the weights, from the catalog's row of the model."""
    shape = architecture(model_id)
    assert shape is not None
    config = {
        "model_type": "qwen3_moe" if shape.experts else "llama",
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocab,
        "max_position_embeddings": shape.context,
    }
    if shape.experts:
        config |= {
            "num_experts": shape.experts,
            "num_experts_per_tok": shape.experts_per_token,
            "moe_intermediate_size": shape.moe_intermediate,
        }
    return json.dumps(config).encode()


def archive(members: Mapping[str, Mapping[str, str]]) -> bytes:
    """A .tar.gz of .properties files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, properties in members.items():
            body = "".join(f"{key}={value}\n" for key, value in properties.items()).encode()
            member = tarfile.TarInfo(name)
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    return packed.getvalue()


def upload(aws: Aws, example: Mapping[str, Any]) -> None:
    for key, content in example.get("files", {}).items():
        body = config_json(content["config_of"]) if "config_of" in content else archive(content)
        aws("s3").put_object(Bucket=BUCKET, Key=key, Body=body)


def requests(example: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of CreateModel and CreateEndpointConfig."""
    name = example["name"].replace(".", "-")
    container = {"Image": example["image"], "Environment": example["variables"], **example.get("data", {})}
    model = {"ModelName": name, "ExecutionRoleArn": ROLE, "PrimaryContainer": container}
    variant = {"VariantName": "AllTraffic", "InitialInstanceCount": 1, **example["variant"]}
    config = {"EndpointConfigName": name, "ProductionVariants": [variant], **example.get("config", {})}
    if example["as"] == "component":
        return model, {**config, "ExecutionRoleArn": ROLE}
    return model, {**config, "ProductionVariants": [{**variant, "ModelName": name}]}


def deploy(aws: Aws, example: Mapping[str, Any]) -> str | None:
    """The calls, in the example's order, and the wait. The FailureReason, None in service."""
    model, config = requests(example)
    name, sagemaker = model["ModelName"], aws("sagemaker")
    if example["as"] == "stack":
        return deploy_stack(aws, name, model, config)
    sagemaker.create_model(**model)
    sagemaker.create_endpoint_config(**config)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    reason = settled(lambda: sagemaker.describe_endpoint(EndpointName=name), "EndpointStatus")
    if example["as"] == "endpoint" or reason is not None:
        return reason
    return deploy_component(aws, example, name, config["ProductionVariants"][0]["VariantName"])


def deploy_component(aws: Aws, example: Mapping[str, Any], name: str, variant: str) -> str | None:
    specification = {"ModelName": name, "ComputeResourceRequirements": example["needs"]}
    if seconds := example.get("startup"):
        names = ("ModelDataDownloadTimeoutInSeconds", "ContainerStartupHealthCheckTimeoutInSeconds")
        specification["StartupParameters"] = dict.fromkeys(names, seconds)
    aws("sagemaker").create_inference_component(
        InferenceComponentName=name,
        EndpointName=name,
        VariantName=variant,
        Specification=specification,
        RuntimeConfig={"CopyCount": 1},
    )
    if bounds := example.get("scaling"):
        aws("application-autoscaling").register_scalable_target(
            ServiceNamespace="sagemaker",
            ResourceId=f"inference-component/{name}",
            ScalableDimension="sagemaker:inference-component:DesiredCopyCount",
            **bounds,
        )
    describe = aws("sagemaker").describe_inference_component
    return settled(lambda: describe(InferenceComponentName=name), "InferenceComponentStatus")


def deploy_stack(aws: Aws, name: str, model: dict[str, Any], config: dict[str, Any]) -> str | None:
    resources = {
        "Model": {"Type": "AWS::SageMaker::Model", "Properties": model},
        "Config": {"Type": "AWS::SageMaker::EndpointConfig", "Properties": config, "DependsOn": "Model"},
        "Endpoint": {
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {"EndpointName": name, "EndpointConfigName": {"Fn::GetAtt": "Config.EndpointConfigName"}},
        },
    }
    cloudformation = aws("cloudformation")
    cloudformation.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": resources}))
    while (stack := cloudformation.describe_stacks(StackName=name)["Stacks"][0])["StackStatus"].endswith("PROGRESS"):
        time.sleep(0.05)
    return None if stack["StackStatus"] == "CREATE_COMPLETE" else str(stack)


def settled(describe: Callable[[], Mapping[str, Any]], status: str) -> str | None:
    while (found := describe())[status] == "Creating":
        time.sleep(0.05)
    return None if found[status] == "InService" else str(found["FailureReason"])


def cut(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with an answer of 16 tokens: the twin takes the time of a GPU, and ends no answer by itself."""
    if "inputs" in payload:
        return {**payload, "parameters": {**payload.get("parameters", {}), "max_new_tokens": 16}}
    return {**payload, "max_tokens": 16}


def ask(aws: Aws, example: Mapping[str, Any]) -> bytes:
    """The example's own payload, cut short; a component is named."""
    name = example["name"].replace(".", "-")
    target = {"EndpointName": name, "ContentType": "application/json", "Body": json.dumps(cut(example["payload"]))}
    if example["as"] == "component":
        target["InferenceComponentName"] = name
    runtime = aws("sagemaker-runtime")
    if example.get("streamed"):
        events = runtime.invoke_endpoint_with_response_stream(**target)["Body"]
        return b"".join(event["PayloadPart"]["Bytes"] for event in events)
    return bytes(runtime.invoke_endpoint(**target)["Body"].read())


@pytest.mark.parametrize("facts", EXAMPLES, ids=lambda facts: facts["name"])
def test_a_public_example_deploys_unchanged_and_answers(account: Aws, facts: dict[str, Any]) -> None:
    """InService and an answer; or the failure that the ledger has."""
    example = placed(facts)
    upload(account, example)
    reason = deploy(account, example)
    expected = LEDGER.get(example["name"])
    if expected is not None:
        assert reason is not None and expected["failure"] in reason
    else:
        assert reason is None
        assert ask(account, example)


def test_eighteen_of_twenty_at_least_answer() -> None:
    """And what is in the ledger is an example."""
    assert len(EXAMPLES) >= 20
    assert {example["name"] for example in EXAMPLES} >= LEDGER.keys()
    assert 1 - len(LEDGER) / len(EXAMPLES) >= 18 / 20
