"""A model server that misbehaves on request, as a process: `model_stub.py sagemaker|openai|sick` prints its port."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from aiohttp import web

state = {"canceled": 0, "running": 0}
adapters: dict[str, str] = {}


async def invocations(request: web.Request) -> web.StreamResponse:
    ask = await request.json()
    if "who" in ask:
        return web.json_response({"adapter": request.headers.get("X-Amzn-SageMaker-Adapter-Identifier")})
    if "status" in ask:
        return web.json_response({"error": "as asked"}, status=ask["status"])
    state["running"] += 1
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    try:
        await asyncio.sleep(ask.get("think_s", 0))
        await answer.prepare(request)
        for number in range(ask.get("parts", 3)):
            await answer.write(f"data:{number}\n\n".encode())
            await asyncio.sleep(ask.get("gap_s", 0))
        if ask.get("die"):
            os._exit(1)
        if ask.get("break"):
            assert request.transport is not None
            request.transport.abort()
        await answer.write_eof()
    except (asyncio.CancelledError, ConnectionResetError):
        state["canceled"] += 1
        raise
    finally:
        state["running"] -= 1
    return answer


async def echo(request: web.Request) -> web.Response:
    return web.json_response({"path": request.path, "asked": json.loads(await request.read())})


async def load(request: web.Request) -> web.Response:
    asked = await request.json()
    if asked["name"] == "refused":
        return web.json_response({"error": "rank 64 is greater than max_lora_rank 16"}, status=400)
    if asked["name"] in adapters:
        return web.json_response({"error": "already loaded"}, status=400)
    adapters[asked["name"]] = asked["src"]
    return web.Response()


async def unload(request: web.Request) -> web.Response:
    return web.Response(status=200 if adapters.pop(request.match_info["name"], None) else 404)


async def loaded(request: web.Request) -> web.Response:
    return web.json_response(adapters)


async def tell(request: web.Request) -> web.Response:
    return web.json_response(state)


async def healthy(request: web.Request) -> web.Response:
    return web.Response()


async def sick(request: web.Request) -> web.Response:
    return web.Response(status=503)


async def main(kind: str) -> None:
    app = web.Application(client_max_size=2**24)
    app.add_routes([web.get("/state", tell)])
    if kind == "openai":
        app.add_routes([web.get("/health", healthy)])
        app.add_routes([web.post(f"/v1/{path}", echo) for path in ("completions", "chat/completions")])
    else:
        app.add_routes([web.get("/ping", sick if kind == "sick" else healthy), web.post("/invocations", invocations)])
        app.add_routes([web.post("/adapters", load), web.delete("/adapters/{name}", unload)])
        app.add_routes([web.get("/adapters", loaded)])
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    # The test holds the other end of stdin: when it goes, so does this server.
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
