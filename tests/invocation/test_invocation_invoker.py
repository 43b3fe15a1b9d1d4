"""Whole requests against a scripted server: what they leave behind."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from invocation_fakes import (
    END,
    QUICK,
    REQUEST,
    STREAM_HEAD,
    TOKENS,
    Exchange,
    answer,
    chat_event,
    chunked,
    invoke,
    parts,
    sagemaker,
    sends,
    serving,
    sse,
    token_events,
)

from loadproof.invocation import GenerationRequest, Invocation, OutcomeKind, Timeouts

pytestmark = pytest.mark.usefixtures("either_way")


def test_a_sagemaker_stream() -> None:
    """Path, headers and body are SageMaker's; tokens are stamped in order; the server's counts stand."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(STREAM_HEAD, *(parts(token) for token in TOKENS), END, gap_s=0.01)

    invocation, server = invoke(script)
    sent = server.requests[0]
    assert sent.target == "/endpoints/ep/invocations-response-stream"
    assert sent.headers["x-amzn-sagemaker-inference-component"] == "ep-main"
    assert sent.headers["x-amzn-sagemaker-accept"] == "text/event-stream"
    assert sent.headers["x-amz-security-token"] == "session"
    assert sent.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert orjson.loads(sent.body)["inputs"] == "Once"
    assert invocation.outcome.kind is OutcomeKind.OK and invocation.outcome.retry is None
    assert list(invocation.arrival_tokens) == [1, 1, 1]
    assert invocation.sent_ns is not None
    times = [invocation.intended_ns, invocation.sent_ns, *invocation.arrival_ns, invocation.end_ns]
    assert times == sorted(times)
    assert invocation.arrival_ns[2] - invocation.arrival_ns[0] >= 15_000_000  # two gaps of 10 ms, less timer slack
    assert (invocation.first_token_ns, invocation.last_token_ns) == (invocation.arrival_ns[0], invocation.arrival_ns[2])
    assert (invocation.input_tokens, invocation.output_tokens, invocation.token_source) == (7, 3, "server")
    assert (invocation.text_length, invocation.finish_reason) == (3, "length")


def test_a_sagemaker_unary_request() -> None:
    """No token has a time of its own; the count is the server's."""
    body = b'[{"generated_text":"abc","details":{"finish_reason":"length","generated_tokens":3}}]'
    invocation, server = invoke(sends(answer(200, body)), GenerationRequest("Once", 3, stream=False))
    assert server.requests[0].target == "/endpoints/ep/invocations"
    assert server.requests[0].headers["accept"] == "application/json"
    assert invocation.outcome.ok
    assert (invocation.first_token_ns, invocation.output_tokens, invocation.token_source) == (None, 3, "server")


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        ("tgi", {"generated_text": "abc", "details": {"finish_reason": "length", "generated_tokens": 3}}),
        ("openai", {"choices": [{"text": "abc", "finish_reason": "stop"}]}),
        ("openai-chat", {"choices": [{"message": {"content": "abc"}, "finish_reason": "stop"}]}),
        (
            "converse",
            {
                "output": {"message": {"content": [{"text": "ab"}, {"text": "c"}]}},
                "stopReason": "end_turn",
                "usage": {"outputTokens": 3},
            },
        ),
        ("llama", {"generation": "abc", "stop_reason": "stop"}),
        ("claude", {"content": [{"text": "ab"}, {"text": "c"}], "stop_reason": "end_turn"}),
    ],
)
def test_the_text_of_a_whole_answer(protocol: str, body: object) -> None:
    """Kept where it was asked for, and nowhere else."""
    for keep in (True, False):
        request = GenerationRequest("Once", 3, stream=False, keep_text=keep)
        invocation, _ = invoke(sends(answer(200, orjson.dumps(body))), request, protocol, http=True)
        assert invocation.text == ("abc" if keep else None)


def test_an_openai_server() -> None:
    """The URL's own path and query; the role chunk is no token, the usage counts."""
    usage = {"prompt_tokens": 4, "completion_tokens": 6}
    events = [chat_event({"role": "assistant", "content": ""}), chat_event({"content": "hey"}), chat_event({}, "stop")]
    raw = chunked(*(sse(event) for event in [*events, chat_event(usage=usage), b"[DONE]"]))
    invocation, server = invoke(sends(STREAM_HEAD, raw, END), protocol="openai-chat", http=True)
    assert server.requests[0].target == "/v1/x?y=1"
    assert invocation.outcome.ok
    assert (len(invocation.arrival_ns), invocation.output_tokens, invocation.input_tokens) == (1, 6, 4)


def test_the_intended_time_is_the_callers() -> None:
    """Latency can be counted from when a request should have gone out."""

    async def main() -> Invocation:
        async with serving(sends(STREAM_HEAD, parts(*TOKENS), END)) as server:
            return await sagemaker(server).invoke(REQUEST, intended_ns=5)

    assert asyncio.run(main()).intended_ns == 5


def test_frames_split_at_every_byte() -> None:
    """A server that sends one byte a segment gives the same tokens."""
    raw = STREAM_HEAD + parts(*TOKENS) + END
    invocation, _ = invoke(sends(*(raw[i : i + 1] for i in range(len(raw)))))
    assert invocation.outcome.ok and invocation.output_tokens == 3


