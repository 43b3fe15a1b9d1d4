"""Bedrock's control plane and Service Quotas, as boto3 speaks to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cloud_clients import signed_headers

from loadproof.localcloud.bedrock.control import BedrockApi
from loadproof.localcloud.bedrock.store import BedrockStore
from loadproof.localcloud.clock import StillClock
from loadproof.localcloud.local import LocalCloud
from loadproof.localcloud.wire import AwsError, Caller

LLAMA = "meta.llama3-1-8b-instruct-v1:0"
CALLER = Caller("123456789012", "us-east-1", "")
Aws = Callable[[str], Any]


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as caught:
        call()
    return str(caught.value.response["Error"]["Code"])


def test_an_application_profile_from_making_to_deleting(aws: Aws, cloud: LocalCloud) -> None:
    """It copies a cross-region profile's regions, carries tags, is invoked by its ARN, and is gone when deleted."""
    bedrock = aws("bedrock")
    source = f"arn:aws:bedrock:{cloud.region}:{cloud.account}:inference-profile/us.{LLAMA}"
    arn = bedrock.create_inference_profile(
        inferenceProfileName="team-chat", modelSource={"copyFrom": source}, tags=[{"key": "team", "value": "a"}]
    )["inferenceProfileArn"]
    shown = bedrock.get_inference_profile(inferenceProfileIdentifier=arn)
    assert shown["type"] == "APPLICATION" and shown["status"] == "ACTIVE"
    assert {model["modelArn"].split(":")[3] for model in shown["models"]} >= {"us-east-1", "us-east-2", "us-west-2"}
    bedrock.tag_resource(resourceARN=arn, tags=[{"key": "cost", "value": "b"}])
    bedrock.untag_resource(resourceARN=arn, tagKeys=["team"])
    assert bedrock.list_tags_for_resource(resourceARN=arn)["tags"] == [{"key": "cost", "value": "b"}]
    message = {"role": "user", "content": [{"text": "hi"}]}
    runtime = aws("bedrock-runtime")
    answer = runtime.converse(modelId=arn, messages=[message], inferenceConfig={"maxTokens": 2})
    assert answer["usage"]["outputTokens"] == 2
    listed = bedrock.list_inference_profiles(typeEquals="APPLICATION")["inferenceProfileSummaries"]
    assert arn in [one["inferenceProfileArn"] for one in listed]
    bedrock.delete_inference_profile(inferenceProfileIdentifier=arn)
    assert code_of(lambda: bedrock.get_inference_profile(inferenceProfileIdentifier=arn)) == "ResourceNotFoundException"
    gone = code_of(lambda: runtime.converse(modelId=arn, messages=[message]))
    assert gone == "ResourceNotFoundException"


def test_a_profiles_name_is_taken_once(aws: Aws) -> None:
    """ConflictException, as on AWS."""
    bedrock = aws("bedrock")
    source = {"copyFrom": f"arn:aws:bedrock:us-east-1::foundation-model/{LLAMA}"}
    bedrock.create_inference_profile(inferenceProfileName="taken", modelSource=source)
    again = code_of(lambda: bedrock.create_inference_profile(inferenceProfileName="taken", modelSource=source))
    assert again == "ConflictException"


@pytest.mark.parametrize("source", ["foundation-model/nobody.knows", f"inference-profile/eu.{LLAMA}"])
def test_a_source_that_is_not_there(aws: Aws, cloud: LocalCloud, source: str) -> None:
    """An unknown model, and a prefix that the model or the region does not have."""
    account = "" if source.startswith("foundation") else cloud.account
    arn = f"arn:aws:bedrock:us-east-1:{account}:{source}"
    made = code_of(
        lambda: aws("bedrock").create_inference_profile(inferenceProfileName="no", modelSource={"copyFrom": arn})
    )
    assert made == "ResourceNotFoundException"


