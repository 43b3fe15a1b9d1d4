"""Payloads of Bedrock's Converse and ConverseStream; botocore's own serializer and parser are the oracle."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from hypothesis import given
from hypothesis import strategies as st
from invocation_fakes import BEDROCK, bedrock_frame, botocore_events, chunkings, converse_frames

from loadproof.errors import InputError
from loadproof.invocation.codecs import ChatMessage, Completion, GenerationRequest, TokenChunk, codec_for
from loadproof.invocation.faults import FrameError, InBandError, InvocationFault, PayloadError, TruncatedStreamError

CODEC = codec_for("converse")
CUTS = st.lists(st.integers(0, 100_000), max_size=20)
TEXTS = st.lists(st.sampled_from(["a", " ü", "日本", "🚀", "\r\n", '"}', ""]), max_size=8)
PIXEL = b64encode(b"not really a picture").decode()


def _stream(*pieces: bytes) -> tuple[list[TokenChunk], Completion]:
    decoder = CODEC.stream_decoder()
    chunks = [chunk for piece in pieces for chunk in decoder.feed(piece)]
    return chunks, decoder.finish()


# Requests


def test_a_request_is_what_botocore_would_send() -> None:
    """History, text, picture, lengths, temperature and tier: the body is the same JSON."""
    codec = codec_for("converse", service_tier="flex")
    request = GenerationRequest(
        "And this?",
        16,
        temperature=0.5,
        history=(ChatMessage("user", "Hi"), ChatMessage("assistant", "Hello")),
        images=(f"data:image/png;base64,{PIXEL}", f"data:image/jpg;base64,{PIXEL}"),
    )
    picture = b64decode(PIXEL)
    parameters = {
        "modelId": "m",
        "messages": [
            {"role": "user", "content": [{"text": "Hi"}]},
            {"role": "assistant", "content": [{"text": "Hello"}]},
            {
                "role": "user",
                "content": [
                    {"text": "And this?"},
                    {"image": {"format": "png", "source": {"bytes": picture}}},
                    {"image": {"format": "jpeg", "source": {"bytes": picture}}},
                ],
            },
        ],
        "inferenceConfig": {"maxTokens": 16, "temperature": 0.5},
        "serviceTier": {"type": "flex"},
    }
    expected = create_serializer("rest-json").serialize_to_request(parameters, BEDROCK.operation_model("Converse"))
    assert orjson.loads(codec.encode(request)) == orjson.loads(expected["body"])


def test_the_systems_words_have_their_own_place() -> None:
    """Converse takes the user's and the assistant's turns only; anything else among them is refused by AWS."""
    history = (ChatMessage("system", "Be brief"), ChatMessage("user", "Hi"), ChatMessage("assistant", "Hello"))
    body = orjson.loads(codec_for("converse").encode(GenerationRequest("And?", 16, history=history)))
    assert body["system"] == [{"text": "Be brief"}]
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def test_a_plain_request_has_no_more_than_it_needs() -> None:
    """No tier and no temperature but those asked for."""
    assert orjson.loads(CODEC.encode(GenerationRequest("Hi", 4))) == {
        "messages": [{"role": "user", "content": [{"text": "Hi"}]}],
        "inferenceConfig": {"maxTokens": 4},
    }


@pytest.mark.parametrize("uri", ["https://example.com/a.png", "data:image/tiff;base64,AAAA", "data:image/png;base64,"])
def test_a_picture_bedrock_cannot_take_is_bad_input(uri: str) -> None:
    """It fetches no URLs and knows four formats."""
    with pytest.raises(InputError, match="png, jpeg, gif or webp"):
        CODEC.encode(GenerationRequest("Hi", 4, images=(uri,)))


def test_an_unknown_tier_names_the_known_ones() -> None:
    """Before anything is sent."""
    with pytest.raises(InputError, match="service tier `gold`: expected default, priority, flex, reserved"):
        codec_for("converse", service_tier="gold")


# Streams


@given(TEXTS, CUTS)
def test_any_chunking_gives_what_botocore_reads(texts: list[str], cuts: list[int]) -> None:
    """The same texts, stop reason and counts as botocore's parser has of the same bytes, wherever they are cut."""
    raw = b"".join(converse_frames(texts))
    chunks, completion = _stream(*chunkings(raw, cuts))
    events = botocore_events("ConverseStream", "stream", raw)
    deltas = [event["contentBlockDelta"]["delta"]["text"] for event in events if "contentBlockDelta" in event]
    (stop,) = [event["messageStop"]["stopReason"] for event in events if "messageStop" in event]
    (usage,) = [event["metadata"]["usage"] for event in events if "metadata" in event]
    assert deltas == texts
    assert chunks == [TokenChunk(text, 1) for text in deltas if text]
    expected = Completion(len("".join(deltas)), stop, usage["outputTokens"], usage["inputTokens"], "server")
    assert completion == expected


