"""Profiles on Bedrock deployed to a local cloud: invoked, watched, changed, taken down."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bedrock_profiles import LLAMA, bedrock_profile
from stacks_cloud import Cloud, local_cloud

from loadproof.profiles import check_file, load_environment, load_profile
from loadproof.profiles.on_bedrock import deployed_name

PAGE = (Path(__file__).parents[2] / "docs" / "bedrock.md").read_text("utf-8")
FILES = dict(re.findall(r"^```yaml\n# deploy_profiles/(\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
MESSAGES = [{"role": "user", "content": [{"text": "one two three"}]}]
UNITS = {"inference_profile": "none", "provisioned_throughput": {"model_units": 2}}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with local_cloud(tmp_path_factory.mktemp("state"), "bedrock") as running:
        yield running


def outputs(cloud: Cloud, stack_name: str) -> dict[str, str]:
    (stack,) = cloud.client("cloudformation").describe_stacks(StackName=stack_name)["Stacks"]
    return {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}


def answered(cloud: Cloud, model_id: str) -> int:
    answer = cloud.client("bedrock-runtime").converse(
        modelId=model_id, messages=MESSAGES, inferenceConfig={"maxTokens": 2}
    )
    return int(answer["usage"]["outputTokens"])


def reasons(cloud: Cloud, stack: str) -> str:
    events = cloud.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
    return " ".join(event.get("ResourceStatusReason", "") for event in events)


def test_a_profile_from_deployment_to_removal(cloud: Cloud, tmp_path: Path) -> None:
    """Invoked by its ARN, found by the name that the benchmark looks for, the quota's alarm at 80% of what the account
    has; another model moves over to a new inference profile, and nothing stays behind."""
    profile = bedrock_profile(tmp_path)
    assert cloud.deploy(profile) == "CREATE_COMPLETE"
    told = outputs(cloud, "loadproof-test-chat")
    assert answered(cloud, told["ModelArn"]) == 2
    bedrock = cloud.client("bedrock")
    (made,) = bedrock.list_inference_profiles(typeEquals="APPLICATION")["inferenceProfileSummaries"]
    assert made["inferenceProfileName"] == deployed_name("test", profile)
    assert float(told["TokensPerMinute"]) == 600_000
    (alarm,) = cloud.client("cloudwatch").describe_alarms(AlarmNames=["loadproof-test-chat-quota-use"])["MetricAlarms"]
    assert alarm["Threshold"] == 480_000
    assert alarm["Dimensions"] == [{"Name": "ModelId", "Value": made["inferenceProfileId"]}]

    other = bedrock_profile(tmp_path, {"model": {"id": "amazon.nova-lite-v1:0"}})
    assert cloud.deploy(other) == "UPDATE_COMPLETE"
    (moved,) = bedrock.list_inference_profiles(typeEquals="APPLICATION")["inferenceProfileSummaries"]
    assert moved["inferenceProfileName"] == deployed_name("test", other)
    assert {arn["modelArn"].rpartition("/")[2] for arn in moved["models"]} == {"amazon.nova-lite-v1:0"}
    assert answered(cloud, outputs(cloud, "loadproof-test-chat")["ModelArn"]) == 2

    assert cloud.destroy("loadproof-test-chat") == "DELETE_COMPLETE"
    assert bedrock.list_inference_profiles(typeEquals="APPLICATION")["inferenceProfileSummaries"] == []


def test_a_quota_that_nobody_lists_fails_with_its_name(cloud: Cloud, tmp_path: Path) -> None:
    """The reason says what was looked for, and what to do."""
    template = cloud.template(bedrock_profile(tmp_path, {"name": "unknown"}))
    for body in template["Resources"].values():
        if "Share" in body.get("Properties", {}):
            body["Properties"]["Names"] = ["Tokens per minute of nobody"]
    assert cloud.apply("loadproof-test-unknown", template) == "ROLLBACK_COMPLETE"
    assert "Service Quotas lists no quota of Bedrock named Tokens per minute of nobody" in reasons(
        cloud, "loadproof-test-unknown"
    )
    cloud.destroy("loadproof-test-unknown")


def test_model_units_are_made_kept_by_their_commitment_and_let_go(cloud: Cloud, tmp_path: Path) -> None:
    """Two units serve; a commitment instead is a new throughput beside them, which a removal then has to leave."""
    assert cloud.deploy(bedrock_profile(tmp_path, {"name": "units", "bedrock": UNITS})) == "CREATE_COMPLETE"
    arn = outputs(cloud, "loadproof-test-units")["ModelArn"]
    assert ":provisioned-model/" in arn
    assert answered(cloud, arn) == 2
    bedrock = cloud.client("bedrock")
    assert bedrock.get_provisioned_model_throughput(provisionedModelId=arn)["modelUnits"] == 2

    committed = UNITS | {"provisioned_throughput": {"model_units": 1, "commitment": "one_month"}}
    assert cloud.deploy(bedrock_profile(tmp_path, {"name": "units", "bedrock": committed})) == "UPDATE_COMPLETE"
    (left,) = bedrock.list_provisioned_model_throughputs()["provisionedModelSummaries"]
    assert (left["modelUnits"], left["commitmentDuration"]) == (1, "OneMonth")

    assert cloud.destroy("loadproof-test-units") == "DELETE_FAILED"
    assert "AWS deletes it no sooner and bills it until then" in reasons(cloud, "loadproof-test-units")
    cfn = cloud.client("cloudformation")
    (stuck,) = [
        one["LogicalResourceId"]
        for one in cfn.list_stack_resources(StackName="loadproof-test-units")["StackResourceSummaries"]
        if one["ResourceStatus"] == "DELETE_FAILED"
    ]
    cfn.delete_stack(StackName="loadproof-test-units", RetainResources=[stuck])


def test_a_message_becomes_a_result_by_converse(cloud: Cloud, tmp_path: Path) -> None:
    """The buffer in front of the model: Converse's own request in, its answer in S3."""
    profile = bedrock_profile(tmp_path, {"name": "queued", "buffer": {"max_concurrency": 2}})
    assert cloud.deploy(profile) == "CREATE_COMPLETE"
    told = outputs(cloud, "loadproof-test-queued")
    request = {"messages": MESSAGES, "inferenceConfig": {"maxTokens": 3}}
    body = json.dumps({"key": "one", "request": request})
    cloud.client("sqs").send_message(QueueUrl=told["QueueUrl"], MessageBody=body)
    result = stored(cloud, told["ResultsBucketName"], "results/one.json")
    assert result["answer"]["usage"]["completion_tokens"] == 3
    assert result["model_revision"] == f"us.{LLAMA}"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The folder of the environment that docs/bedrock.md writes."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / "dev"


