"""Payloads of TGI, LMI and OpenAI servers: requests, streams however cut, whole answers, errors in disguise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
from typing import get_args

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from invocation_fakes import chat_event, chunkings, sse, token_event, token_events

from loadproof.errors import InputError
from loadproof.invocation.codecs import Codec, Completion, GenerationRequest, TokenChunk, codec_for
from loadproof.invocation.faults import InBandError, InvocationFault, PayloadError, TruncatedStreamError
from loadproof.invocation.sse import ServerSentEvents
from loadproof.wire.payloads import PayloadName

CUTS = st.lists(st.integers(0, 100_000), max_size=20)
# Text that breaks naive readers: multi-byte, line ends and framing inside JSON strings, the SSE line separators.
TEXTS = st.lists(
    st.sampled_from(["a", " ü", "日本", "🚀", "\r\n", "data: ", "[DONE]", "\u2028", '"}', ""]), min_size=1, max_size=8
)
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
ODD_EVENTS = st.sampled_from(
    [
        b'{"token":{"text":"a"}}',
        b'{"token":{"text":null}}',
        b'{"token":{"text":1}}',
        b'{"token":"a"}',
        b'{"token":{"text":"a"},"error":"full"}',
        b'{"token":{"text":"a"},"details":{"finish_reason":"length"}}',
        b'{"token":{"text":"a"},"generated_text":"a"}',
        b'{"choices":[{"delta":{"content":"a"}}]}',
        b'{"choices":[{"delta":{"content":"a","reasoning":"b"}}]}',
        b'{"choices":[{"delta":{"content":""},"message":{"content":"c"}}]}',
        b'{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}',
        b'{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":3}}',
        b'{"choices":[{"text":"a"},{"text":"b"}]}',
        b'{"choices":[{"text":"a"}]}',
        b'{"choices":[{"delta":{},"text":"a"}]}',
        b'{"choices":[{"delta":{"content":3}}]}',
        b'{"object":"error","message":"full"}',
        b"[DONE]",
        b"[]",
        b"words",
        b"",
    ]
)
USAGE = {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}


def _stream(codec: Codec, *pieces: bytes) -> tuple[list[TokenChunk], Completion]:
    decoder = codec.stream_decoder()
    chunks = [chunk for piece in pieces for chunk in decoder.feed(piece)]
    return chunks, decoder.finish()


def _stream_with_short_cut(codec: Codec, *pieces: bytes) -> tuple[list[TokenChunk], Completion]:
    """The same, all pieces tried by `usual_texts` first, and those after one that was unusual again."""
    decoder = codec.stream_decoder()
    chunks: list[TokenChunk] = []
    at = 0
    while at < len(pieces):
        texts, of = decoder.usual_texts(pieces, at)
        chunks += [TokenChunk(text, 1) for text in texts] if of else decoder.feed(pieces[at])
        at = (of[-1] if of else at) + 1
    return chunks, decoder.finish()


# Requests


def test_tgi_request() -> None:
    """The documented shape, greedy and seeded."""
    request = GenerationRequest("Hi", 16, temperature=0.0, seed=0)
    assert orjson.loads(codec_for("tgi").encode(request)) == {
        "inputs": "Hi",
        "parameters": {
            "max_new_tokens": 16,
            "details": True,
            "decoder_input_details": False,
            "do_sample": False,
            "seed": 0,
        },
        "stream": True,
    }


def test_lmi_request() -> None:
    """LMI's own name for going on past the end, and a temperature that samples."""
    request = GenerationRequest("Hi", 16, stream=False, temperature=0.5, ignore_eos=True)
    assert orjson.loads(codec_for("lmi").encode(request)) == {
        "inputs": "Hi",
        "parameters": {
            "max_new_tokens": 16,
            "details": True,
            "do_sample": True,
            "temperature": 0.5,
            "ignore_eos_token": True,
        },
        "stream": False,
    }


