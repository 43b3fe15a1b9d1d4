"""What a model is asked and what becomes of its stream: Bedrock's Converse, limits in time, and what cannot fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ParamValidationError
from consumer_memory import VirtualClock

from loadproof.constructs.buffer.runtime.consumer.context import too_long
from loadproof.constructs.buffer.runtime.consumer.failures import Kind, ModelFailure, failure_of
from loadproof.constructs.buffer.runtime.consumer.generation import CutOffError
from loadproof.constructs.buffer.runtime.consumer.model import ConverseModel, SageMakerModel

REQUEST = {"messages": [{"role": "user", "content": [{"text": "hi"}]}], "inferenceConfig": {"maxTokens": 5}}
EVENTS: list[dict[str, Any]] = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "hm"}}}},
    {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"text": "Hello"}}},
    {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"text": " you"}}},
    {"contentBlockStop": {"contentBlockIndex": 1}},
    {"contentBlockStart": {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": "time"}}}},
    {"contentBlockDelta": {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"at"'}}}},
    {"contentBlockDelta": {"contentBlockIndex": 2, "delta": {"toolUse": {"input": ": 1}"}}}},
    {"messageStop": {"stopReason": "tool_use"}},
    {"metadata": {"usage": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}, "metrics": {"latencyMs": 5}}},
]


class Bedrock:
    """boto3's runtime as far as it is used; `asked` holds the arguments."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self._events = events
        self.asked: dict[str, Any] = {}

    def converse_stream(self, **arguments: Any) -> dict[str, Any]:
        self.asked = arguments
        return {"stream": iter(self._events)}


def test_converse_is_asked_with_the_profiles_model_and_answers_as_chat() -> None:
    """Text, reasoning, a tool's arguments in pieces, the stop reason and the token counts."""
    bedrock = Bedrock(*EVENTS)
    answer = ConverseModel(bedrock, VirtualClock(), model_id="arn:profile").answer(REQUEST, deadline_s=2e9)
    assert bedrock.asked == REQUEST | {"modelId": "arn:profile"}
    tool = {"id": "t1", "type": "function", "function": {"name": "time", "arguments": '{"at": 1}'}}
    message = {"role": "assistant", "content": "Hello you", "reasoning_content": "hm", "tool_calls": [tool]}
    assert answer == {
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_use"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }


def test_tokens_of_the_prompt_cache_are_tokens_of_the_prompt() -> None:
    """7 new ones, 100 out of the cache and 20 into it: 127, as the invoker counts them; the consumer said 7."""
    usage = {"inputTokens": 7, "outputTokens": 3, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 20}
    bedrock = Bedrock(*EVENTS[:-1], {"metadata": {"usage": usage}})
    answer = ConverseModel(bedrock, VirtualClock(), model_id="m").answer(REQUEST, deadline_s=2e9)
    assert answer["usage"] == {"prompt_tokens": 127, "completion_tokens": 3}


@pytest.mark.parametrize("cut", range(8))
def test_converse_without_its_message_stop_is_no_answer(cut: int) -> None:
    """A stream that merely ends was cut."""
    with pytest.raises(ModelFailure, match="end marker") as caught:
        ConverseModel(Bedrock(*EVENTS[:cut]), VirtualClock(), model_id="m").answer(REQUEST, deadline_s=2e9)
    assert caught.value.kind is Kind.TRY_AGAIN


@pytest.mark.parametrize("reason", ["malformed_model_output", "malformed_tool_use"])
def test_a_malformed_answer_is_no_answer(reason: str) -> None:
    """Bedrock ends such a stream in order; it is an accident all the same."""
    events = [EVENTS[0], EVENTS[2], {"messageStop": {"stopReason": reason}}]
    with pytest.raises(ModelFailure, match=reason) as caught:
        ConverseModel(Bedrock(*events), VirtualClock(), model_id="m").answer(REQUEST, deadline_s=2e9)
    assert caught.value.kind is Kind.TRY_AGAIN


def test_images_travel_as_base64_and_arrive_as_bytes() -> None:
    """JSON has no bytes; Converse takes nothing else. What is not base64 is poison."""
    bedrock = Bedrock(*EVENTS)
    model = ConverseModel(bedrock, VirtualClock(), model_id="m")
    content = [{"image": {"format": "png", "source": {"bytes": "iVBORw=="}}}]
    model.answer({"messages": [{"role": "user", "content": content}]}, deadline_s=2e9)
    assert bedrock.asked["messages"][0]["content"][0]["image"]["source"]["bytes"] == b"\x89PNG"
    content[0]["image"]["source"] = {"bytes": "not base64!"}  # type: ignore[index]
    with pytest.raises(ModelFailure) as caught:
        model.answer({"messages": [{"role": "user", "content": content}]}, deadline_s=2e9)
    assert caught.value.kind is Kind.POISON


def test_a_payload_that_converse_does_not_take_is_poison() -> None:
    """botocore itself refuses it before anything is sent."""
    keys = {"aws_access_key_id": "example", "aws_secret_access_key": "example"}
    nowhere = "http://127.0.0.1:1"
    client = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=nowhere, **keys)
    with pytest.raises(ParamValidationError) as caught:
        ConverseModel(client, VirtualClock(), model_id="m").answer({"inputs": "hi"}, deadline_s=2e9)
    assert failure_of(caught.value).kind is Kind.POISON