def test_the_models_own_constraints_are_checked(aws: Aws, cloud: LocalCloud) -> None:
    """A name that AWS's model does not allow is refused by the service too, not only by boto3."""
    import urllib.request

    body = b'{"inferenceProfileName": "a/b", "modelSource": {"copyFrom": "x"}}'
    headers = signed_headers(cloud, "bedrock", "POST", "/inference-profiles", body)
    request = urllib.request.Request(f"{cloud.endpoint_url}/inference-profiles", body, headers, method="POST")
    with pytest.raises(urllib.request.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code == 400
    assert refused.value.headers["x-amzn-ErrorType"] == "ValidationException"
    assert b"inferenceProfileName" in refused.value.read()


def test_provisioned_throughput_comes_into_service(aws: Aws) -> None:
    """Creating, not ready for requests, InService, and deleted when nothing is committed."""
    bedrock, runtime = aws("bedrock"), aws("bedrock-runtime")
    arn = bedrock.create_provisioned_model_throughput(
        provisionedModelName="units", modelId="amazon.nova-lite-v1:0:24k", modelUnits=2
    )["provisionedModelArn"]
    end_s = time.monotonic() + 60
    while bedrock.get_provisioned_model_throughput(provisionedModelId=arn)["status"] != "InService":
        assert time.monotonic() < end_s
        time.sleep(0.02)
    message = {"role": "user", "content": [{"text": "hi"}]}
    answer = runtime.converse(modelId=arn, messages=[message], inferenceConfig={"maxTokens": 2})
    assert answer["usage"]["outputTokens"] == 2
    bedrock.delete_provisioned_model_throughput(provisionedModelId="units")
    gone = code_of(lambda: bedrock.get_provisioned_model_throughput(provisionedModelId=arn))
    assert gone == "ResourceNotFoundException"


def test_a_commitment_keeps_throughput_from_being_deleted() -> None:
    """For a month it is refused with the day it ends; after that it is allowed."""
    clock = StillClock(0.0)
    api = BedrockApi(BedrockStore(now_s=clock.now_s), clock)
    asked = {"provisionedModelName": "units", "modelId": LLAMA, "modelUnits": 1, "commitmentDuration": "OneMonth"}
    arn = api.CreateProvisionedModelThroughput(CALLER, asked)["provisionedModelArn"]
    assert api.GetProvisionedModelThroughput(CALLER, {"provisionedModelId": arn})["status"] == "Creating"
    clock.advance(60)
    with pytest.raises(AwsError, match="before its commitment ends at 1970-01-31T00:00:00Z"):
        api.DeleteProvisionedModelThroughput(CALLER, {"provisionedModelId": arn})
    clock.advance(30 * 86400)
    api.DeleteProvisionedModelThroughput(CALLER, {"provisionedModelId": arn})


def test_system_profiles_and_models_are_listed(aws: Aws) -> None:
    """`us.` profiles in us-east-1, no `eu.` ones; a model says how it may be invoked."""
    bedrock = aws("bedrock")
    ids = {one["inferenceProfileId"] for one in bedrock.list_inference_profiles()["inferenceProfileSummaries"]}
    assert f"us.{LLAMA}" in ids
    assert not any(one.startswith("eu.") for one in ids)
    details = bedrock.get_foundation_model(modelIdentifier="anthropic.claude-haiku-4-5-20251001-v1:0")["modelDetails"]
    assert details["inferenceTypesSupported"] == ["INFERENCE_PROFILE"]
    assert LLAMA in [one["modelId"] for one in bedrock.list_foundation_models()["modelSummaries"]]


def test_quotas_are_found_by_name_and_changed_by_code(aws: Aws) -> None:
    """A value that is asked for holds at once; other services' quotas are moto's."""
    quotas = aws("service-quotas")
    name = "On-demand model inference requests per minute for Amazon Nova Pro"
    pages = quotas.get_paginator("list_service_quotas").paginate(ServiceCode="bedrock")
    found = next(one for page in pages for one in page["Quotas"] if one["QuotaName"] == name)
    asked = {"ServiceCode": "bedrock", "QuotaCode": found["QuotaCode"]}
    quotas.request_service_quota_increase(**asked, DesiredValue=7)
    assert quotas.get_service_quota(**asked)["Quota"]["Value"] == 7
    assert quotas.list_aws_default_service_quotas(ServiceCode="vpc")["Quotas"]


def test_what_is_not_ours_is_motos(aws: Aws) -> None:
    """Operations of Bedrock's control plane beside these go on to moto."""
    assert aws("bedrock").list_custom_models()["modelSummaries"] == []


def test_a_value_that_was_asked_for_leaves_the_default_as_it_was(aws: Aws) -> None:
    """AWS's defaults are a list of their own."""
    quotas = aws("service-quotas")
    name = "Cross-region model inference requests per minute for Amazon Nova Pro"

    def listed(operation: str) -> dict[str, Any]:
        pages = quotas.get_paginator(operation).paginate(ServiceCode="bedrock")
        found: dict[str, Any] = next(one for page in pages for one in page["Quotas"] if one["QuotaName"] == name)
        return found

    code = listed("list_service_quotas")["QuotaCode"]
    quotas.request_service_quota_increase(ServiceCode="bedrock", QuotaCode=code, DesiredValue=999)
    values = listed("list_service_quotas")["Value"], listed("list_aws_default_service_quotas")["Value"]
    assert values == (999, 200)