def test_openai_requests() -> None:
    """Usage is asked for in streams only; vLLM's extension is sent only when wanted."""
    request = GenerationRequest("Hi", 16, ignore_eos=True)
    assert orjson.loads(codec_for("openai", model="m").encode(request)) == {
        "model": "m",
        "prompt": "Hi",
        "max_tokens": 16,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    assert orjson.loads(codec_for("openai-chat").encode(GenerationRequest("Hi", 16, stream=False))) == {
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 16,
        "stream": False,
    }


def test_a_prompt_no_json_can_carry_is_bad_input() -> None:
    """A lone surrogate is refused before anything is sent."""
    with pytest.raises(InputError, match="invalid characters"):
        codec_for("tgi").encode(GenerationRequest("\ud800", 1))


def test_an_unknown_protocol_names_the_known_ones() -> None:
    """The message lists what is allowed: every name that there is."""
    *others, last = get_args(PayloadName)
    with pytest.raises(InputError, match=f"use {', '.join(others)} or {last}$"):
        codec_for("grpc")


# Streams


@given(TEXTS, CUTS, LINE_ENDS)
def test_tgi_any_chunking_gives_the_same_tokens(texts: list[str], cuts: list[int], line_end: bytes) -> None:
    """Lines, CRLFs and characters may fall between reads; each event is one token."""
    events = token_events(texts)
    raw = b": ping" + line_end + b"".join(b"data:" + event + line_end + line_end for event in events)
    chunks, completion = _stream(codec_for("tgi"), *chunkings(raw, cuts))
    assert chunks == [TokenChunk(text, 1) for text in texts]
    assert completion == Completion(len("".join(texts)), "length", len(texts), 7, "server")


@given(TEXTS, CUTS, LINE_ENDS)
def test_lmi_any_chunking_gives_the_same_tokens(texts: list[str], cuts: list[int], line_end: bytes) -> None:
    """JSON lines, the last one with or without its line end."""
    raw = line_end.join(token_events(texts))
    chunks, completion = _stream(codec_for("lmi"), *chunkings(raw + line_end, cuts))
    assert chunks == [TokenChunk(text, 1) for text in texts]
    assert (completion.output_tokens, completion.token_source) == (len(texts), "server")
    assert _stream(codec_for("lmi"), *chunkings(raw, cuts))[1] == completion


@given(TEXTS, CUTS, LINE_ENDS)
def test_openai_any_chunking_gives_the_same_tokens(texts: list[str], cuts: list[int], line_end: bytes) -> None:
    """Role first, text, finish, usage, [DONE]; events without text are no tokens."""
    events = [chat_event({"role": "assistant", "content": ""}), *(chat_event({"content": text}) for text in texts)]
    events += [chat_event({}, "stop"), chat_event(usage=USAGE), b"[DONE]"]
    raw = b"".join(b"data: " + event + line_end + line_end for event in events)
    chunks, completion = _stream(codec_for("openai-chat"), *chunkings(raw, cuts))
    assert chunks == [TokenChunk(text, 1) for text in texts if text]
    assert completion == Completion(len("".join(texts)), "stop", 9, 5, "server")


@given(TEXTS, LINE_ENDS, st.lists(st.integers(1, 3), min_size=1), st.sampled_from(["tgi", "lmi", "openai-chat"]))
def test_the_short_cut_gives_the_same_tokens(
    texts: list[str], line_end: bytes, together: list[int], protocol: str
) -> None:
    """Pieces of one, two or three events each, with every kind of line end."""
    events = token_events(texts)
    if protocol == "openai-chat":
        events = [*(chat_event({"content": text}) for text in texts), chat_event({}, "stop"), b"[DONE]"]
    framed = [event + line_end if protocol == "lmi" else b"data: " + event + 2 * line_end for event in events]
    pieces, sizes = [], cycle(together)
    while framed:
        size = next(sizes)
        pieces.append(b"".join(framed[:size]))
        del framed[:size]
    assert _stream_with_short_cut(codec_for(protocol), *pieces) == _stream(codec_for(protocol), *pieces)


@given(st.lists(ODD_EVENTS, max_size=6), st.sampled_from(["tgi", "lmi", "openai", "openai-chat"]))
def test_the_short_cut_takes_nothing_that_the_general_way_refuses(events: list[bytes], protocol: str) -> None:
    """Errors in disguise, events without text, of wrong types or with several tokens: same tokens, same fault."""
    pieces = [event + b"\n" if protocol == "lmi" else b"data:" + event + b"\n\n" for event in events]

    def told(stream: Callable[..., tuple[list[TokenChunk], Completion]]) -> object:
        try:
            return stream(codec_for(protocol), *pieces)
        except InvocationFault as fault:
            return type(fault), str(fault)

    assert told(_stream_with_short_cut) == told(_stream)


@pytest.mark.parametrize(
    ("protocol", "raw"),
    [
        ("tgi", sse(*token_events(["a", "é", "c"]))),
        ("lmi", b"\n".join(token_events(["a", "é", "c"])) + b"\n"),
        (
            "openai-chat",
            sse(chat_event({"content": "a"}), chat_event({"content": "é"}), chat_event({}, "stop"), b"[DONE]"),
        ),
    ],
)
def test_every_truncation_is_an_error(protocol: str, raw: bytes) -> None:
    """Cut at any byte before the end marker is whole, no stream passes for complete."""
    whole = len(raw.rstrip())
    for cut in range(whole):
        with pytest.raises(TruncatedStreamError):
            _stream(codec_for(protocol), raw[:cut])
    assert _stream(codec_for(protocol), raw[:whole])[1].finish_reason in ("length", "stop")


@given(st.sampled_from(["tgi", "lmi", "openai"]), st.binary(max_size=200), CUTS)
def test_arbitrary_bytes_give_typed_errors_only(protocol: str, data: bytes, cuts: list[int]) -> None:
    """Noise, bare or behind `data:`, never leaks another exception and never completes."""
    for raw in (data, b"data: " + data + b"\n\n", b'data: {"token":' + data + b"}\n\n"):
        with pytest.raises(InvocationFault):
            _stream(codec_for(protocol), *chunkings(raw, cuts))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["token", "text", "details", "choices", "delta", "usage", "error", "finish_reason", "content",
                         "generated_text", "generated_tokens", "completion_tokens", "tool_calls", "function"]),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=400)
