"""Models' own payloads behind Bedrock's InvokeModel: Llama's, Claude's, and which model takes which."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from invocation_fakes import bedrock_frame, botocore_events, chunkings, invoke_chunk

from loadproof.errors import InputError
from loadproof.invocation.bedrock import ChunkDecoder, native_codec
from loadproof.invocation.codecs import ChatMessage, Completion, GenerationRequest, TokenChunk, codec_for
from loadproof.invocation.faults import FrameError, InBandError, InvocationFault, PayloadError, TruncatedStreamError

CUTS = st.lists(st.integers(0, 100_000), max_size=20)
TEXTS = st.lists(st.sampled_from(["a", " ü", "日本", "🚀", "\r\n", '"}']), min_size=1, max_size=6)


def llama_events(texts: list[str]) -> list[dict[str, Any]]:
    """The prompt's 7 tokens come with the first event, the count runs, the last has the reason."""
    events: list[dict[str, Any]] = [
        {"generation": text, "prompt_token_count": None, "generation_token_count": number, "stop_reason": None}
        for number, text in enumerate(texts, start=1)
    ]
    events[0]["prompt_token_count"] = 7
    last = {"generation": "", "prompt_token_count": None, "generation_token_count": len(texts), "stop_reason": "length"}
    return [*events, last]


def claude_events(texts: list[str]) -> list[dict[str, Any]]:
    """As the Messages API streams them; 7 tokens of prompt, of which the cache had 4."""
    usage = {"input_tokens": 3, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0, "output_tokens": 1}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in texts
    ]
    return [
        {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": len(texts)}},
        {"type": "message_stop"},
    ]


def openai_events(texts: list[str]) -> list[dict[str, Any]]:
    """Chat completion chunks without `[DONE]`, as they come in Bedrock's chunks."""
    deltas = [{"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]} for text in texts]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    counts = {"inputTokenCount": 7, "outputTokenCount": len(texts), "invocationLatency": 5, "firstByteLatency": 1}
    return [*deltas, end | {"amazon-bedrock-invocationMetrics": counts}]


EVENTS = {"llama": llama_events, "claude": claude_events, "openai-chat": openai_events}
REASONS = {"llama": "length", "claude": "max_tokens", "openai-chat": "length"}


def _frames(protocol: str, texts: list[str]) -> bytes:
    return b"".join(map(invoke_chunk, EVENTS[protocol](texts)))


def _stream(protocol: str, *pieces: bytes) -> tuple[list[TokenChunk], Completion]:
    """Through the transport's unwrapper, as an invoker does it."""
    unwrapper, decoder = ChunkDecoder(), codec_for(protocol).stream_decoder()
    chunks = [chunk for piece in pieces for part in unwrapper.feed(piece) for chunk in decoder.feed(part)]
    unwrapper.finish()
    return chunks, decoder.finish()


# Requests


def test_llama_request() -> None:
    """The documented shape, and nothing that Llama does not know."""
    assert orjson.loads(codec_for("llama").encode(GenerationRequest("Hi", 16, temperature=0.5, seed=1))) == {
        "prompt": "Hi",
        "max_gen_len": 16,
        "temperature": 0.5,
    }


def test_claude_request() -> None:
    """Bedrock's version, history, and a picture beside the text."""
    request = GenerationRequest(
        "And this?",
        16,
        history=(ChatMessage("user", "Hi"), ChatMessage("assistant", "Hey")),
        images=("data:image/gif;base64,QQ==",),
    )
    picture = {"type": "base64", "media_type": "image/gif", "data": "QQ=="}
    assert orjson.loads(codec_for("claude").encode(request)) == {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 16,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hey"},
            {"role": "user", "content": [{"type": "text", "text": "And this?"}, {"type": "image", "source": picture}]},
        ],
    }


def test_llama_has_no_place_for_a_picture() -> None:
    """Leaving it out would measure something else."""
    with pytest.raises(InputError, match="use protocol converse"):
        codec_for("llama").encode(GenerationRequest("Hi", 4, images=("data:image/png;base64,QQ==",)))


@pytest.mark.parametrize(
    ("model_id", "protocol"),
    [
        ("meta.llama3-1-8b-instruct-v1:0", "llama"),
        ("us.meta.llama3-1-8b-instruct-v1:0", "llama"),
        ("anthropic.claude-3-haiku-20240307-v1:0", "claude"),
        ("global.anthropic.claude-sonnet-4-20250514-v1:0", "claude"),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-3-haiku-20240307-v1:0",
            "claude",
        ),
        ("arn:aws:bedrock:us-east-1::foundation-model/openai.gpt-oss-20b-1:0", "openai-chat"),
        ("openai.gpt-5.6", "openai-chat"),
    ],
)
def test_the_id_tells_the_payloads(model_id: str, protocol: str) -> None:
    """Base models, cross-region profiles and the ARNs that name one."""
    assert type(native_codec(model_id)) is type(codec_for(protocol))


@pytest.mark.parametrize(
    "model_id",
    [
        "amazon.nova-lite-v1:0",
        "mistral.mistral-7b-instruct-v0:2",
        "meta.sam-v1:0",
        "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abcdefghijkl",
    ],
)
def test_other_payloads_are_refused_and_converse_named(model_id: str) -> None:
    """A guess at a body would be a guess at what is measured."""
    with pytest.raises(InputError, match="use converse"):
        native_codec(model_id)


# Streams


@given(st.sampled_from(sorted(EVENTS)), TEXTS, CUTS)
def test_any_chunking_gives_the_same_tokens(protocol: str, texts: list[str], cuts: list[int]) -> None:
    """Frames cut anywhere: each text is one token, and the counts are the model's."""
    chunks, completion = _stream(protocol, *chunkings(_frames(protocol, texts), cuts))
    assert chunks == [TokenChunk(text, 1) for text in texts]
    assert completion == Completion(len("".join(texts)), REASONS[protocol], len(texts), 7, "server")


@given(st.sampled_from(sorted(EVENTS)), TEXTS, CUTS)
def test_chunks_are_what_botocore_reads(protocol: str, texts: list[str], cuts: list[int]) -> None:
    """The same bytes of the model's own, one event a line, as botocore's parser has of the same frames."""
    raw, decoder = _frames(protocol, texts), ChunkDecoder()
    parts = [part for piece in chunkings(raw, cuts) for part in decoder.feed(piece)]
    events = botocore_events("InvokeModelWithResponseStream", "body", raw)
    assert parts == [event["chunk"]["bytes"] + b"\n" for event in events]


@pytest.mark.parametrize("protocol", ["llama", "claude"])
def test_every_truncation_is_an_error(protocol: str) -> None:
    """Cut at any byte, no stream passes for complete."""
    raw = _frames(protocol, ["a", "é"])
    for cut in range(len(raw)):
        with pytest.raises(TruncatedStreamError):
            _stream(protocol, raw[:cut])
    assert _stream(protocol, raw)[1].output_tokens == 2


def test_every_flipped_bit_is_an_error() -> None:
    """One bit anywhere: a checksum tells, as one typed error."""
    raw = _frames("llama", ["a"])
    for bit in range(len(raw) * 8):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((FrameError, TruncatedStreamError)):
            _stream("llama", bytes(damaged))


def test_a_running_count_tells_how_many_tokens_an_event_carries() -> None:
    """Llama's count goes from 0 to 2 and to 5: two events, two and three tokens."""
    events = llama_events(["one two", " three"])
    events[0]["generation_token_count"], events[1]["generation_token_count"] = 2, 5
    events[2]["generation_token_count"] = 5
    chunks, completion = _stream("llama", *map(invoke_chunk, events))
    assert ([chunk.tokens for chunk in chunks], completion.output_tokens) == ([2, 3], 5)


def test_thinking_and_tool_calls_are_generated_text() -> None:
    """Claude's thinking, a tool's name and the pieces of its input each carry tokens; a signature none."""
    deltas = [
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "xyz"}},
        {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "1", "name": "f", "input": {}}},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
    ]
    start, *_, delta, stop = claude_events([])
    chunks, _completion = _stream("claude", *map(invoke_chunk, [start, *deltas, delta, stop]))
    assert chunks == [("hm", 1, "hm"), ("f", 1, ""), ('{"a":', 1, "")]


