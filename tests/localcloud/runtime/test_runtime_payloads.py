"""What boto3 receives through the runtime from the twin of each model server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_harness import LocalRuntime, container, local_runtime


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalRuntime]:
    with local_runtime() as running:
        for family in ("tgi", "lmi", "vllm", "sglang"):
            running.directory.add_component(f"e-{family}", f"e-{family}-main", container(family))
        yield running


def stream(cloud: LocalRuntime, family: str, body: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    response = cloud.client().invoke_endpoint_with_response_stream(
        EndpointName=f"e-{family}",
        InferenceComponentName=f"e-{family}-main",
        ContentType="application/json",
        Body=json.dumps(body),
    )
    return b"".join(event["PayloadPart"]["Bytes"] for event in response["Body"]), response


def unary(cloud: LocalRuntime, family: str, body: dict[str, Any]) -> Any:
    response = cloud.client().invoke_endpoint(
        EndpointName=f"e-{family}",
        InferenceComponentName=f"e-{family}-main",
        ContentType="application/json",
        Body=json.dumps(body),
    )
    return json.loads(response["Body"].read())


def test_tgi_streams_one_sse_event_a_token_and_ends_with_details(cloud: LocalRuntime) -> None:
    """Seven tokens asked for are seven events; the last carries text and details with prompt and answer counts."""
    body = {"inputs": "one two three", "parameters": {"max_new_tokens": 7, "details": True}, "stream": True}
    raw, response = stream(cloud, "tgi", body)
    assert raw.endswith(b"\n\n")
    events = [json.loads(part.removeprefix(b"data:")) for part in raw.strip().split(b"\n\n")]
    assert [event["index"] for event in events] == [1, 2, 3, 4, 5, 6, 7]
    assert all(event["generated_text"] is None for event in events[:-1])
    text = "".join(event["token"]["text"] for event in events)
    assert events[-1]["generated_text"] == "one two three" + text
    assert events[-1]["details"] == {
        "finish_reason": "length",
        "generated_tokens": 7,
        "seed": None,
        "input_length": 3,
    }
    assert response["ContentType"] == "text/event-stream"
    assert response["InvokedProductionVariant"] == "AllTraffic"


def test_tgi_unary_answers_a_list_with_the_prompt_in_front(cloud: LocalRuntime) -> None:
    """TGI on SageMaker wraps the answer in a list and repeats the prompt unless return_full_text is false."""
    body = {"inputs": "a b", "parameters": {"max_new_tokens": 4, "details": True}}
    (full,) = unary(cloud, "tgi", body)
    (bare,) = unary(cloud, "tgi", {**body, "parameters": {"max_new_tokens": 4, "return_full_text": False}})
    assert full["generated_text"] == "a b" + bare["generated_text"]
    assert full["details"]["generated_tokens"] == 4 == len(full["details"]["tokens"])
    assert "details" not in bare


def test_tgi_generates_a_hundred_tokens_when_none_are_asked_for(cloud: LocalRuntime) -> None:
    """TGI's default of max_new_tokens is 100."""
    (answer,) = unary(cloud, "tgi", {"inputs": "x", "parameters": {"details": True, "return_full_text": False}})
    assert answer["details"]["generated_tokens"] == 100
    assert len(answer["generated_text"].split()) == 100


def test_lmi_streams_json_lines_and_counts_one_too_many(cloud: LocalRuntime) -> None:
    """LMI's jsonlines have no `data:` and no end mark but generated_text; its details count completion_tokens + 1."""
    body = {"inputs": "one two", "parameters": {"max_new_tokens": 5, "details": True}, "stream": True}
    raw, response = stream(cloud, "lmi", body)
    lines = [json.loads(line) for line in raw.splitlines()]
    assert len(lines) == 5
    assert [line["generated_text"] is None for line in lines] == [True, True, True, True, False]
    assert lines[-1]["generated_text"] == "".join(line["token"]["text"] for line in lines)
    assert lines[-1]["details"]["generated_tokens"] == 6
    assert lines[-1]["details"]["input_length"] == 2
    assert response["ContentType"] == "application/jsonlines"


