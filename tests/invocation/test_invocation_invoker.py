"""Whole requests against a scripted server: what is recorded, and each fault in its one class."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import pytest
from invocation_fakes import (
    END,
    STREAM_HEAD,
    Exchange,
    Script,
    Server,
    answer,
    chat_event,
    chunked,
    serving,
    sse,
    token_event,
    token_events,
)

from invocation import (
    GenerationRequest,
    HttpTransport,
    Invocation,
    Invoker,
    OutcomeKind,
    RetryClass,
    SageMakerTransport,
    Timeouts,
    codec_for,
)
from invocation.credentials import fixed
from invocation.eventstream import encode_exception, encode_payload_part
from invocation.sigv4 import Credentials
from loadproof.errors import CouldNotRunError, InputError

REQUEST = GenerationRequest("Once", 3)
TOKENS = [sse(event) for event in token_events(["a", "b", "c"])]
QUICK = Timeouts(connect_s=2.0, first_byte_s=0.3, idle_s=0.3, total_s=5.0)
KEYS = fixed(Credentials("AKID", "secret", "session"))


def parts(*payloads: bytes) -> bytes:
    """SageMaker's stream of these payload parts, chunked as HTTP."""
    return chunked(*(encode_payload_part(payload) for payload in payloads))


def sagemaker(server: Server, protocol: str = "tgi", timeouts: Timeouts = QUICK) -> Invoker:
    transport = SageMakerTransport(
        "ep", component="ep-main", region="eu-west-1", credentials=KEYS, endpoint_url=server.url
    )
    return Invoker(transport, codec_for(protocol), timeouts=timeouts)


def invoke(
    script: Script, request: GenerationRequest = REQUEST, protocol: str = "tgi", http: bool = False
) -> tuple[Invocation, Server]:
    """One request against `script`, over SageMaker's protocol or bare."""

    async def main() -> tuple[Invocation, Server]:
        async with serving(script) as server:
            invoker = sagemaker(server, protocol)
            if http:
                invoker = Invoker(HttpTransport(f"{server.url}/v1/x?y=1"), codec_for(protocol), timeouts=QUICK)
            try:
                return await invoker.invoke(request), server
            finally:
                await invoker.close()

    return asyncio.run(main())


def sends(*pieces: bytes, close: bool = False, reset: bool = False) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.send(*pieces)
        if close:
            exchange.close()
        if reset:
            await asyncio.sleep(0.02)  # let the pieces arrive before the RST discards them
            exchange.reset()

    return script


# What a good request leaves behind


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


# Every fault in its class, exactly one request made

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
        OutcomeKind.VALIDATION, RetryClass.SLOW_DOWN, 400, "ValidationError", 0,
    ),
    "no right to invoke": (
        sends(answer(403, b'{"Message":"denied"}', x_amzn_errortype="AccessDeniedException")),
        OutcomeKind.VALIDATION, RetryClass.SLOW_DOWN, 403, "AccessDeniedException", 0,
    ),
    "model not ready": (
        sends(answer(429, b"{}", x_amzn_errortype="ModelNotReadyException")),
        OutcomeKind.NOT_READY, RetryClass.SLOW_DOWN, 429, "ModelNotReadyException", 0,
    ),
    "unavailable": (
        sends(answer(503, b"<html>busy</html>")),
        OutcomeKind.UNAVAILABLE, RetryClass.SLOW_DOWN, 503, "", 0,
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
    invocation, server = invoke(script)
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


def test_zero_tokens_are_fine_when_the_server_says_so() -> None:
    """A model that stops at once is no failure: usage says zero."""
    events = sse(chat_event({}, "stop"), chat_event(usage={"completion_tokens": 0, "prompt_tokens": 3}))
    invocation, _ = invoke(sends(STREAM_HEAD, chunked(events), END), protocol="openai-chat", http=True)
    assert invocation.outcome.ok
    assert (invocation.output_tokens, invocation.first_token_ns) == (0, None)


def test_cancel_all_records_what_had_come() -> None:
    """Requests ended by us are `canceled`, with their tokens, and nothing is left open."""

    async def main() -> list[Invocation]:
        async with serving(sends(STREAM_HEAD, parts(TOKENS[0]))) as server:
            invoker = sagemaker(server, timeouts=Timeouts())
            running = [asyncio.create_task(invoker.invoke(REQUEST)) for _ in range(3)]
            await asyncio.sleep(0.1)
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


# Connections


def _connections(script: Script, requests: int, pause_s: float = 0.0) -> tuple[int, list[OutcomeKind]]:
    async def main() -> tuple[int, list[OutcomeKind]]:
        async with serving(script) as server:
            invoker = sagemaker(server)
            kinds = []
            for _ in range(requests):
                kinds.append((await invoker.invoke(REQUEST)).outcome.kind)
                await asyncio.sleep(pause_s)
            await invoker.close()
            return server.connections, kinds

    return asyncio.run(main())


def test_keep_alive_uses_one_connection() -> None:
    """Five requests in a row, one connection; also errors with a length leave it usable."""
    ok = sends(STREAM_HEAD, parts(*TOKENS), END)
    assert _connections(ok, 5) == (1, [OutcomeKind.OK] * 5)
    assert _connections(sends(answer(503, b"busy")), 3) == (1, [OutcomeKind.UNAVAILABLE] * 3)


def test_connection_close_and_broken_answers_are_not_reused() -> None:
    """Each next request gets a fresh connection and is not harmed by the last."""
    closing = STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    assert _connections(sends(closing, parts(*TOKENS), END), 3) == (3, [OutcomeKind.OK] * 3)
    assert _connections(FAULTS["garbage in the payload"][0], 2) == (2, [OutcomeKind.STREAM_ERROR] * 2)
    surplus = sends(STREAM_HEAD, parts(*TOKENS), END + b"HTTP/1.1 200 OK\r\n")
    assert _connections(surplus, 2) == (2, [OutcomeKind.OK] * 2)


def test_a_connection_the_server_closed_while_idle_is_replaced() -> None:
    """The next request does not pay for it."""
    closes_later = sends(STREAM_HEAD, parts(*TOKENS), END, close=True)
    assert _connections(closes_later, 3, pause_s=0.05) == (3, [OutcomeKind.OK] * 3)


def test_an_early_answer_to_a_large_request_is_read() -> None:
    """A server that refuses before reading the body, and closes, has still said why."""

    async def main() -> Invocation:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1000)
            writer.write(answer(413, b'{"message":"too large"}', connection="close"))
            await writer.drain()
            await asyncio.sleep(0.2)  # do not reset at once: unread bytes would discard the answer on the way
            writer.close()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        invoker = sagemaker(Server(server.sockets[0].getsockname()[1]))
        async with server:
            return await invoker.invoke(GenerationRequest("x" * 5_000_000, 1))

    outcome = asyncio.run(main()).outcome
    assert (outcome.kind, outcome.http_status, outcome.message) == (OutcomeKind.VALIDATION, 413, "too large")