@given(st.sampled_from(["tgi", "lmi", "openai"]), st.lists(JSON, max_size=3))
def test_wrong_types_anywhere_give_typed_errors_only(protocol: str, values: list[object]) -> None:
    """Valid JSON of a wrong shape, streamed or whole, is a payload fault or an answer, never a TypeError."""
    codec = codec_for(protocol)
    with suppress(InvocationFault):
        _stream(codec, sse(*(orjson.dumps(value) for value in values)))
    for value in values:
        with suppress(InvocationFault):
            codec.decode_unary(orjson.dumps(value))


@given(st.lists(st.sampled_from([b"data: a", b"data:b", b"data:", b": note", b"", b"{}", b"data:c\r"]), max_size=8))
def test_an_event_a_read_is_the_same_as_all_in_one(lines: list[bytes]) -> None:
    """The short cut for a read that is one event sees what the general way sees, whatever came before it."""
    reads = [line + b"\n\n" if index % 2 else line + b"\n" for index, line in enumerate(lines)]
    at_once, one_by_one = ServerSentEvents(), ServerSentEvents()
    expected = [*at_once.feed(b"\xef\xbb\xbf" + b"".join(reads)), *at_once.flush()]
    found = [event for read in [b"\xef\xbb\xbf", *reads] for event in one_by_one.feed(read)]
    found += one_by_one.flush()
    assert (found, one_by_one.framed) == (expected, at_once.framed)


def test_multi_line_data_and_foreign_fields() -> None:
    """Several data lines form one event; a byte order mark, ids, events and retries are skipped."""
    event = token_events(["x"])[0]
    head, tail = event.split(b'"generated_text"', 1)
    raw = b"\xef\xbb\xbfid: 1\nevent: message\nretry: 5\ndata: " + head + b'\ndata: "generated_text"' + tail + b"\n\n"
    assert _stream(codec_for("tgi"), raw)[1].output_tokens == 1


def test_lmi_counts_one_token_too_many_and_the_events_decide() -> None:
    """Three events and a report of four is LMI's quirk: three, by our count. Three or six stand as reported."""
    texts = ["a", "b", "c"]
    by_report = {
        reported: _stream(codec_for("lmi"), b"\n".join(token_events(texts, reported)))[1] for reported in (3, 4, 6)
    }
    assert {k: (c.output_tokens, c.token_source) for k, c in by_report.items()} == {
        3: (3, "server"),
        4: (3, "chunks"),
        6: (6, "server"),
    }
    tgi = _stream(codec_for("tgi"), sse(*token_events(texts, 4)))[1]
    assert (tgi.output_tokens, tgi.token_source) == (4, "server")


