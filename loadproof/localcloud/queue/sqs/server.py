"""SQS alone on loopback, in a thread of this process: for tests of what only needs queues. Up in milliseconds."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from aiohttp import web

from loadproof.localcloud.queue.sqs.door import SqsDoor
from loadproof.localcloud.queue.sqs.service import SqsService

_MAX_BODY_BYTES = 4 * 1024**2
_STOP_S = 5.0


@dataclass(frozen=True, slots=True)
class SqsServer:
    """A running server; `service` is what it serves, for a look from inside."""

    endpoint_url: str
    service: SqsService


@contextlib.contextmanager
def running(*, region: str = "us-east-1", name_reuse_s: float = 0.0) -> Iterator[SqsServer]:
    """Serve for the length of a `with` block on a free port of 127.0.0.1, to moto's own account."""
    ready = threading.Event()
    started: list[tuple[SqsServer, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        url = ""
        service = SqsService(endpoint_url=lambda: url, name_reuse_s=name_reuse_s)
        door = SqsDoor(service, region)

        async def handle(request: web.Request) -> web.Response:
            return await door.answer(request, await request.read())

        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://localhost:{runner.addresses[0][1]}"
        stop = asyncio.Event()
        started.append((SqsServer(url, service), asyncio.get_running_loop(), stop))
        ready.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="sqs", daemon=True)
    thread.start()
    if not ready.wait(_STOP_S):
        raise RuntimeError("SQS did not start")
    server, loop, stop = started[0]
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(_STOP_S)
