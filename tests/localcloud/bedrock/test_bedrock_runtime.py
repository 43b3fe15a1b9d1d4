"""boto3's own calls against the local cloud's Bedrock."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError

from loadproof.localcloud.bedrock.faults import FAULT_PARAMETER
from loadproof.localcloud.local import LocalCloud

LLAMA = "meta.llama3-1-8b-instruct-v1:0"
MESSAGES = [{"role": "user", "content": [{"text": "one two three"}]}]
Aws = Callable[[str], Any]


def refused(call: Callable[[], Any]) -> tuple[int, str, str]:
    with pytest.raises(ClientError) as caught:
        call()
    response = caught.value.response
    return (
        response["ResponseMetadata"]["HTTPStatusCode"],
        response["Error"]["Code"],
        response["Error"]["Message"],
    )


def asked(aws: Aws, model_id: str = LLAMA, **config: Any) -> dict[str, Any]:
    answer: dict[str, Any] = aws("bedrock-runtime").converse(
        modelId=model_id, messages=MESSAGES, inferenceConfig=config or {"maxTokens": 3}
    )
    return answer


@contextmanager
def quota(aws: Aws, name: str, value: float) -> Iterator[None]:
    """Another value for a while."""
    quotas = aws("service-quotas")
    pages = quotas.get_paginator("list_service_quotas").paginate(ServiceCode="bedrock")
    found = next(one for page in pages for one in page["Quotas"] if one["QuotaName"] == name)
    change = {"ServiceCode": "bedrock", "QuotaCode": found["QuotaCode"]}
    quotas.request_service_quota_increase(**change, DesiredValue=value)
    yield
    quotas.request_service_quota_increase(**change, DesiredValue=found["Value"])


@contextmanager
def fault(aws: Aws, **asked_for: Any) -> Iterator[None]:
    aws("ssm").put_parameter(Name=FAULT_PARAMETER, Value=json.dumps(asked_for), Type="String", Overwrite=True)
    yield
    aws("ssm").delete_parameter(Name=FAULT_PARAMETER)


def test_converse(aws: Aws) -> None:
    """3 words in and 2 of the system prompt, 4 tokens out, and how long it took."""
    answer = aws("bedrock-runtime").converse(
        modelId=LLAMA, system=[{"text": "be brief"}], messages=MESSAGES, inferenceConfig={"maxTokens": 4}
    )
    assert answer["usage"] == {"inputTokens": 5, "outputTokens": 4, "totalTokens": 9}
    assert answer["stopReason"] == "max_tokens"
    assert answer["metrics"]["latencyMs"] > 0
    assert len(answer["output"]["message"]["content"][0]["text"].split()) == 4


def test_a_stream_is_the_same_answer_in_events(aws: Aws) -> None:
    """messageStart, a delta a token, contentBlockStop, messageStop, metadata; together what Converse says."""
    whole = asked(aws, maxTokens=5)
    stream = aws("bedrock-runtime").converse_stream(modelId=LLAMA, messages=MESSAGES, inferenceConfig={"maxTokens": 5})[
        "stream"
    ]
    events = list(stream)
    names = [next(iter(event)) for event in events]
    assert names == ["messageStart", *["contentBlockDelta"] * 5, "contentBlockStop", "messageStop", "metadata"]
    text = "".join(event["contentBlockDelta"]["delta"]["text"] for event in events[1:6])
    assert text == whole["output"]["message"]["content"][0]["text"]
    assert events[-2]["messageStop"]["stopReason"] == "max_tokens"
    assert events[-1]["metadata"]["usage"] == whole["usage"]


def test_an_image_and_a_prompt_that_names_its_length(aws: Aws) -> None:
    """A model that sees takes a picture; "in 6 words" ends the turn before the limit."""
    picture = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\r\n\x1a\n"}}}
    content = [{"text": "describe it in 6 words"}, picture]
    answer = aws("bedrock-runtime").converse(
        modelId="amazon.nova-pro-v1:0",
        messages=[{"role": "user", "content": content}],
        inferenceConfig={"maxTokens": 50},
        serviceTier={"type": "priority"},
    )
    assert answer["stopReason"] == "end_turn"
    assert answer["usage"] == {"inputTokens": 1005, "outputTokens": 6, "totalTokens": 1011}
    assert answer["serviceTier"] == {"type": "priority"}


def test_invoke_model_and_its_stream(aws: Aws) -> None:
    """The provider's own body; counts in the headers and on the last chunk."""
    body = json.dumps({"prompt": "one two three", "max_gen_len": 4})
    runtime = aws("bedrock-runtime")
    answer = runtime.invoke_model(modelId=LLAMA, body=body)
    whole = json.loads(answer["body"].read())
    assert (whole["prompt_token_count"], whole["generation_token_count"], whole["stop_reason"]) == (3, 4, "length")
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    assert headers["x-amzn-bedrock-input-token-count"] == "3"
    assert headers["x-amzn-bedrock-output-token-count"] == "4"
    stream = runtime.invoke_model_with_response_stream(modelId=LLAMA, body=body)["body"]
    chunks = [json.loads(event["chunk"]["bytes"]) for event in stream]
    assert "".join(chunk["generation"] for chunk in chunks) == whole["generation"]
    assert chunks[-1]["amazon-bedrock-invocationMetrics"]["outputTokenCount"] == 4