def test_the_metadata_counts_what_deltas_carry() -> None:
    """Two deltas of five tokens: two arrivals, five tokens by the server's word."""
    chunks, completion = _stream(*converse_frames(["one two", " three"], output_tokens=5))
    assert ([chunk.tokens for chunk in chunks], completion.output_tokens) == ([1, 1], 5)


def test_the_prompt_is_what_the_cache_had_too() -> None:
    """`inputTokens` counts what was new to the prompt cache: 3 + 40 read + 5 written."""
    usage = {"inputTokens": 3, "outputTokens": 1, "totalTokens": 49}
    cached = usage | {"cacheReadInputTokens": 40, "cacheWriteInputTokens": 5}
    frames = converse_frames(["a"])[:-1]
    frames.append(bedrock_frame("metadata", {"usage": cached, "metrics": {"latencyMs": 1}}))
    assert _stream(*frames)[1].input_tokens == 48


def test_reasoning_and_tool_calls_are_generated_text() -> None:
    """A reasoning delta, a tool's name and the pieces of its input carry tokens; a signature and a citation none."""
    deltas = [
        {"reasoningContent": {"text": "hm"}},
        {"reasoningContent": {"signature": "xyz"}},
        {"toolUse": {"input": '{"a":'}},
        {"citation": {"title": "t"}},
    ]
    frames = [
        bedrock_frame("messageStart", {"role": "assistant"}),
        bedrock_frame("contentBlockStart", {"start": {"toolUse": {"toolUseId": "1", "name": "f"}}}),
        *(bedrock_frame("contentBlockDelta", {"delta": delta, "contentBlockIndex": 0}) for delta in deltas),
        *converse_frames([], "tool_use", output_tokens=9)[1:],
    ]
    chunks, completion = _stream(*frames)
    assert chunks == [("f", 1, ""), ("hm", 1, "hm"), ('{"a":', 1, "")]
    assert (completion.text_length, completion.finish_reason) == (8, "tool_use")


def test_every_truncation_is_an_error() -> None:
    """Cut at any byte, also after messageStop and before the metadata, no stream passes for complete."""
    raw = b"".join(converse_frames(["a", "é"]))
    for cut in range(len(raw)):
        with pytest.raises(TruncatedStreamError):
            _stream(raw[:cut])
    assert _stream(raw)[1].output_tokens == 2


def test_every_flipped_bit_is_an_error() -> None:
    """One bit anywhere: a checksum tells, as one typed error."""
    raw = b"".join(converse_frames(["a"]))
    for bit in range(len(raw) * 8):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((FrameError, TruncatedStreamError)):
            _stream(bytes(damaged))


def test_unknown_events_are_no_damage() -> None:
    """AWS adds events; a client skips those it does not know, whatever they hold."""
    first, *others = converse_frames(["a"])
    strange = bedrock_frame("sparkle", {"start": 5})
    assert _stream(first, strange, *others)[1] == _stream(first, *others)[1]


