"""Streams to answers: three protocols, any chunking, and nothing without an end marker."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.constructs.buffer.runtime.consumer.answer import AnswerBuilder, choices_asked
from loadproof.constructs.buffer.runtime.consumer.failures import Kind, ModelFailure
from loadproof.wire.payloads import ContainerProtocol, payload_of


def sse(*events: dict[str, Any], done: bool = False) -> bytes:
    lines = "".join(f"data:{json.dumps(event, ensure_ascii=False)}\n\n" for event in events)
    return (lines + ("data: [DONE]\n\n" if done else "")).encode()


TGI = sse(
    {"index": 1, "token": {"id": 1, "text": "Grüß", "special": False}, "generated_text": None, "details": None},
    {"index": 2, "token": {"id": 2, "text": " dich 🌍", "special": False}, "generated_text": None},
    {
        "index": 3,
        "token": {"id": 3, "text": "</s>", "special": True},
        "generated_text": "Grüß dich 🌍",
        "details": {"finish_reason": "eos_token", "generated_tokens": 3, "input_length": 7},
    },
)
LMI = b"\n".join(
    json.dumps(line).encode()
    for line in (
        {"index": 0, "token": {"id": 1, "text": "Hello", "log_prob": -0.1}},
        {
            "index": 1,
            "token": {"id": 2, "text": " you", "log_prob": -0.2},
            "generated_text": "Hello you",
            "details": {"finish_reason": "length", "generated_tokens": 2},
        },
    )
)
OPENAI = sse(
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"content": "Hel"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
    done=True,
)
ANSWERS = {
    "tgi": (
        TGI,
        {
            "choices": [{"index": 0, "text": "Grüß dich 🌍", "finish_reason": "eos_token"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3},
        },
    ),
    "lmi": (
        LMI,
        {
            "choices": [{"index": 0, "text": "Hello you", "finish_reason": "length"}],
            "usage": {"prompt_tokens": None, "completion_tokens": 2},
        },
    ),
    "openai": (
        OPENAI,
        {
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Hello", "reasoning_content": "hm"},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2},
        },
    ),
}


def assembled(*parts: bytes) -> dict[str, Any]:
    builder = AnswerBuilder()
    for part in parts:
        builder.feed(part)
    return builder.finish()


@pytest.mark.parametrize("protocol", ANSWERS)
def test_answer_of_each_protocol(protocol: str) -> None:
    """Text, finish reason and the server's own token counts."""
    stream, expected = ANSWERS[protocol]
    assert assembled(stream) == expected


@given(st.sampled_from(sorted(ANSWERS)), st.lists(st.integers(min_value=0, max_value=900), max_size=12))
def test_chunking_does_not_matter(protocol: str, cuts: list[int]) -> None:
    """SageMaker cuts where it likes, also inside a character."""
    stream, expected = ANSWERS[protocol]
    edges = [0, *sorted(cuts), len(stream)]
    assert assembled(*(stream[start:end] for start, end in itertools.pairwise(edges))) == expected


@pytest.mark.parametrize("protocol", ANSWERS)
def test_every_truncation_before_the_end_marker_is_an_error(protocol: str) -> None:
    """A stream cut anywhere before its last event that ends a choice is never an answer."""
    stream, expected = ANSWERS[protocol]
    marker = {"tgi": b'"generated_text": "Gr', "lmi": b'"generated_text"', "openai": b'"finish_reason": "stop"'}
    for cut in range(stream.index(marker[protocol])):
        with pytest.raises(ModelFailure):
            assembled(stream[:cut])
    assert assembled(stream) == expected


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_any_line_end_ends_an_event(end: bytes) -> None:
    """WHATWG's three; the consumer knew no bare CR, and read such a stream as one line that is not JSON."""
    stream, expected = ANSWERS["openai"]
    assert assembled(stream.replace(b"\n", end)) == expected


def test_an_endless_line_does_not_fill_the_memory() -> None:
    """Sixteen parts of 1 MiB are still a line, the next one ends it: ten messages share 512 MiB."""
    builder = AnswerBuilder()
    for _ in range(16):
        builder.feed(b"x" * 1024 * 1024)
    with pytest.raises(ModelFailure, match="a line of the stream is longer than 16777216 bytes"):
        builder.feed(b"x")