def test_zero_tokens_are_fine_when_the_server_says_so() -> None:
    """A model that stops at once is no failure: usage says zero."""
    events = sse(chat_event({}, "stop"), chat_event(usage={"completion_tokens": 0, "prompt_tokens": 3}), b"[DONE]")
    invocation, _ = invoke(sends(STREAM_HEAD, chunked(events), END), protocol="openai-chat", http=True)
    assert invocation.outcome.ok
    assert (invocation.output_tokens, invocation.first_token_ns) == (0, None)


def test_cancel_all_records_what_had_come() -> None:
    """Requests ended by us are `canceled`, with their tokens, and nothing is left open."""

    async def main() -> list[Invocation]:
        async with serving(sends(STREAM_HEAD, parts(TOKENS[0]))) as server:
            invoker = sagemaker(server, timeouts=Timeouts())
            running = [asyncio.create_task(invoker.invoke(REQUEST)) for _ in range(3)]
            while len(server.requests) < 3:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)  # the first tokens are on their way
            invoker.cancel_all()
            return await asyncio.gather(*running)

    for invocation in asyncio.run(main()):
        assert (invocation.outcome.kind, invocation.outcome.retry) == (OutcomeKind.CANCELED, None)
        assert invocation.output_tokens == 1


def test_a_canceled_task_closes_its_connection() -> None:
    """Cancellation passes through, and the server sees the connection end."""
    gone = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.send(STREAM_HEAD)
        try:
            while True:
                await exchange.send(parts(b": ping\n\n"), gap_s=0.01)
        except ConnectionError:
            gone.set()

    async def main() -> None:
        async with serving(script) as server:
            task = asyncio.create_task(sagemaker(server).invoke(REQUEST))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(gone.wait(), 2)

    asyncio.run(main())


def test_requests_without_a_token_yet_are_counted() -> None:
    """Two asked, one of them has its first token: one waits; none when both have ended."""

    async def main() -> list[int]:
        may_go_on = asyncio.Event()

        async def script(exchange: Exchange) -> None:
            early = [STREAM_HEAD, parts(TOKENS[0])]
            if exchange.connection_number == 2:
                await exchange.send(*early)
                early = []
            await may_go_on.wait()
            await exchange.send(*early, parts(*TOKENS[1:]), END)

        async with serving(script) as server:
            invoker = sagemaker(server)
            asked = [asyncio.create_task(invoker.invoke(REQUEST)) for _ in range(2)]
            counts = []
            while invoker.waiting_for_first_token() != 1 or len(server.requests) < 2:
                await asyncio.sleep(0.005)
            counts.append(invoker.waiting_for_first_token())
            may_go_on.set()
            assert all(found.outcome.ok for found in await asyncio.gather(*asked))
            counts.append(invoker.waiting_for_first_token())
            await invoker.close()
            return counts

    assert asyncio.run(main()) == [1, 0]


LONG = [sse(event) for event in token_events(["a"] * 100)]


def test_a_long_answer_loses_no_token() -> None:
    """100 tokens, each in a read of its own or all but the first in one: 100 arrivals, in order."""
    one_by_one, _ = invoke(sends(STREAM_HEAD, *(parts(token) for token in LONG), END))
    together, _ = invoke(sends(STREAM_HEAD, parts(LONG[0]), parts(*LONG[1:]), END))
    for found in (one_by_one, together):
        assert (found.outcome.kind, found.output_tokens, len(found.arrival_ns)) == (OutcomeKind.OK, 100, 100)
        assert list(found.arrival_ns) == sorted(found.arrival_ns)
        assert len(found.read_lag_ns) == 100


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (sse(b'{"error": "overloaded", "error_type": "overloaded"}'), OutcomeKind.IN_BAND_ERROR),
        (sse(b"!!!!"), OutcomeKind.STREAM_ERROR),
    ],
    ids=["an error", "no JSON"],
)
def test_what_was_wrong_before_a_cut_is_the_outcome(damage: bytes, kind: OutcomeKind) -> None:
    """Ten tokens, then a broken event, then a reset: the event is why, and the ten tokens stand."""
    found, _ = invoke(sends(STREAM_HEAD, *(parts(token) for token in LONG[:10]), parts(damage), reset=True))
    assert (found.outcome.kind, len(found.arrival_ns)) == (kind, 10)


def test_an_error_in_mid_stream_ends_the_request_at_once() -> None:
    """The server says it failed and then neither ends the answer nor closes: nobody waits for the time-out."""
    stalls = sends(STREAM_HEAD, *(parts(token) for token in LONG[:10]), parts(sse(b'{"error": "out of memory"}')))
    found, _ = invoke(stalls)
    assert found.outcome.kind is OutcomeKind.IN_BAND_ERROR
    assert found.sent_ns is not None and found.end_ns - found.sent_ns < 5e9


def test_tokens_before_a_stall_are_kept() -> None:
    """Ten tokens, then silence: a time-out with ten arrivals."""
    found, _ = invoke(sends(STREAM_HEAD, *(parts(token) for token in LONG[:10])), timeouts=QUICK)
    assert (found.outcome.kind, len(found.arrival_ns)) == (OutcomeKind.TIMEOUT, 10)
