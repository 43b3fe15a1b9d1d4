"""Plays hostile answers into real connections, without sockets, and says what was wrong with how one was taken."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import cast

from fuzz_grammar import Hostile, cut

from loadproof.invocation import GenerationRequest, Invocation, Invoker, OutcomeKind, Timeouts, codec_for
from loadproof.invocation.budgets import EVENTS_A_TOKEN, MORE_EVENTS, MOST_KEPT_BYTES
from loadproof.invocation.connections import Connection, Receiver
from loadproof.invocation.faults import TimeoutFault
from loadproof.invocation.outcomes import CODE_LIMIT, MESSAGE_LIMIT
from loadproof.invocation.transports import Unwrapper

TOKENS = 64  # asked for
HANG_S = 60.0
MOST_PEAK_BYTES = 64 * 1024 * 1024
MOST_EVENTS = MORE_EVENTS + EVENTS_A_TOKEN * TOKENS + 1  # the one that is too many


@dataclass
class _Deaf:
    """An asyncio transport that sends nothing."""

    aborted: bool = False

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None:
        self.aborted = True


@dataclass
class _Canned:
    """Sends an answer's pieces into a connection of its own, then ends it as the answer says."""

    answer: Hostile

    async def send(
        self, body: bytes, *, stream: bool, content_type: str, accept: str, receiver: Receiver, timeouts: Timeouts
    ) -> None:
        transport, connection = _Deaf(), Connection(time.perf_counter_ns)
        connection.connection_made(cast(asyncio.BaseTransport, transport))

        def play() -> None:
            for piece in self.answer.pieces:
                if transport.aborted:
                    return
                if piece:
                    connection.data_received(piece)
            if self.answer.ending == "timeout":
                connection._cut_off(TimeoutFault("idle", 1.0))
            else:
                connection.connection_lost(ConnectionResetError("reset") if self.answer.ending == "reset" else None)

        asyncio.get_running_loop().call_soon(play)
        await connection.exchange(b"", receiver, timeouts, time.perf_counter_ns())

    def unwrapper(self, stream: bool) -> Unwrapper | None:
        return self.answer.unwrapper()

    async def warm(self, count: int, timeouts: Timeouts) -> None: ...

    def hand_over(self) -> None: ...

    def cancel_all(self) -> None: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """What was wrong, with what."""

    answer: Hostile
    wrong: str

    def __str__(self) -> str:
        pieces = [len(piece) for piece in self.answer.pieces]
        shown = replace(self.answer, pieces=())
        lines = (
            self.wrong,
            f"  {shown}",
            f"  pieces of {pieces[:40]} bytes, {self.answer.raw[:1000]!r}",
            f"  again: make fuzz FUZZ='--first {self.answer.seed} --answers 1'",
        )
        return "\n".join(lines)


async def taken(answer: Hostile) -> Invocation:
    """One answer, as the invoker records it. Raises whatever it lets through, and AssertionError for what it keeps."""
    invoker = Invoker(_Canned(answer), codec_for(answer.protocol))
    request = GenerationRequest("Once", TOKENS, stream=answer.stream, keep_text=answer.seed % 3 == 0)
    invocation = await asyncio.wait_for(invoker.invoke(request), HANG_S)
    assert invoker._memory.left_bytes == MOST_KEPT_BYTES, "something is kept after the end"
    return invocation


async def wrong_with(answer: Hostile, *, weighed: bool = False) -> tuple[str, OutcomeKind | None]:
    """What is wrong with how it was taken, empty where nothing is; and how it ended. `weighed`: memory, too."""
    if weighed:
        tracemalloc.start()
    try:
        invocation = await taken(answer)
        peak = tracemalloc.get_traced_memory()[1] if weighed else 0
        again = await taken(replace(answer, pieces=tuple(cut(Random(~answer.seed), answer.raw))))
    except Exception as error:  # any at all is a finding
        return f"{type(error).__name__}: {error}", None
    finally:
        if weighed:
            tracemalloc.stop()
    return "; ".join(_problems(answer, invocation, again, peak)), invocation.outcome.kind


def _problems(answer: Hostile, invocation: Invocation, again: Invocation, peak: int) -> Iterable[str]:
    outcome = invocation.outcome
    if len(outcome.code) > CODE_LIMIT or len(outcome.message) > MESSAGE_LIMIT:
        yield f"a code of {len(outcome.code)}, a message of {len(outcome.message)} characters"
    if not outcome.ok and not outcome.code:
        yield "a failure without a code"
    if len(invocation.arrival_ns) > MOST_EVENTS:
        yield f"{len(invocation.arrival_ns)} events kept"
    if not len(invocation.arrival_ns) == len(invocation.arrival_tokens) == len(invocation.read_lag_ns):
        yield "events without a time or a count"
    if peak > MOST_PEAK_BYTES:
        yield f"{peak / 2**20:.0f} MB at the peak"
    if answer.well_framed and _told(invocation) != _told(again):
        yield f"cut otherwise it is another answer: {_told(invocation)}, {_told(again)}"


def _told(invocation: Invocation) -> tuple[object, ...]:
    return invocation.outcome.kind, invocation.outcome.code, invocation.text_length, invocation.output_tokens


def findings(answers: Iterable[Hostile], *, weigh_every: int = 0) -> tuple[list[Finding], Counter[str]]:
    """Everything found, and how many answers ended how. `weigh_every`: of so many answers one has its memory taken."""

    async def main() -> tuple[list[Finding], Counter[str]]:
        found: list[Finding] = []
        kinds: Counter[str] = Counter()
        unheard: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(str(context)))
        for number, answer in enumerate(answers):
            wrong, kind = await wrong_with(answer, weighed=bool(weigh_every) and number % weigh_every == 0)
            kinds[str(kind)] += 1
            if wrong or unheard:
                found.append(Finding(await shrunk(answer, wrong), wrong or unheard.pop()))
            if len(found) >= 10:
                break
        return found, kinds

    return asyncio.run(main())


async def shrunk(answer: Hostile, wrong: str, tries: int = 40) -> Hostile:
    """A shorter answer that fails in the same way: pieces left out, then bytes from either end."""
    size = max(1, len(answer.pieces) // 2)
    while size and tries:
        for start in range(0, len(answer.pieces), size):
            fewer = replace(answer, pieces=answer.pieces[:start] + answer.pieces[start + size :])
            tries -= 1
            if fewer.pieces and (await wrong_with(fewer))[0][:40] == wrong[:40] != "":
                answer = fewer
                break
            if not tries:
                break
        else:
            size //= 2
    return answer