def test_without_details_the_events_are_counted() -> None:
    """`generated_text` alone also marks the end."""
    raw = sse(token_event("a", 1), token_event("b", 2, whole="ab"))
    _, completion = _stream(codec_for("tgi"), raw)
    assert completion == Completion(2, "", 2, None, "chunks")


def test_reasoning_and_tool_calls_are_generated_tokens() -> None:
    """The first reasoning token is the first token, under either name; so are a tool call's pieces."""
    call = {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]}
    deltas = [{"reasoning_content": "hm"}, {"reasoning": "so"}, {"content": "yes"}, call]
    raw = sse(*(chat_event(delta) for delta in deltas), chat_event({}, "tool_calls"), b"[DONE]")
    chunks, completion = _stream(codec_for("openai-chat"), raw)
    assert chunks == [("hm", 1, "hm"), ("so", 1, "so"), ("yes", 1, ""), ("f{}", 1, "")]
    assert (completion.output_tokens, completion.token_source) == (4, "chunks")


def test_several_tokens_in_a_chunk_are_counted_by_usage() -> None:
    """Running usage gives each chunk its tokens; closing usage gives the total."""
    running = [
        chat_event({"content": "one two"}, usage={"completion_tokens": 2}),
        chat_event({"content": " three"}, usage={"completion_tokens": 5}),
        chat_event({}, "length", usage={"completion_tokens": 5, "prompt_tokens": 3}),
    ]
    chunks, completion = _stream(codec_for("openai-chat"), sse(*running, b"[DONE]"))
    assert [chunk.tokens for chunk in chunks] == [2, 3]
    assert (completion.output_tokens, completion.input_tokens) == (5, 3)
    closing = sse(chat_event({"content": "one two"}), chat_event({}, "length"), chat_event(usage=USAGE), b"[DONE]")
    chunks, completion = _stream(codec_for("openai-chat"), closing)
    assert ([chunk.tokens for chunk in chunks], completion.output_tokens) == ([1], 9)


def test_completions_stream() -> None:
    """`text_completion` events carry text in the choice itself."""
    events = [
        {"choices": [{"text": "a", "finish_reason": None}]},
        {"choices": [{"text": "b", "finish_reason": "length"}]},
    ]
    chunks, completion = _stream(codec_for("openai"), sse(*map(orjson.dumps, events), b"[DONE]"))
    assert ([chunk.text for chunk in chunks], completion.finish_reason) == (["a", "b"], "length")


@pytest.mark.parametrize(
    ("protocol", "event", "code", "message"),
    [
        ("tgi", {"error": "Model is overloaded", "error_type": "overloaded"}, "overloaded", "Model is overloaded"),
        ("lmi", {"error": "boom", "code": 424}, "424", "boom"),
        ("openai", {"error": {"message": "gone", "type": "server_error", "code": 500}}, "server_error", "gone"),
        ("openai", {"object": "error", "message": "bad", "type": "BadRequestError"}, "BadRequestError", "bad"),
        ("openai", {"choices": [{"text": "", "finish_reason": "abort"}]}, "abort", "finish reason `abort`"),
        ("lmi", {"details": {"finish_reason": "error"}, "token": {"text": ""}}, "error", "finish reason `error`"),
    ],
)
def test_an_error_in_the_stream_is_no_answer(protocol: str, event: object, code: str, message: str) -> None:
    """Each server's error object after a 200, also where [DONE] follows, also as a bare line of JSON."""
    raw = orjson.dumps(event)
    first = sse(token_event("a", 1)) if protocol == "tgi" else b""
    line = raw + b"\n" if protocol == "lmi" else sse(raw, b"[DONE]")
    for stream in (first + line, first + raw):
        with pytest.raises(InBandError, match=message) as caught:
            _stream(codec_for(protocol), stream)
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"upstream is gone", "upstream is gone"),
        (b'{"message": "upstream is gone", "code": 502}', "upstream is gone"),
        (b'{"error": {"message": "upstream is gone"}}', "upstream is gone"),
        (b'"upstream is gone"', "upstream is gone"),
    ],
)
def test_an_event_of_type_error_keeps_the_servers_words(data: bytes, message: str) -> None:
    """Whatever its data is made of, and however it is cut."""
    stream = sse(chat_event({"content": "a"})) + b"event: error\ndata: " + data + b"\n\n"
    for cut in (len(stream), 3, 40):
        decoder = codec_for("openai-chat").stream_decoder()
        with pytest.raises(InBandError, match=f"^{message}$"):
            for first in range(0, len(stream), cut):
                list(decoder.feed(stream[first : first + cut]))


