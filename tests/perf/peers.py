"""Common ways to drive the same load, as someone would write them by hand; what each reports of itself, as JSON.

peers.py aiohttp|boto3 URL STREAMS ROUNDS
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

BODY = json.dumps({"inputs": "word " * 64, "parameters": {"max_new_tokens": 64, "details": True}, "stream": True})
PATH = "/endpoints/truth/invocations-response-stream"
Times = tuple[float, list[float]]  # when it was sent, when each token came


def with_aiohttp(url: str, streams: int, rounds: int) -> list[Times]:
    """One session, one task a stream, frames cut by hand, each event parsed; requests are not even signed."""
    import ssl

    import aiohttp
    import uvloop

    async def one(session: aiohttp.ClientSession) -> Times:
        began, times, buffer = time.perf_counter(), [], b""
        async with session.post(url + PATH, data=BODY, headers={"content-type": "application/json"}) as answer:
            answer.raise_for_status()
            async for piece in answer.content.iter_any():
                now = time.perf_counter()
                buffer += piece
                while len(buffer) >= 12 and len(buffer) >= (total := int.from_bytes(buffer[:4], "big")):
                    headers = int.from_bytes(buffer[4:8], "big")
                    event = json.loads(buffer[12 + headers : total - 4].removeprefix(b"data:"))
                    buffer = buffer[total:]
                    if event.get("token"):
                        times.append(now)
        return began, times

    async def stream(session: aiohttp.ClientSession) -> list[Times]:
        return [await one(session) for _ in range(rounds)]

    async def load() -> list[Times]:
        context = ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE"))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=context)) as session:
            of_streams = await asyncio.gather(*(stream(session) for _ in range(streams)))
        return [times for results in of_streams for times in results]

    return uvloop.run(load())


def with_boto3(url: str, streams: int, rounds: int) -> list[Times]:
    """One client, one thread a stream."""
    import boto3
    from botocore.config import Config

    config = Config(max_pool_connections=streams, retries={"total_max_attempts": 1})
    runtime = boto3.client("sagemaker-runtime", endpoint_url=url, config=config)

    def one(_: int) -> Times:
        began, times = time.perf_counter(), []
        answer = runtime.invoke_endpoint_with_response_stream(
            EndpointName="truth", Body=BODY, ContentType="application/json"
        )
        for part in answer["Body"]:
            event = json.loads(part["PayloadPart"]["Bytes"].removeprefix(b"data:"))
            if event.get("token"):
                times.append(time.perf_counter())
        return began, times

    with ThreadPoolExecutor(streams) as pool:
        return list(pool.map(one, range(streams * rounds)))


CLIENTS: dict[str, Callable[[str, int, int], list[Times]]] = {"aiohttp": with_aiohttp, "boto3": with_boto3}


def main() -> None:
    client, url, streams, rounds = sys.argv[1:]
    results = CLIENTS[client](url, int(streams), int(rounds))
    ttft_ms = [(times[0] - began) * 1e3 for began, times in results]
    gaps_ms = [(late - early) * 1e3 for _, times in results for early, late in pairwise(times)]
    figures: dict[str, float] = {"requests": len(results)}
    for name, values in (("ttft", ttft_ms), ("itl", gaps_ms)):
        p50, p99 = np.percentile(values, (50, 99))
        figures |= {f"{name}_p50_ms": p50, f"{name}_p99_ms": p99, f"{name}_max_ms": max(values)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
