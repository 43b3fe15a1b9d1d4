"""What an invoker tells of the requests in flight: who was sent, who has a token, how many."""

from __future__ import annotations

import asyncio

from invocation_fakes import END, STREAM_HEAD, Exchange, chunked, sagemaker, serving, sse, token_events

from loadproof.invocation import GenerationRequest
from loadproof.invocation.eventstream import encode_payload_part

EVENTS = [sse(event) for event in token_events(["a", "b", "c"])]


async def until(ready: object) -> None:
    async with asyncio.timeout(20):
        while not ready():  # type: ignore[operator]
            await asyncio.sleep(0.005)


def test_requests_in_flight_are_seen_with_their_tokens_and_gone_at_their_end() -> None:
    """One waits for its first token, then has one, then two; at its end there is none."""

    async def main() -> None:
        pieces: asyncio.Queue[bytes] = asyncio.Queue()

        async def script(exchange: Exchange) -> None:
            for _ in range(3):
                await exchange.send(await pieces.get())

        async with serving(script) as server:
            invoker = sagemaker(server)
            task = asyncio.create_task(invoker.invoke(GenerationRequest("Once", 3)))
            await until(invoker.under_way)
            [waiting] = invoker.under_way()
            assert (waiting.first_token_ns, waiting.last_ns, waiting.tokens) == (None, None, 0)

            pieces.put_nowait(STREAM_HEAD + _part(EVENTS[0]))
            await until(lambda: invoker.under_way()[0].tokens == 1)
            [begun] = invoker.under_way()
            assert begun.first_token_ns == begun.last_ns and begun.sent_ns == waiting.sent_ns

            pieces.put_nowait(_part(EVENTS[1]))
            await until(lambda: invoker.under_way()[0].tokens == 2)
            [going] = invoker.under_way()
            assert going.first_token_ns == begun.first_token_ns
            assert going.sent_ns < going.first_token_ns < going.last_ns

            pieces.put_nowait(_part(EVENTS[2]) + END)
            assert (await task).outcome.ok
            assert invoker.under_way() == []
            await invoker.close()

    asyncio.run(main())


def _part(event: bytes) -> bytes:
    return chunked(encode_payload_part(event))