def test_done_without_a_finish_reason_is_an_error() -> None:
    """Some servers end a broken generation with [DONE] and finish_reason null."""
    with pytest.raises(ModelFailure, match="end marker"):
        assembled(sse({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]}, done=True))


def test_errors_inside_the_stream_are_errors() -> None:
    """A failed generation comes as an event: its type decides what to do, and its text goes nowhere."""
    with pytest.raises(ModelFailure, match=r"^the model reported an error in its stream$") as caught:
        assembled(sse({"error": "Model is overloaded: secret prompt", "error_type": "overloaded"}))
    assert caught.value.kind is Kind.SLOW_DOWN


@pytest.mark.parametrize("line", [b"data: {oops\n", b"data: [1]\n", b"<html>\n"])
def test_nonsense_is_an_error(line: bytes) -> None:
    """Lines that are neither JSON objects nor the protocol's own marks."""
    with pytest.raises(ModelFailure, match="the stream holds something that is not"):
        assembled(line)


def test_tool_calls_grow_by_their_index() -> None:
    """Arguments come in pieces, names once, several calls side by side."""
    first = {"index": 0, "id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"ci'}}
    second = {"index": 1, "id": "b", "type": "function", "function": {"name": "time", "arguments": "{}"}}
    rest = {"index": 0, "function": {"arguments": 'ty": "Ulm"}'}}
    events = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in (first, second, rest)]
    answer = assembled(sse(*events, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}))
    assert answer["choices"][0]["message"]["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Ulm"}'}},
        {"id": "b", "type": "function", "function": {"name": "time", "arguments": "{}"}},
    ]


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_an_error(data: bytes) -> None:
    """Nothing but ModelFailure leaves the builder for bytes that are not an answer."""
    with pytest.raises(ModelFailure):
        assembled(data)


shapes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "tool_calls", "index", "token", "text", "generated_text", "details", "usage"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["choices", "token", "generated_text", "details"]), shapes), max_size=4)
)
def test_any_shape_of_events_is_an_answer_or_an_error(events: list[dict[str, Any]]) -> None:
    """A server that speaks another dialect leads to ModelFailure, never to a crash."""
    with contextlib.suppress(ModelFailure):
        assert assembled(sse(*events))["choices"]


@pytest.mark.parametrize(
    ("protocol", "request_", "expected"),
    [
        (
            "tgi",
            {"inputs": "hi", "parameters": {"max_new_tokens": 5}},
            {
                "inputs": "hi",
                "parameters": {"return_full_text": False, "max_new_tokens": 5, "details": True},
                "stream": True,
            },
        ),
        (
            "tgi",
            {"inputs": "hi", "parameters": {"return_full_text": True}},
            {"inputs": "hi", "parameters": {"return_full_text": True, "details": True}, "stream": True},
        ),
        (
            "lmi",
            {"inputs": "hi"},
            {"inputs": "hi", "parameters": {"details": True}, "stream": True},
        ),
        (
            "lmi",
            {"messages": []},
            {"messages": [], "stream_options": {"include_usage": True}, "stream": True},
        ),
        (
            "openai",
            {"prompt": "hi", "stream": False},
            {"prompt": "hi", "stream_options": {"include_usage": True}, "stream": True},
        ),
    ],
)
def test_requests_ask_for_a_stream_with_counts(
    protocol: ContainerProtocol, request_: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Every protocol has its own way to ask for token counts; the sender's own parameters stay."""
    assert payload_of(protocol).streaming(request_) == expected


@pytest.mark.parametrize(
    ("request_", "choices"),
    [
        ({"prompt": "a"}, 1),
        ({"prompt": ["a", "b"]}, 2),
        ({"prompt": ["a", "b"], "n": 3}, 6),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": [[1, 2], [3]]}, 2),
        ({"prompt": []}, 1),
        ({"messages": [], "n": 2}, 2),
        ({"prompt": "a", "n": 0}, 1),
        ({"prompt": "a", "n": None}, 1),
    ],
)
def test_as_many_choices_as_were_asked_for_must_end(request_: dict[str, Any], choices: int) -> None:
    """`n` of each prompt of a batch; one list of token ids is one prompt; an empty stream is never an answer."""
    assert choices_asked(request_) == choices