class Streaming:
    """A SageMaker runtime whose stream takes 10 s an event."""

    def __init__(self, clock: VirtualClock, before_each: Any = lambda: None) -> None:
        self._clock = clock
        self._before_each = before_each
        self.closed = False

    def invoke_endpoint_with_response_stream(self, **_: Any) -> dict[str, Any]:
        return {"Body": self}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for _ in range(10):
            self._before_each()
            self._clock.time_s += 10
            yield {"PayloadPart": {"Bytes": b": a comment\n"}}

    def close(self) -> None:
        self.closed = True


def sagemaker(streaming: Streaming, clock: VirtualClock) -> SageMakerModel:
    return SageMakerModel(streaming, clock, endpoint="chat", component=None, protocol="tgi")


def test_a_stream_that_never_ends_is_ended_and_closed() -> None:
    """Not silent, but past its time: a timeout, and the connection is not read on."""
    clock = VirtualClock()
    streaming = Streaming(clock)
    with pytest.raises(ModelFailure, match="longer than the invocation timeout") as caught:
        sagemaker(streaming, clock).answer({"inputs": "hi"}, deadline_s=clock.now_s() + 25)
    assert (caught.value.kind, streaming.closed) == (Kind.TIMED_OUT, True)


def test_at_the_drains_end_a_stream_is_left() -> None:
    """Told to stop at once, it goes on for 25 s and no longer."""
    clock = VirtualClock()
    begun_s = clock.now_s()
    with pytest.raises(CutOffError):
        sagemaker(Streaming(clock, clock.stop), clock).answer({"inputs": "hi"}, deadline_s=2e9)
    assert clock.now_s() - begun_s == 30


@pytest.mark.parametrize(
    ("request_", "fits"),
    [
        ({"inputs": "one two three", "parameters": {"max_new_tokens": 7}}, True),
        ({"inputs": "one two three", "parameters": {"max_new_tokens": 8}}, False),
        ({"inputs": "a" * 1000, "parameters": {"max_new_tokens": 9}}, True),  # one word: nobody knows its tokens
        ({"inputs": "one two three", "parameters": {"max_new_tokens": 8, "truncate": 2}}, True),
        ({"prompt": "one two", "max_tokens": 11}, False),
        ({"messages": [{"role": "user", "content": "one two three"}], "max_completion_tokens": 8}, False),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "one " * 11}]}]}, False),
        (REQUEST, True),
        ({"messages": REQUEST["messages"], "inferenceConfig": {"maxTokens": 11}}, False),
        ({"inputs": ["one"] * 100}, True),
        ({"max_tokens": True, "prompt": 5}, True),
    ],
)
def test_what_cannot_fit_ten_tokens_is_refused(request_: dict[str, Any], fits: bool) -> None:
    """A word is a token at least; what is not certain is left to the model."""
    assert (too_long(request_, 10) is None) is fits
    assert too_long(request_, 0) is None


def test_the_refusal_gives_the_numbers() -> None:
    """Found and allowed, nothing of the prompt."""
    words = {"inputs": "one two three", "parameters": {"max_new_tokens": 4000}}
    expected = "a prompt of at least 3 tokens and 4,000 tokens asked for exceed the model's context of 2,048"
    assert too_long(words, 2048) == expected