def test_lmi_generates_thirty_tokens_when_none_are_asked_for(cloud: LocalRuntime) -> None:
    """LMI's default of max_new_tokens is 30, and the prompt is not repeated."""
    assert len(unary(cloud, "lmi", {"inputs": "x"})["generated_text"].split()) == 30


def test_lmi_chat_streams_json_lines_without_done(cloud: LocalRuntime) -> None:
    """`messages` asks LMI for OpenAI chat chunks, one JSON document a line."""
    raw, _ = stream(
        cloud,
        "lmi",
        {
            "messages": [{"role": "user", "content": "hello there"}],
            "max_tokens": 3,
            "stream": True,
            "stream_options": {"include_usage": True},
        },
    )
    lines = [json.loads(line) for line in raw.splitlines()]
    assert lines[-1]["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    assert b"[DONE]" not in raw


def test_sglang_takes_chat_messages_alone(cloud: LocalRuntime) -> None:
    """Its /invocations is the chat route (sglang/srt/entrypoints/http_server.py); vLLM's takes a prompt too."""
    body = {"prompt": "one two", "max_tokens": 2}
    assert unary(cloud, "vllm", body)["usage"]["completion_tokens"] == 2
    with pytest.raises(cloud.client().exceptions.ModelError) as refused:
        unary(cloud, "sglang", body)
    assert refused.value.response["OriginalStatusCode"] == 400
    assert "messages" in refused.value.response["OriginalMessage"]


@pytest.mark.parametrize("family", ["vllm", "sglang", "tgi"])
def test_chat_streams_role_then_tokens_then_usage_then_done(cloud: LocalRuntime, family: str) -> None:
    """An OpenAI chat stream: a role-only chunk, a chunk a token, usage if asked for, `[DONE]`."""
    raw, response = stream(
        cloud,
        family,
        {
            "messages": [{"role": "user", "content": [{"type": "text", "text": "tell me more"}]}],
            "max_tokens": 4,
            "stream": True,
            "stream_options": {"include_usage": True},
        },
    )
    events = [part.removeprefix(b"data: ") for part in raw.strip().split(b"\n\n")]
    assert events[-1] == b"[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    words = [chunk["choices"][0]["delta"]["content"] for chunk in chunks[1:-1]]
    assert len(words) == 4 and all(words)
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert response["ContentType"].startswith("text/event-stream")


def test_completions_carry_usage_in_unary_answers(cloud: LocalRuntime) -> None:
    """vLLM's completions answer 16 tokens by default and count prompt and answer."""
    answer = unary(cloud, "vllm", {"prompt": "one two three four"})
    assert answer["usage"] == {"prompt_tokens": 4, "completion_tokens": 16, "total_tokens": 20}
    assert len(answer["choices"][0]["text"].split()) == 16
    assert answer["object"] == "text_completion"


def test_the_same_prompt_gets_the_same_text(cloud: LocalRuntime) -> None:
    """The twin's text depends on prompt and seed alone."""
    body = {"inputs": "same", "parameters": {"max_new_tokens": 20}}
    first, again = unary(cloud, "tgi", body), unary(cloud, "tgi", body)
    other = unary(cloud, "tgi", {"inputs": "same", "parameters": {"max_new_tokens": 20, "seed": 7}})
    assert first == again
    assert first != other


def test_payload_parts_do_not_align_to_lines(cloud: LocalRuntime) -> None:
    """As on AWS, parts end anywhere; joined they are the container's bytes."""
    response = cloud.client().invoke_endpoint_with_response_stream(
        EndpointName="e-tgi",
        InferenceComponentName="e-tgi-main",
        Body=json.dumps({"inputs": "x", "parameters": {"max_new_tokens": 40}, "stream": True}),
    )
    parts = [event["PayloadPart"]["Bytes"] for event in response["Body"]]
    assert any(not part.endswith(b"\n\n") for part in parts)
    assert b"".join(parts).count(b"data:") == 40