def test_plain_words_in_place_of_json_are_the_message() -> None:
    """A damaged event is not quoted, since it may hold a user's text; words are what the server has to say."""
    with pytest.raises(PayloadError, match="not JSON but `server is busy`"):
        _stream(codec_for("openai-chat"), b"data: server is busy\n\n")
    with pytest.raises(PayloadError, match="11 bytes that are not JSON") as caught:
        _stream(codec_for("openai-chat"), b'data: {"a": "text\n\n')
    assert "text" not in str(caught.value)


def test_events_without_done_are_truncated() -> None:
    """After the finish reason the counts may still be missing; LMI's bare JSON lines end without [DONE]."""
    events = (chat_event({"content": "a"}), chat_event({}, "stop"))
    with pytest.raises(TruncatedStreamError, match=r"after 1 tokens without \[DONE\]"):
        _stream(codec_for("openai-chat"), sse(*events))
    assert _stream(codec_for("openai-chat"), b"\n".join(events) + b"\n")[1].finish_reason == "stop"


def test_null_finish_reason_is_truncated() -> None:
    """[DONE] alone does not make an answer complete."""
    with pytest.raises(TruncatedStreamError, match="1 tokens without a finish_reason"):
        _stream(codec_for("openai-chat"), sse(chat_event({"content": "a"}), b"[DONE]"))


# Whole answers


def test_tgi_unary_bare_and_in_a_list() -> None:
    """`/generate` answers with the object, `/invocations` with a list of one; input tokens are not given."""
    answer = {"generated_text": "abc", "details": {"finish_reason": "eos_token", "generated_tokens": 3, "seed": None}}
    for body in (answer, [answer]):
        completion = codec_for("tgi").decode_unary(orjson.dumps(body))
        assert completion == Completion(3, "eos_token", 3, None, "server")


def test_lmi_unary_has_no_finish_reason() -> None:
    """LMI puts vLLM's stop_reason there, which is null for a normal end; the answer is whole nevertheless."""
    body = orjson.dumps({"generated_text": "abc", "details": {"finish_reason": None, "generated_tokens": 3}})
    assert codec_for("lmi").decode_unary(body) == Completion(3, "", 3, None, "server")


def test_openai_unary() -> None:
    """Chat and completions bodies; usage counts."""
    chat = {"choices": [{"message": {"content": "hey", "reasoning_content": "hm"}, "finish_reason": "stop"}]}
    body = orjson.dumps({**chat, "usage": USAGE})
    assert codec_for("openai-chat").decode_unary(body) == Completion(5, "stop", 9, 5, "server")
    plain = orjson.dumps({"choices": [{"text": "hey", "finish_reason": "length"}]})
    assert codec_for("openai").decode_unary(plain) == Completion(3, "length", None, None, "none")


@pytest.mark.parametrize(
    ("protocol", "body", "fault"),
    [
        ("tgi", b"", PayloadError),
        ("tgi", b"[]", PayloadError),
        ("tgi", b'{"outputs": "a"}', PayloadError),
        ("tgi", b'{"error": "x", "error_type": "generation"}', InBandError),
        ("lmi", b'{"generated_text": 5}', PayloadError),
        ("openai", b'{"choices": []}', PayloadError),
        ("openai", b'{"choices": [{"text": "a", "finish_reason": null}]}', TruncatedStreamError),
        ("openai", b'{"choices": [{"finish_reason": ""}], "usage": {"completion_tokens": -1}}', PayloadError),
        ("openai", b'{"error": {"message": "x"}}', InBandError),
    ],
)  # fmt: skip
def test_whole_answers_that_are_none(protocol: str, body: bytes, fault: type[Exception]) -> None:
    """Empty, of another shape, or an error with status 200."""
    with pytest.raises(fault):
        codec_for(protocol).decode_unary(body)