def test_a_cross_region_profile_needs_its_geography(aws: Aws, cloud: LocalCloud) -> None:
    """`us.` answers in us-east-1 by id and by ARN, `eu.` does not."""
    assert asked(aws, f"us.{LLAMA}")["usage"]["outputTokens"] == 3
    arn = f"arn:aws:bedrock:{cloud.region}:{cloud.account}:inference-profile/us.{LLAMA}"
    assert asked(aws, arn)["usage"]["outputTokens"] == 3
    status, code, _ = refused(lambda: asked(aws, "eu.amazon.nova-lite-v1:0"))
    assert (status, code) == (400, "ValidationException")


@pytest.mark.parametrize(
    ("model_id", "said"),
    [
        ("nobody.knows-this", "The provided model identifier is invalid."),
        ("deepseek.v9-v1:0", "The provided model identifier is invalid."),
        ("us.meta.llama9-8b-instruct-v1:0", "The provided model identifier is invalid."),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", "with on-demand throughput isn’t supported"),
    ],
)
def test_ids_that_cannot_be_invoked(aws: Aws, model_id: str, said: str) -> None:
    """An unknown id, and a model that is only reached through a profile: 400, in Bedrock's words."""
    status, code, message = refused(lambda: asked(aws, model_id))
    assert (status, code) == (400, "ValidationException")
    assert said in message


def test_the_request_quota_throttles(aws: Aws) -> None:
    """With 2 a minute the third is 429, by boto3's own exception, and counts as throttled only."""
    model_id = "meta.llama3-8b-instruct-v1:0"
    before = [total(aws, name, model_id) for name in ("InvocationThrottles", "Invocations")]
    with quota(aws, "On-demand model inference requests per minute for Meta Llama 3 8B Instruct", 2):
        asked(aws, model_id)
        asked(aws, model_id)
        status, code, message = refused(lambda: asked(aws, model_id))
    assert (status, code) == (429, "ThrottlingException")
    assert message == "Too many requests, please wait before trying again."
    after = [total(aws, name, model_id) for name in ("InvocationThrottles", "Invocations")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 2]


def test_the_token_quota_counts_what_may_be_written(aws: Aws) -> None:
    """3 + 100 reserved of 120 leave 17: a second request with maxTokens 100 is refused, one with 5 is not."""
    model_id = "meta.llama3-1-70b-instruct-v1:0"
    prompt = [{"role": "user", "content": [{"text": "slowly in 90 words"}]}]
    runtime = aws("bedrock-runtime")
    with quota(aws, "On-demand model inference tokens per minute for Meta Llama 3.1 70B Instruct", 120):
        stream = runtime.converse_stream(modelId=model_id, messages=prompt, inferenceConfig={"maxTokens": 100})
        events = iter(stream["stream"])
        next(events)
        _, code, message = refused(lambda: asked(aws, model_id, maxTokens=100))
        assert (code, message) == ("ThrottlingException", "Too many tokens, please wait before trying again.")
        asked(aws, model_id, maxTokens=5)
        list(events)


@pytest.mark.parametrize(
    ("error", "status"),
    [("ServiceUnavailableException", 503), ("ModelNotReadyException", 429), ("ModelTimeoutException", 408)],
)
def test_a_fault_on_command(aws: Aws, error: str, status: int) -> None:
    """The SSM parameter decides what the model named there answers; others go on."""
    with fault(aws, error=error, model=LLAMA):
        assert refused(lambda: asked(aws))[:2] == (status, error)
        asked(aws, "amazon.nova-micro-v1:0")
    asked(aws)


def test_a_stream_breaks_midway(aws: Aws) -> None:
    """Half of the tokens, then an exception inside the stream, and no end marker."""
    with fault(aws, error="ModelErrorException", when="midway"):
        stream = aws("bedrock-runtime").converse_stream(
            modelId=LLAMA, messages=MESSAGES, inferenceConfig={"maxTokens": 6}
        )["stream"]
        seen: list[str] = []
        with pytest.raises(EventStreamError, match="told to break this stream"):
            seen.extend(next(iter(event)) for event in stream)
    assert seen == ["messageStart", *["contentBlockDelta"] * 3]


def test_metrics_by_model(aws: Aws) -> None:
    """Two answers of 3 tokens to 3 words: sums by ModelId, quota tokens 2 x 6; first tokens are of streams."""
    source = {"copyFrom": "arn:aws:bedrock:us-east-1::foundation-model/qwen.qwen3-32b-v1:0"}
    made = aws("bedrock").create_inference_profile(inferenceProfileName="measured", modelSource=source)
    arn = made["inferenceProfileArn"]
    model_id = arn.rpartition("/")[2]
    asked(aws, arn)
    list(
        aws("bedrock-runtime").converse_stream(modelId=arn, messages=MESSAGES, inferenceConfig={"maxTokens": 3})[
            "stream"
        ]
    )
    expected = {"Invocations": 2, "InputTokenCount": 6, "OutputTokenCount": 6, "EstimatedTPMQuotaUsage": 12}
    assert {name: total(aws, name, model_id) for name in expected} == expected
    assert total(aws, "TimeToFirstToken", model_id, "SampleCount") == 1
    assert total(aws, "InvocationLatency", model_id) > total(aws, "TimeToFirstToken", model_id) > 0


def total(aws: Aws, name: str, model_id: str, statistic: str = "Sum") -> float:
    """Of the last ten minutes."""
    now = datetime.now(UTC) + timedelta(seconds=time.time() % 1)
    found = aws("cloudwatch").get_metric_statistics(
        Namespace="AWS/Bedrock",
        MetricName=name,
        Dimensions=[{"Name": "ModelId", "Value": model_id}],
        StartTime=now - timedelta(minutes=10),
        EndTime=now + timedelta(minutes=1),
        Period=60,
        Statistics=[statistic],
    )
    return float(sum(point[statistic] for point in found["Datapoints"]))