def test_the_pages_files_have_no_finding(page: Path) -> None:
    """Two files, neither errors nor warnings."""
    assert sorted(FILES) == ["dev/chat.yaml", "dev/environment.yaml"]
    assert [check_file(file).problems for file in page.iterdir()] == [(), ()]


def test_the_pages_profile_is_deployed_invoked_and_removed(cloud: Cloud, page: Path) -> None:
    """boto3 streams from the deployed ARN, and nothing stays behind."""
    profile, environment = load_profile(page / "chat.yaml"), load_environment(page)
    assert cloud.deploy(profile, environment) == "CREATE_COMPLETE", cloud.reasons("loadproof-test-chat")
    told = outputs(cloud, "loadproof-test-chat")
    assert ":application-inference-profile/" in told["ModelArn"]
    assert float(told["TokensPerMinute"]) == 600_000
    stream = cloud.client("bedrock-runtime").converse_stream(
        modelId=told["ModelArn"],
        messages=[{"role": "user", "content": [{"text": "hello"}]}],
        inferenceConfig={"maxTokens": 3},
    )["stream"]
    events = [next(iter(event)) for event in stream]
    assert events.count("contentBlockDelta") == 3 and events[-2:] == ["messageStop", "metadata"]
    assert cloud.destroy("loadproof-test-chat") == "DELETE_COMPLETE"
    left = [one["FunctionName"] for one in cloud.client("lambda").list_functions()["Functions"]]
    assert [name for name in left if name.startswith("loadproof-test-chat-")] == []
    roles = [role["RoleName"] for role in cloud.client("iam").list_roles()["Roles"]]
    assert [name for name in roles if name.startswith("loadproof-test-chat-")] == []
    alarms = cloud.client("cloudwatch").describe_alarms(AlarmNamePrefix="loadproof-test-chat-")["MetricAlarms"]
    assert alarms == []


def stored(cloud: Cloud, bucket: str, key: str) -> dict[str, Any]:
    """The result, once it is there."""
    s3 = cloud.client("s3")
    end_s = time.monotonic() + 120
    while True:
        found = s3.list_objects_v2(Bucket=bucket, Prefix=key).get("Contents", [])
        if found:
            content: dict[str, Any] = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
            return content
        assert time.monotonic() < end_s, "no result"
        time.sleep(0.2)