@pytest.mark.parametrize("missing", ["messageStop", "metadata"])
def test_an_end_without_one_of_its_marks_is_truncated(missing: str) -> None:
    """The frames are whole and the stream ends in order, but the model never said so."""
    frames = converse_frames(["a"])
    del frames[-2 if missing == "messageStop" else -1]
    with pytest.raises(TruncatedStreamError, match=f"after 1 tokens without {missing}"):
        _stream(*frames)


def test_a_message_without_a_stop_reason_is_truncated() -> None:
    """An empty messageStop marks no end."""
    frames = converse_frames(["a"])
    frames[-2] = bedrock_frame("messageStop", {"stopReason": None})
    with pytest.raises(TruncatedStreamError):
        _stream(*frames)


@pytest.mark.parametrize("reason", ["malformed_model_output", "malformed_tool_use"])
def test_a_malformed_answer_is_no_answer(reason: str) -> None:
    """The model itself says that what it wrote is of no use."""
    with pytest.raises(InBandError) as caught:
        _stream(*converse_frames(["a"], reason))
    assert caught.value.code == reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["delta", "start", "text", "toolUse", "input", "name", "reasoningContent", "stopReason",
                         "usage", "outputTokens", "inputTokens", "output", "message", "content"]),
        inner,
        max_size=4,
    ),
    max_leaves=10,
)  # fmt: skip


@given(st.sampled_from(["contentBlockStart", "contentBlockDelta", "messageStop", "metadata"]), JSON)
def test_wrong_types_anywhere_give_typed_errors_only(name: str, value: object) -> None:
    """Valid JSON of a wrong shape, streamed or whole, is a typed fault or an answer, never a TypeError."""
    event = value if isinstance(value, dict) else {"delta": value, "start": value, "usage": value, "stopReason": value}
    reads: list[Callable[[], object]] = [
        lambda: _stream(bedrock_frame(name, event), *converse_frames(["a"])),
        lambda: CODEC.decode_unary(orjson.dumps(value)),
    ]
    for read in reads:
        try:
            read()
        except InvocationFault:
            continue


# Whole answers


def _whole(content: list[dict[str, Any]], **more: object) -> bytes:
    message = {"role": "assistant", "content": content}
    usage = {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}
    answer = {"output": {"message": message}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 5}}
    return orjson.dumps(answer | more)


def test_a_whole_answer_is_what_botocore_reads() -> None:
    """Two blocks of text: their length, the reason and the counts as botocore's parser has them."""
    body = _whole([{"text": "Hel"}, {"text": "lo ü"}])
    operation = BEDROCK.operation_model("Converse")
    parsed = create_parser("rest-json").parse({"body": body, "headers": {}, "status_code": 200}, operation.output_shape)
    text = "".join(block["text"] for block in parsed["output"]["message"]["content"])
    usage = parsed["usage"]
    expected = Completion(len(text), parsed["stopReason"], usage["outputTokens"], usage["inputTokens"], "server")
    assert CODEC.decode_unary(body) == expected


def test_a_whole_tool_call_is_text_too() -> None:
    """Its name and its input as JSON: `f` and `{"a":1}` are 8 characters; reasoning counts."""
    reasoning = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
    call = {"toolUse": {"toolUseId": "1", "name": "f", "input": {"a": 1}}}
    whole = CODEC.decode_unary(_whole([reasoning, call]))
    assert (whole.text_length, whole.thought, whole.text) == (10, "hm", 'f{"a":1}')


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", PayloadError),
        (b"[]", PayloadError),
        (b'{"message":"no"}', PayloadError),
        (_whole([{"text": 5}]), PayloadError),
        (_whole([{"text": "a"}], usage={}), PayloadError),
        (_whole([{"text": "a"}], stopReason=None), TruncatedStreamError),
        (_whole([{"text": "a"}], stopReason="malformed_model_output"), InBandError),
    ],
)
def test_whole_answers_that_are_none(body: bytes, fault: type[Exception]) -> None:
    """Empty, of another shape, without counts, without an end, or useless by the model's own word."""
    with pytest.raises(fault):
        CODEC.decode_unary(body)
