"""Keep-alive, early answers, warm connections, TLS, uvloop."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from invocation_fakes import (
    END,
    PATIENT,
    QUICK,
    REQUEST,
    STREAM_HEAD,
    TOKENS,
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
)

from loadproof.invocation import (
    GenerationRequest,
    HttpTransport,
    Invocation,
    Invoker,
    OutcomeKind,
    RetryClass,
    Timeouts,
    codec_for,
)
from loadproof.invocation.sockets import is_shortage

pytestmark = pytest.mark.usefixtures("either_way")


def _connections(script: Script, requests: int, pause_s: float = 0.0) -> tuple[int, list[OutcomeKind]]:
    """None of them takes as long as half of a time-out."""

    async def main() -> tuple[int, list[OutcomeKind]]:
        async with serving(script) as server:
            invoker = sagemaker(server)
            kinds = []
            for _ in range(requests):
                async with asyncio.timeout(PATIENT.idle_s / 2):
                    kinds.append((await invoker.invoke(REQUEST)).outcome.kind)
                await asyncio.sleep(pause_s)
            await invoker.close()
            return server.connections, kinds

    return asyncio.run(main())


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EADDRNOTAVAIL])
def test_what_this_machine_lacks_is_told_apart(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side refused nothing, so fewer at once may go on, and it is no attempt."""

    def refuse(self: socket.socket, *_: object) -> None:
        raise OSError(number, os.strerror(number))

    async def main() -> Invocation:
        async with serving(sends(b"")) as server:
            invoker = sagemaker(server)
            monkeypatch.setattr(socket.socket, "setblocking", refuse)
            try:
                return await invoker.invoke(REQUEST)
            finally:
                monkeypatch.undo()
                await invoker.close()

    outcome = asyncio.run(main()).outcome
    assert (outcome.kind, outcome.code, outcome.retry) == (OutcomeKind.CONNECTION, "shortage", RetryClass.SLOW_DOWN)
    assert outcome.is_own_shortage


def test_a_resolver_that_can_open_nothing_is_a_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that there is no such name; with a descriptor left, that is what it means."""
    unknown = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    assert not is_shortage(unknown)

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    assert is_shortage(unknown)


def test_keep_alive_uses_one_connection() -> None:
    """Five requests in a row, one connection; also errors with a length leave it usable."""
    ok = sends(STREAM_HEAD, parts(*TOKENS), END)
    assert _connections(ok, 5) == (1, [OutcomeKind.OK] * 5)
    assert _connections(sends(answer(503, b"busy")), 3) == (1, [OutcomeKind.UNAVAILABLE] * 3)


def test_connection_close_and_broken_answers_are_not_reused() -> None:
    """Each next request gets a fresh connection and is not harmed by the last."""
    closing = STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    assert _connections(sends(closing, parts(*TOKENS), END), 3) == (3, [OutcomeKind.OK] * 3)
    assert _connections(sends(STREAM_HEAD, parts(sse(b"!!!!")), END), 2) == (2, [OutcomeKind.STREAM_ERROR] * 2)
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

    async def kind(script: Script, timeouts: Timeouts) -> OutcomeKind:
        async with serving(script) as server:
            return (await sagemaker(server, timeouts=timeouts).invoke(REQUEST)).outcome.kind

    cases: list[tuple[Script, Timeouts, OutcomeKind]] = [
        (sends(STREAM_HEAD, parts(*TOKENS), END), PATIENT, OutcomeKind.OK),
        (sends(STREAM_HEAD, parts(TOKENS[0])), QUICK, OutcomeKind.TIMEOUT),
        (sends(STREAM_HEAD, parts(TOKENS[0]), reset=True), PATIENT, OutcomeKind.CONNECTION),
        (sends(answer(503, b"busy")), PATIENT, OutcomeKind.UNAVAILABLE),
    ]
    run: Callable[[Awaitable[OutcomeKind]], OutcomeKind] = uvloop.run
    assert [run(kind(script, limits)) for script, limits, _ in cases] == [expected for *_, expected in cases]
