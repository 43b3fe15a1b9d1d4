"""Every fault in its one class, with exactly one request made."""

from __future__ import annotations

import asyncio
import socket

import orjson
import pytest
from invocation_fakes import (
    END,
    PATIENT,
    QUICK,
    REQUEST,
    STREAM_HEAD,
    TOKENS,
    Exchange,
    Script,
    Server,
    answer,
    chunked,
    invoke,
    parts,
    sagemaker,
    sends,
    serving,
    sse,
    token_event,
)

from loadproof.invocation import HttpTransport, Invocation, Invoker, OutcomeKind, RetryClass, Timeouts, codec_for
from loadproof.invocation.eventstream import encode_exception, encode_payload_part

pytestmark = pytest.mark.usefixtures("either_way")

MODEL_ERROR = orjson.dumps(
    {"Message": "Received server error (429)", "OriginalStatusCode": 429, "OriginalMessage": "Model is overloaded"}
)
NO_CAPACITY = b'{"Message": "Inference Component has no capacity to process this request."}'
BROKEN = chunked(encode_exception("ModelStreamError", "x", ErrorCode="StreamBroken"))
FAULTS: dict[str, tuple[Script, OutcomeKind, RetryClass, int | None, str, int]] = {
    # name: (script, kind, retry, status, code, tokens that had arrived)
    "cut before the end marker": (
        sends(STREAM_HEAD, parts(*TOKENS[:2]), END),
        OutcomeKind.TRUNCATED, RetryClass.TRY_AGAIN, 200, "Truncated", 2,
    ),
    "connection closed in mid-stream": (
        sends(STREAM_HEAD, parts(TOKENS[0]), close=True),
        OutcomeKind.TRUNCATED, RetryClass.TRY_AGAIN, 200, "Truncated", 1,
    ),
    "closed after the model's end marker, before HTTP's": (
        sends(STREAM_HEAD, parts(*TOKENS), close=True),
        OutcomeKind.TRUNCATED, RetryClass.TRY_AGAIN, 200, "Truncated", 3,
    ),
    "ended inside a frame": (
        sends(STREAM_HEAD, parts(*TOKENS), chunked(encode_payload_part(b"x")[:9]), END),
        OutcomeKind.TRUNCATED, RetryClass.TRY_AGAIN, 200, "Truncated", 3,
    ),
    "reset in mid-stream": (
        sends(STREAM_HEAD, parts(TOKENS[0]), reset=True),
        OutcomeKind.CONNECTION, RetryClass.TRY_AGAIN, 200, "reset", 1,
    ),
    "compressed, though only identity was accepted": (
        sends(answer(200, b"\x1f\x8b", content_encoding="gzip")),
        OutcomeKind.STREAM_ERROR, RetryClass.TRY_AGAIN, 200, "HttpProtocolFault", 0,
    ),
    "closed before any answer": (
        sends(close=True),
        OutcomeKind.CONNECTION, RetryClass.TRY_AGAIN, None, "closed", 0,
    ),
    "error of the model's own in the stream": (
        sends(STREAM_HEAD, parts(TOKENS[0]), parts(sse(b'{"error":"CUDA OOM","error_type":"generation"}')), END),
        OutcomeKind.IN_BAND_ERROR, RetryClass.TRY_AGAIN, 200, "generation", 1,
    ),
    "tokens and the error in one read": (
        sends(STREAM_HEAD + parts(TOKENS[0] + TOKENS[1] + sse(b'{"error":"x","error_type":"generation"}'))),
        OutcomeKind.IN_BAND_ERROR, RetryClass.TRY_AGAIN, 200, "generation", 2,
    ),
    "bad input told in the stream": (
        sends(STREAM_HEAD, parts(sse(b'{"error":"too long","error_type":"validation"}')), END),
        OutcomeKind.IN_BAND_ERROR, RetryClass.POISON, 200, "validation", 0,
    ),
    "an ended stream of no tokens": (
        sends(STREAM_HEAD, parts(sse(token_event("", 1).replace(b'"token"', b'"none"')), sse(b'{"details":{}}')), END),
        OutcomeKind.IN_BAND_ERROR, RetryClass.TRY_AGAIN, 200, "EmptyAnswer", 0,
    ),
    "SageMaker's ModelStreamError": (
        sends(STREAM_HEAD + parts(TOKENS[0]) + BROKEN),
        OutcomeKind.STREAM_ERROR, RetryClass.TRY_AGAIN, 200, "StreamBroken", 1,
    ),
    "SageMaker's InternalStreamFailure": (
        sends(STREAM_HEAD, chunked(encode_exception("InternalStreamFailure", "x")), END),
        OutcomeKind.STREAM_ERROR, RetryClass.TRY_AGAIN, 200, "InternalStreamFailure", 0,
    ),
    "a damaged frame": (
        sends(STREAM_HEAD, parts(TOKENS[0]), chunked(encode_payload_part(b"x")[:-1] + b"?"), END),
        OutcomeKind.STREAM_ERROR, RetryClass.TRY_AGAIN, 200, "FrameError", 1,
    ),
    "garbage in the payload": (
        sends(STREAM_HEAD, parts(sse(b"!!!!")), END),
        OutcomeKind.STREAM_ERROR, RetryClass.TRY_AGAIN, 200, "PayloadError", 0,
    ),
    "not HTTP": (
        sends(b"220 smtp ready\r\n\r\n"),
        OutcomeKind.STREAM_ERROR, RetryClass.TRY_AGAIN, None, "HttpProtocolFault", 0,
    ),
    "throttled": (
        sends(answer(400, b'{"message":"Rate exceeded"}', x_amzn_errortype="ThrottlingException:http://x/")),
        OutcomeKind.THROTTLED, RetryClass.SLOW_DOWN, 400, "ThrottlingException", 0,
    ),
    "the model's 424 hiding a 429": (
        sends(answer(424, MODEL_ERROR, x_amzn_errortype="ModelError")),
        OutcomeKind.MODEL_ERROR, RetryClass.SLOW_DOWN, 424, "ModelError", 0,
    ),
    "no capacity yet": (
        sends(answer(400, NO_CAPACITY, x_amzn_errortype="ValidationError")),
        OutcomeKind.NO_CAPACITY, RetryClass.NO_CAPACITY_YET, 400, "ValidationError", 0,
    ),
    "validation": (
        sends(answer(422, b'{"error":"inputs must be shorter","error_type":"validation"}')),
        OutcomeKind.VALIDATION, RetryClass.POISON, 422, "validation", 0,
    ),
    "an endpoint that is not there": (
        sends(answer(400, b'{"Message":"Endpoint ep of account 1 not found."}', x_amzn_errortype="ValidationError")),
        OutcomeKind.VALIDATION, RetryClass.POISON, 400, "ValidationError", 0,
    ),
    "no right to invoke": (
        sends(answer(403, b'{"Message":"denied"}', x_amzn_errortype="AccessDeniedException")),
        OutcomeKind.VALIDATION, RetryClass.POISON, 403, "AccessDeniedException", 0,
    ),
    "model not ready": (
        sends(answer(429, b"{}", x_amzn_errortype="ModelNotReadyException")),
        OutcomeKind.NOT_READY, RetryClass.SLOW_DOWN, 429, "ModelNotReadyException", 0,
    ),
    "unavailable": (
        sends(answer(503, b"<html>busy</html>")),
        OutcomeKind.UNAVAILABLE, RetryClass.SLOW_DOWN, 503, "HTTP 503", 0,
    ),
    "internal": (
        sends(answer(500, b'{"Message":"oops"}', x_amzn_errortype="InternalFailure")),
        OutcomeKind.INTERNAL, RetryClass.TRY_AGAIN, 500, "InternalFailure", 0,
    ),
    "no first byte": (
        sends(),
        OutcomeKind.TIMEOUT, RetryClass.TRY_AGAIN, None, "first_byte", 0,
    ),
    "a stall in mid-stream": (
        sends(STREAM_HEAD, parts(TOKENS[0])),
        OutcomeKind.TIMEOUT, RetryClass.TRY_AGAIN, 200, "idle", 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_lands_in_one_class(name: str) -> None:
    """Kind, retry class, status and code; the tokens that came are kept; the request was sent once."""
    script, kind, retry, status, code, tokens = FAULTS[name]
    invocation, server = invoke(script, timeouts=QUICK if kind is OutcomeKind.TIMEOUT else PATIENT)
    outcome = invocation.outcome
    assert (outcome.kind, outcome.retry, outcome.http_status, outcome.code) == (kind, retry, status, code)
    assert len(invocation.arrival_ns) == tokens
    assert invocation.output_tokens == (tokens or None)
    assert invocation.token_source == ("chunks" if tokens else "none")
    assert len(server.requests) == 1
    assert not outcome.ok


def test_nobody_listens() -> None:
    """A refused connection is an outcome; nothing was sent."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # bound, not listening

        async def main() -> Invocation:
            return await sagemaker(Server(port)).invoke(REQUEST)

        invocation = asyncio.run(main())
    assert (invocation.outcome.kind, invocation.outcome.code) == (OutcomeKind.CONNECTION, "refused")
    assert invocation.sent_ns is None


def test_a_peer_that_accepts_and_says_nothing_to_tls_times_out() -> None:
    """Half-open: the handshake never ends, and the connect limit does."""

    async def main() -> Invocation:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"https://127.0.0.1:{silent.getsockname()[1]}"
            transport = HttpTransport(url)
            timeouts = Timeouts(connect_s=0.2)
            return await Invoker(transport, codec_for("tgi"), timeouts=timeouts).invoke(REQUEST)

    outcome = asyncio.run(main()).outcome
    assert (outcome.kind, outcome.code) == (OutcomeKind.TIMEOUT, "connect")


def test_the_total_limit_ends_a_stream_that_drips() -> None:
    """Bytes keep the idle limit away for ever; the total limit holds all the same."""

    async def drip(exchange: Exchange) -> None:
        await exchange.send(STREAM_HEAD)
        while True:
            await exchange.send(parts(b": ping\n\n"), gap_s=0.05)

    async def main() -> Invocation:
        async with serving(drip) as server:
            return await sagemaker(server, timeouts=Timeouts(idle_s=0.3, total_s=0.5)).invoke(REQUEST)

    outcome = asyncio.run(main()).outcome
    assert (outcome.kind, outcome.code) == (OutcomeKind.TIMEOUT, "total")


def test_a_model_error_says_what_the_container_said() -> None:
    """The original message is not lost behind the 424."""
    invocation, _ = invoke(FAULTS["the model's 424 hiding a 429"][0])
    assert invocation.outcome.message == "Received server error (429) [Model is overloaded]"
