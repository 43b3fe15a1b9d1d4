"""A whole answer, from the status line to the last chunk, cut at every byte and flipped at every bit."""

from __future__ import annotations

import asyncio
import time
from typing import cast

from invocation_fakes import END, STREAM_HEAD, chunked, sse, token_events

from invocation import GenerationRequest, Invocation, Invoker, OutcomeKind, Timeouts, codec_for
from invocation.connections import Connection, Receiver
from invocation.eventstream import PayloadPartDecoder, encode_payload_part

ANSWER = STREAM_HEAD + chunked(*(encode_payload_part(sse(e)) for e in token_events(["a", "é"]))) + END


class _Deaf:
    """An asyncio transport that sends nothing."""

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None: ...


class Canned:
    """A transport that plays one recorded answer into a real connection and closes it."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    async def send(
        self, body: bytes, *, stream: bool, content_type: str, accept: str, receiver: Receiver, timeouts: Timeouts
    ) -> None:
        connection = Connection(time.perf_counter_ns)
        connection.connection_made(cast(asyncio.BaseTransport, _Deaf()))
        loop = asyncio.get_running_loop()
        if self._raw:
            loop.call_soon(connection.data_received, self._raw)
        loop.call_soon(connection.connection_lost, None)
        await connection.exchange(b"", receiver, timeouts, time.perf_counter_ns())

    def unwrapper(self, stream: bool) -> PayloadPartDecoder:
        return PayloadPartDecoder()

    async def warm(self, count: int, timeouts: Timeouts) -> None: ...

    def cancel_all(self) -> None: ...

    async def close(self) -> None: ...


def _played(answers: list[bytes]) -> list[Invocation]:
    async def main() -> list[Invocation]:
        request = GenerationRequest("x", 2)
        return [await Invoker(Canned(raw), codec_for("tgi")).invoke(request) for raw in answers]

    return asyncio.run(main())


def test_the_whole_answer_is_complete() -> None:
    """The undamaged answer is the yardstick of the tests below."""
    (invocation,) = _played([ANSWER])
    assert (invocation.outcome.kind, invocation.output_tokens, invocation.text_length) == (OutcomeKind.OK, 2, 2)


def test_no_cut_passes_for_complete() -> None:
    """Cut before the end of the head: no answer at all. Cut later: truncated. Never ok."""
    kinds = [invocation.outcome.kind for invocation in _played([ANSWER[:cut] for cut in range(len(ANSWER))])]
    head = len(STREAM_HEAD)
    assert kinds[:head] == [OutcomeKind.CONNECTION] * head
    assert kinds[head:] == [OutcomeKind.TRUNCATED] * (len(ANSWER) - head)


def test_no_flipped_bit_changes_an_answer_unnoticed() -> None:
    """One bit flipped anywhere: either a fault, or the same tokens (the bit stood in a header that nobody reads)."""
    damaged = [
        ANSWER[: bit // 8] + bytes([ANSWER[bit // 8] ^ (1 << bit % 8)]) + ANSWER[bit // 8 + 1 :]
        for bit in range(len(ANSWER) * 8)
    ]
    unharmed = 0
    for bit, invocation in enumerate(_played(damaged)):
        if invocation.outcome.ok:
            unharmed += 1
            assert (invocation.output_tokens, invocation.text_length, invocation.input_tokens) == (2, 2, 7), bit
    assert 0 < unharmed < 8 * len(STREAM_HEAD)
