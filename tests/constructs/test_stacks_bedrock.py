"""The template of a profile on Bedrock: what is invoked, exact rights, alarms, and the quota by name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from bedrock_profiles import LLAMA, bedrock_profile
from stacks_support import ENVIRONMENT, KEY_ARN, NETWORK, ROOT, Synthesized, synthesize
from validated import findings

from loadproof.constructs.bedrock.alarms import objectives_unseen_on_bedrock
from loadproof.errors import InputError

ALARM = "AWS::CloudWatch::Alarm"
PROFILE_TYPE = "AWS::Bedrock::ApplicationInferenceProfile"
CUSTOM = "AWS::CloudFormation::CustomResource"
FUNCTION_ROLE = "AWS::IAM::Role"
BUFFER = {"buffer": {"max_concurrency": 2}}


def template(folder: Path, changes: dict[str, Any] | None = None) -> Synthesized:
    return synthesize(bedrock_profile(folder, changes))


def consumer_statements(stack: Synthesized) -> list[dict[str, Any]]:
    """What the buffer's consumer may do to Bedrock."""
    (role,) = [body for name, body in stack.all(FUNCTION_ROLE).items() if name.startswith("BufferConsumer")]
    statements = role["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    return [one for one in statements if "bedrock:InvokeModel" in one["Action"]]


def test_the_profile_copies_the_cross_region_one(tmp_path: Path) -> None:
    """`us.` is copied from the account's own region; tags say whose tokens the bill shows."""
    made = template(tmp_path).only(PROFILE_TYPE)
    assert made["ModelSource"] == {"CopyFrom": f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.{LLAMA}"}
    assert made["InferenceProfileName"].startswith("loadproof-test-chat-")
    tags = {tag["Key"]: tag["Value"] for tag in made["Tags"]}
    assert tags == {"loadproof:environment": "test", "loadproof:profile": "chat"}
    assert "Description" not in made


def test_without_a_prefix_the_model_is_copied(tmp_path: Path) -> None:
    """A foundation model's ARN has no account."""
    made = template(tmp_path, {"bedrock": None}).only(PROFILE_TYPE)
    assert made["ModelSource"] == {"CopyFrom": f"arn:aws:bedrock:us-east-1::foundation-model/{LLAMA}"}


def test_another_model_is_another_name_under_the_same_logical_id(tmp_path: Path) -> None:
    """CloudFormation makes the new profile before it deletes the old one, so their names must differ."""
    before = template(tmp_path)
    after = template(tmp_path, {"model": {"id": "amazon.nova-lite-v1:0"}})
    assert before.logical_id(PROFILE_TYPE) == after.logical_id(PROFILE_TYPE)
    assert before.only(PROFILE_TYPE)["InferenceProfileName"] != after.only(PROFILE_TYPE)["InferenceProfileName"]
    slower = template(tmp_path, {"objectives": {"e2e_p95_ms": 4000}})
    assert before.only(PROFILE_TYPE) == slower.only(PROFILE_TYPE)


def test_rights_reach_every_destination_region_and_no_other(tmp_path: Path) -> None:
    """The profile itself, and the model in the four `us.` regions, there only through the profile."""
    stack = template(tmp_path, BUFFER)
    through, models = consumer_statements(stack)
    arn = {"Fn::GetAtt": [stack.logical_id(PROFILE_TYPE), "InferenceProfileArn"]}
    copied = f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.{LLAMA}"
    assert through["Resource"] == [arn, copied]
    assert "Condition" not in through
    regions = ("us-east-1", "us-east-2", "us-west-1", "us-west-2")
    assert models["Resource"] == [f"arn:aws:bedrock:{region}::foundation-model/{LLAMA}" for region in regions]
    assert models["Condition"] == {"StringEquals": {"bedrock:InferenceProfileArn": [arn, copied]}}
    for statement in (through, models):
        assert statement["Action"] == ["bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream"]


def test_a_global_profile_may_run_anywhere_through_itself(tmp_path: Path) -> None:
    """The model here, and its ARN without a region for requests that AWS sends on."""
    haiku = "anthropic.claude-haiku-4-5-20251001-v1:0"
    changes = {"model": {"id": haiku}, "bedrock": {"inference_profile": "global"}, **BUFFER}
    _, here, anywhere = consumer_statements(template(tmp_path, changes))
    assert here["Resource"] == f"arn:aws:bedrock:us-east-1::foundation-model/{haiku}" or here["Resource"] == [
        f"arn:aws:bedrock:us-east-1::foundation-model/{haiku}"
    ]
    assert anywhere["Resource"] == f"arn:aws:bedrock:::foundation-model/{haiku}"
    assert anywhere["Condition"]["StringEquals"]["aws:RequestedRegion"] == "unspecified"
    assert "bedrock:InferenceProfileArn" in anywhere["Condition"]["StringEquals"]


def test_the_buffer_speaks_converse_to_the_profile(tmp_path: Path) -> None:
    """The consumer is told the profile's ARN, and what a result's key is made of."""
    stack = template(tmp_path, BUFFER)
    (function,) = [body for name, body in stack.all("AWS::Lambda::Function").items() if name.startswith("BufferConsu")]
    variables = function["Properties"]["Environment"]["Variables"]
    assert variables["ENDPOINT_NAME"] == {"Fn::GetAtt": [stack.logical_id(PROFILE_TYPE), "InferenceProfileArn"]}
    assert (variables["PROTOCOL"], variables["MODEL_REVISION"]) == ("converse", f"us.{LLAMA}")


def test_alarms_on_objectives_errors_and_the_quota(tmp_path: Path) -> None:
    """TTFT and E2E in ms by ModelId, shares of refused requests, one alarm over the silent ones."""
    stack = template(tmp_path)
    names = {body["Properties"]["AlarmName"].removeprefix("loadproof-test-chat-") for body in stack.all(ALARM).values()}
    assert names == {
        "latency-p95", "ttft-p95", "error-rate", "throttled", "server-errors", "rejected", "quota-use",
    }  # fmt: skip
    ttft = stack.named(ALARM, MetricName="TimeToFirstToken")["Properties"]
    assert (ttft["Threshold"], ttft["ExtendedStatistic"], ttft["Namespace"]) == (900, "p95", "AWS/Bedrock")
    profile_id = {"Fn::GetAtt": [stack.logical_id(PROFILE_TYPE), "InferenceProfileId"]}
    assert ttft["Dimensions"] == [{"Name": "ModelId", "Value": profile_id}]
    (composite,) = stack.all("AWS::CloudWatch::CompositeAlarm").values()
    assert composite["Properties"]["AlarmRule"].count("ALARM(") == 3


def test_the_quota_is_asked_for_by_name(tmp_path: Path) -> None:
    """Across regions under `us.`; the alarm's threshold is what the account says at deployment, times 0.8."""
    stack = template(tmp_path)
    (asked,) = [body for body in stack.all(CUSTOM).values() if "Share" in body["Properties"]]
    assert asked["Properties"]["Share"] == "0.8"
    wanted = "Cross-region model inference tokens per minute for Meta Llama 3.1 8B Instruct"
    assert asked["Properties"]["Names"][0] == wanted
    use = stack.named(ALARM, MetricName="EstimatedTPMQuotaUsage")["Properties"]
    (logical_id,) = [name for name, body in stack.all(CUSTOM).items() if "Share" in body["Properties"]]
    assert use["Threshold"] == {"Fn::GetAtt": [logical_id, "AlarmAt"]}
    assert (use["Statistic"], use["Period"]) == ("Sum", 60)


@pytest.mark.parametrize(
    "changes",
    [
        {"bedrock": {"quota_alarm_share": None}, "objectives": {"e2e_p95_ms": 1}},
        {"model": {"id": "amazon.nova-nonesuch-v9:0"}},
        {"bedrock": {"inference_profile": "none", "provisioned_throughput": {"model_units": 1}}},
    ],
)
def test_no_quota_is_looked_up_where_none_counts(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Not wanted, no name known for it, or model units of one's own."""
    if changes.get("bedrock", {}).get("quota_alarm_share", 1) is None:
        file = tmp_path / "chat.yaml"
        bedrock_profile(tmp_path)
        text = file.read_text().replace("inference_profile: us", "inference_profile: us\n  quota_alarm_share: null")
        file.write_text(text)
        from loadproof.profiles import load_profile

        stack = synthesize(load_profile(file))
    else:
        stack = template(tmp_path, changes)
    assert [body for body in stack.all(CUSTOM).values() if "Share" in body["Properties"]] == []
    assert not any("EstimatedTPMQuotaUsage" in json.dumps(body) for body in stack.all(ALARM).values())


def test_provisioned_throughput_is_a_custom_resource(tmp_path: Path) -> None:
    """Its name and logical id say what it is made of: two units instead of one are another throughput."""
    units = {"bedrock": {"inference_profile": "none", "provisioned_throughput": {"model_units": 1}}}
    stack = template(tmp_path, units)
    assert stack.all(PROFILE_TYPE) == {}
    asked = stack.only(CUSTOM)
    assert (asked["ModelId"], asked["ModelUnits"]) == (LLAMA, 1)
    assert "Commitment" not in asked
    assert asked["Tags"] == {"loadproof:environment": "test", "loadproof:profile": "chat"}
    units["bedrock"]["provisioned_throughput"] = {"model_units": 2, "commitment": "one_month"}
    more = template(tmp_path, units)
    assert more.only(CUSTOM)["Commitment"] == "OneMonth"
    assert more.only(CUSTOM)["Name"] != asked["Name"]
    assert more.logical_id(CUSTOM) != stack.logical_id(CUSTOM)


def test_outputs_are_the_contracts(tmp_path: Path) -> None:
    """What to call, whose hash it is, where requests go in and answers come out."""
    outputs = template(tmp_path, BUFFER).template["Outputs"]
    assert set(outputs) == {
        "ModelArn", "TokensPerMinute", "ProfileHash", "QueueUrl", "DeadLetterQueueUrl", "ClaimsTableName",
        "ResultsBucketName", "ModelRevision",
    }  # fmt: skip


def test_the_dashboard_draws_bounds_and_the_quota(tmp_path: Path) -> None:
    """Objectives as lines; nothing of SageMaker's is asked for."""
    body = json.dumps(template(tmp_path, BUFFER).only("AWS::CloudWatch::Dashboard")["DashboardBody"])
    for part in ("TimeToFirstToken", "InvocationLatency", "EstimatedTPMQuotaUsage", "ttft_p95_ms", "e2e_p95_ms"):
        assert part in body
    assert "AWS/SageMaker" not in body


def test_what_bedrock_cannot_tell_is_said(tmp_path: Path) -> None:
    """Gaps between tokens and rates are the benchmark's to prove."""
    objectives = {"itl_p95_ms": 60, "requests_per_s_min": 2}
    profile = bedrock_profile(tmp_path, {"objectives": objectives})
    assert objectives_unseen_on_bedrock(profile.objectives) == ("itl_p95_ms", "requests_per_s_min")
    (composite,) = synthesize(profile).all("AWS::CloudWatch::CompositeAlarm").values()
    said = composite["Properties"]["AlarmDescription"]
    assert "Not seen by CloudWatch, proven by the benchmark: itl_p95_ms, requests_per_s_min." in said


def test_a_gate_is_refused(tmp_path: Path) -> None:
    """Also for a profile that never went through the checks."""
    profile = bedrock_profile(tmp_path)
    gated = profile.model_copy(update={"benchmark": profile.benchmark.model_copy(update={"gate": "alarm"})})
    with pytest.raises(InputError, match="profile chat: benchmark: gate and schedule work for backend sagemaker only"):
        synthesize(gated, ENVIRONMENT)


CAPABILITIES: dict[str, dict[str, Any]] = {
    "across-regions-with-a-buffer": BUFFER,
    "global": {
        "model": {"id": "anthropic.claude-haiku-4-5-20251001-v1:0"},
        "bedrock": {"inference_profile": "global", "service_tier": "default"},
    },
    "model-units": {"bedrock": {"inference_profile": "none", "provisioned_throughput": {"model_units": 1}}, **BUFFER},
}


@pytest.mark.parametrize("name", CAPABILITIES)
def test_awss_validator_finds_nothing(tmp_path: Path, name: str) -> None:
    """Every capability, in an environment with network, key, topic and tags."""
    environment = ENVIRONMENT.model_copy(
        update={"network": NETWORK, "kms_key_arn": KEY_ARN, "tags": {"team": "a"}, "alarm_emails": ("a@example.com",)}
    )
    stack = synthesize(bedrock_profile(tmp_path, CAPABILITIES[name]), environment)
    assert findings(stack.template, tmp_path / "template.json") == []


@pytest.mark.parametrize("name", CAPABILITIES)
def test_every_alarm_leads_to_a_section_of_the_runbook(tmp_path: Path, name: str) -> None:
    """The description's link names a heading that exists."""
    stack = template(tmp_path, CAPABILITIES[name])
    headings = set(re.findall(r"^## ([a-z-]+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE))
    alarms = [*stack.all(ALARM).values(), *stack.all("AWS::CloudWatch::CompositeAlarm").values()]
    sections = {body["Properties"]["AlarmDescription"].rpartition("#")[2] for body in alarms}
    assert {"throttled", "server-errors", "latency"} <= sections <= headings
