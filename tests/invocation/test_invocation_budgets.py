"""What a client takes of a server's bytes, and what it keeps: bounds that hold, by names that say which one."""

from __future__ import annotations

from base64 import b64encode

import pytest
from invocation_fakes import (
    END,
    STREAM_HEAD,
    answer,
    bedrock_frame,
    chat_event,
    chunked,
    converse_frames,
    played,
    sse,
    token_events,
)  # fmt: skip

from loadproof.invocation import OutcomeKind
from loadproof.invocation.bedrock import ChunkDecoder
from loadproof.invocation.budgets import (
    BYTES_A_TOKEN,
    EVENTS_A_TOKEN,
    MORE_BYTES,
    MORE_EVENTS,
    MOST_EVENT_BYTES,
    MOST_KEPT_BYTES,
    Allowance,
    Memory,
    parsed_json,
)  # fmt: skip
from loadproof.invocation.faults import BudgetFault

ASKED = 2  # tokens, by `played`


def streamed(*pieces: bytes) -> bytes:
    return STREAM_HEAD + chunked(*pieces) + END


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"data: x\n" * (MOST_EVENT_BYTES // 8), "EventTooLong"),
        (b"x" * (MOST_EVENT_BYTES + 1), "EventTooLong"),
        (b": ping\n" * ((MORE_BYTES + ASKED * BYTES_A_TOKEN) // 7 + 1), "AnswerTooLong"),
        (sse(*token_events(["a"] * 10)[:1] * (MORE_EVENTS + ASKED * EVENTS_A_TOKEN + 1)), "TooManyTokens"),
        (b"data: [" + b"{}," * 400_000 + b"0]\n\n", "TooManyValues"),
    ],
)
def test_each_budget_has_a_name(body: bytes, code: str) -> None:
    """An endless event, line, answer; more tokens than four for each one asked for; JSON of too many values."""
    (invocation,) = played([streamed(body)], "tgi")
    assert (invocation.outcome.kind, invocation.outcome.code) == (OutcomeKind.STREAM_ERROR, code)
    assert len(invocation.arrival_ns) <= MORE_EVENTS + ASKED * EVENTS_A_TOKEN + 1


def test_an_answer_within_its_budgets_is_ok() -> None:
    """As many events as are allowed, each with 10 KB beside its token."""
    texts = ["a"] * 200
    events = [event[:-1] + b', "top_tokens": "' + b"t" * 10_000 + b'"}' for event in token_events(texts)]
    (invocation,) = played([streamed(*map(sse, events))], "tgi")
    assert invocation.outcome.ok and len(invocation.arrival_ns) == 200


def test_an_error_keeps_its_status_however_long_its_body() -> None:
    """6 MB of words after a 503: unavailable, not an answer too long."""
    (invocation,) = played([answer(503, b"no " * 2_000_000)], "tgi")
    assert (invocation.outcome.kind, invocation.outcome.code) == (OutcomeKind.UNAVAILABLE, "HTTP 503")


def test_all_answers_share_one_memory() -> None:
    """24 MiB beyond the little each has for itself: what one gives back another may have."""
    memory = Memory()
    first, second = Allowance(64, memory), Allowance(64, memory)
    first.keep(20 * 1024 * 1024)
    with pytest.raises(BudgetFault, match="all answers under way"):
        second.keep(5 * 1024 * 1024)
    first.keep(0)
    second.keep(5 * 1024 * 1024)
    second.keep(0)
    assert memory.left_bytes == MOST_KEPT_BYTES


def test_a_code_and_a_message_are_trimmed() -> None:
    """5,000 letters each: 80 and 300 are kept, the last of them saying that there was more."""
    error = b'{"error": {"type": "' + b"t" * 5000 + b'", "message": "' + b"m" * 5000 + b'"}}'
    for raw in (streamed(sse(error)), answer(400, error), answer(500, b"{}", x_amzn_errortype="E" * 5000)):
        (invocation,) = played([raw], "openai")
        outcome = invocation.outcome
        assert len(outcome.code) == 80 and outcome.code.endswith("…") and len(outcome.message) <= 300


LATE = "late" * 10


@pytest.mark.parametrize(
    ("protocol", "events"),
    [
        ("openai-chat", [sse(chat_event({"content": "a"}), chat_event({}, "stop"), b"[DONE]"),
                         sse(chat_event({"content": LATE}), b"no JSON at all")]),
        ("tgi", [sse(*token_events(["a"])), sse(token_events(["a", LATE])[0])]),
        ("lmi", [token_events(["a"])[0] + b"\n", token_events([LATE, "b"])[0] + b"\n"]),
        ("converse", [b"".join(converse_frames(["a"])),
                      bedrock_frame("contentBlockDelta", {"delta": {"text": LATE}, "contentBlockIndex": 0})]),
    ],
)  # fmt: skip
def test_nothing_is_counted_after_the_end_marker(protocol: str, events: list[bytes]) -> None:
    """One token, the end, then more events: in a read of their own or with the rest, they are no arrivals."""
    raws = [STREAM_HEAD + chunked(b"".join(events)) + END, STREAM_HEAD + chunked(*events) + END]
    for invocation in played(raws, protocol):
        assert (invocation.outcome.ok, len(invocation.arrival_ns), invocation.text_length) == (True, 1, 1)


def test_tokens_before_an_error_in_the_same_read_are_counted() -> None:
    """Two tokens, then an event of type `error`, all in one piece."""
    tokens = sse(*token_events(["a", "b", "c"])[:2])
    (invocation,) = played([streamed(tokens + b'event: error\ndata: {"message": "gone"}\n\n')], "tgi")
    assert (invocation.outcome.kind, len(invocation.arrival_ns)) == (OutcomeKind.IN_BAND_ERROR, 2)


@pytest.mark.parametrize("text", ["é", "\x1b[2J", "a", "=a="])
def test_a_chunk_that_is_not_base64(text: str) -> None:
    """Other letters than ASCII's included: a fault with a name."""
    frames = bedrock_frame("chunk", {"bytes": text}) + bedrock_frame("chunk", {"bytes": b64encode(b"{}").decode()})
    (invocation,) = played([streamed(frames)], "llama", ChunkDecoder)
    assert (invocation.outcome.kind, invocation.outcome.code) == (OutcomeKind.STREAM_ERROR, "PayloadError")


def test_a_token_count_that_no_answer_has() -> None:
    """2^63 tokens: a fault, not a number that nothing can hold."""
    lines = b'{"generation": "a", "generation_token_count": 9223372036854775808, "stop_reason": "stop"}\n'
    (invocation,) = played([streamed(lines)], "llama")
    assert invocation.outcome.code == "PayloadError"


def test_json_with_many_values_is_not_parsed() -> None:
    """A long text of few values is no matter."""
    assert parsed_json(b'"' + b"x" * 1_000_000 + b'"') == "x" * 1_000_000
    with pytest.raises(BudgetFault, match="more than 400,000 values"):
        parsed_json(b"[" + b"0," * 400_000 + b"0]")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 17, "more than 16 interim answers"),
        (b"HTTP/1.1 200 OK\r\n" + b"h: v\r\n" * 257 + b"\r\n", "more than 256 headers"),
        (STREAM_HEAD + b"0\r\n" + b"t: value\r\n" * 8000, "chunk extensions and trailers"),
        (STREAM_HEAD + (b"1;" + b"e" * 4000 + b"\r\nx\r\n") * 20, "chunk extensions and trailers"),
    ],
)
def test_framing_has_its_bounds(raw: bytes, said: str) -> None:
    """Interim answers, headers, trailers and chunk extensions end somewhere."""
    (invocation,) = played([raw], "tgi")
    assert invocation.outcome.code == "HttpProtocolFault" and said in invocation.outcome.message