def test_an_error_among_the_events_is_no_answer() -> None:
    """Anthropic's error event after a 200, with its type as the code."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    with pytest.raises(InBandError, match="busy") as caught:
        _stream("claude", *map(invoke_chunk, [*claude_events(["a"])[:4], error]))
    assert caught.value.code == "overloaded_error"


@given(st.sampled_from(["llama", "claude"]), st.binary(max_size=100))
def test_arbitrary_bytes_give_typed_errors_only(protocol: str, data: bytes) -> None:
    """Noise in place of the model's lines never leaks another exception and never completes."""
    decoder = codec_for(protocol).stream_decoder()
    with pytest.raises(InvocationFault):
        list(decoder.feed(data))
        decoder.finish()


@pytest.mark.parametrize("content", ["!!!", "YQ", 5])
def test_a_chunk_that_is_no_base64_is_a_payload_error(content: object) -> None:
    """The frame is whole, what it holds is not."""
    with pytest.raises(PayloadError):
        list(ChunkDecoder().feed(bedrock_frame("chunk", {"bytes": content})))


# Whole answers


def test_whole_answers() -> None:
    """Llama's and Claude's bodies: length, reason, counts."""
    llama = {"generation": "abc", "prompt_token_count": 7, "generation_token_count": 3, "stop_reason": "stop"}
    assert codec_for("llama").decode_unary(orjson.dumps(llama)) == Completion(3, "stop", 3, 7, "server")
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}]
    usage = {"input_tokens": 7, "output_tokens": 3}
    claude = {"type": "message", "content": blocks, "stop_reason": "tool_use", "usage": usage}
    assert codec_for("claude").decode_unary(orjson.dumps(claude)) == Completion(10, "tool_use", 3, 7, "server")


@pytest.mark.parametrize("protocol", ["llama", "claude"])
@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", PayloadError),
        (b"[]", PayloadError),
        (b"{}", TruncatedStreamError),
        (b'{"stop_reason": null}', TruncatedStreamError),
        (b'{"stop_reason": 5}', PayloadError),
        (b'{"error": {"type": "x", "message": "no"}}', InBandError),
    ],
)
def test_whole_answers_that_are_none(protocol: str, body: bytes, fault: type[Exception]) -> None:
    """Empty, of another shape, without an end, or an error."""
    with pytest.raises(fault):
        codec_for(protocol).decode_unary(body)