def test_warm_opens_the_connections_ahead() -> None:
    """Eight warm connections carry eight requests at once; no ninth is opened."""

    async def main() -> tuple[int, int]:
        async with serving(sends(STREAM_HEAD, parts(*TOKENS), END)) as server:
            invoker = sagemaker(server)
            await invoker.warm(8)
            await asyncio.sleep(0.05)
            before = server.connections
            await asyncio.gather(*(invoker.invoke(REQUEST) for _ in range(8)))
            await invoker.close()
            return before, server.connections

    assert asyncio.run(main()) == (8, 8)


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load generator talks to its target itself."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    invocation, _ = invoke(sends(STREAM_HEAD, parts(*TOKENS), END))
    assert invocation.outcome.ok


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for localhost, with its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    day, number = datetime.timedelta(days=1), x509.random_serial_number()
    builder = x509.CertificateBuilder(name, name, key.public_key(), number, now - day, now + day)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    signed = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    file = tmp_path_factory.mktemp("tls") / "cert.pem"
    file.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file


def test_tls(certificate: Path) -> None:
    """A trusted certificate works with keep-alive; an unknown one is a connection fault, and nothing is sent."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))

    async def main() -> tuple[list[Invocation], int, Invocation]:
        async with serving(sends(STREAM_HEAD, chunked(*TOKENS), END), server_side) as server:
            url = f"https://localhost:{server.port}/generate_stream"
            good = Invoker(HttpTransport(url, tls=trusting), codec_for("tgi"))
            answers = [await good.invoke(REQUEST) for _ in range(2)]
            connections = server.connections
            await good.close()
            return answers, connections, await Invoker(HttpTransport(url), codec_for("tgi")).invoke(REQUEST)

    answers, connections, refused = asyncio.run(main())
    assert all(found.outcome.ok for found in answers) and connections == 1
    assert (refused.outcome.kind, refused.outcome.code) == (OutcomeKind.CONNECTION, "tls")
    assert refused.sent_ns is None


def test_the_same_on_uvloop() -> None:
    """The hot path runs on uvloop too: a stream, a stall and a reset end as on asyncio."""
    uvloop = pytest.importorskip("uvloop")

    async def kind(script: Script) -> OutcomeKind:
        async with serving(script) as server:
            return (await sagemaker(server).invoke(REQUEST)).outcome.kind

    cases: list[tuple[Script, OutcomeKind]] = [
        (sends(STREAM_HEAD, parts(*TOKENS), END), OutcomeKind.OK),
        *((FAULTS[n][0], FAULTS[n][1]) for n in ("a stall in mid-stream", "reset in mid-stream", "unavailable")),
    ]
    run: Callable[[Awaitable[OutcomeKind]], OutcomeKind] = uvloop.run
    assert [run(kind(script)) for script, _ in cases] == [expected for _, expected in cases]


# Bad input


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SageMakerTransport("a b", region="us-east-1", credentials=KEYS), "endpoint name 'a b'"),
        (lambda: SageMakerTransport("a", component="x/../y", region="us-east-1", credentials=KEYS), "component name"),
        (lambda: SageMakerTransport("a", region="moon", credentials=KEYS), "region 'moon'"),
        (lambda: HttpTransport("localhost:8000"), "expected http://HOST"),
        (lambda: HttpTransport("http://h:99999/"), "expected http://HOST"),
        (lambda: HttpTransport("http://h/\r\nx: y"), "expected http://HOST"),
        (lambda: HttpTransport("http://user:secret@h/"), "put credentials into a header"),
        (lambda: HttpTransport("http://h/", headers={"a": "secret\r\nb: c"}), "header 'a'"),
    ],
)
def test_bad_targets_are_bad_input(make: Callable[[], object], message: str) -> None:
    """Found before anything is sent, and a header's value is not shown."""
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """None found: placeholders on loopback, a clear error anywhere else."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    SageMakerTransport("a", region="us-east-1", endpoint_url="http://127.0.0.1:1")
    with pytest.raises(CouldNotRunError, match="no AWS credentials found; set AWS_PROFILE"):
        SageMakerTransport("a", region="us-east-1")
    with pytest.raises(CouldNotRunError, match="no AWS credentials found"):
        SageMakerTransport("a", region="us-east-1", endpoint_url="http://10.0.0.1:1")
