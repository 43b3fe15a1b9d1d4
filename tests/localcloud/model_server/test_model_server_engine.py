"""The twin's engine in virtual time, where every token's moment can be worked out by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from loadproof.capacity import BatchLimits
from loadproof.localcloud.model_server.container import ContainerDiedError
from loadproof.localcloud.model_server.engine import Engine, Generation, RejectedError
from loadproof.simulation import ContinuousBatcher


class VirtualClock:
    """Time that passes only when somebody sleeps: a test's hour takes a millisecond and is exact."""

    # Turns of the event loop given to the consumers of a step's tokens before time moves on.
    _TURNS = 20

    def __init__(self) -> None:
        self._now_ms = 0.0

    def now_ms(self) -> float:
        return self._now_ms

    async def sleep_until(self, deadline_ms: float) -> None:
        for _ in range(self._TURNS):
            await asyncio.sleep(0)
        self._now_ms = max(self._now_ms, deadline_ms)


class HandMadeSteps:
    """1 ms a prompt token to prefill, 10 ms to decode one step of any size."""

    def step_ms(self, *, decodes: int = 0, prefill_tokens: int = 0, **_: object) -> float:
        return (10.0 if decodes else 0.0) + 1.0 * prefill_tokens


class BrokenSteps(HandMadeSteps):
    def step_ms(self, **_: Any) -> float:
        raise ZeroDivisionError


def limits(max_admitted_requests: int = 100) -> BatchLimits:
    return BatchLimits(
        scheduler="prefill_first",
        max_sequences=100,
        step_prefill_tokens=1000,
        max_request_tokens=None,
        max_input_tokens=None,
        max_admitted_requests=max_admitted_requests,
        kv_token_capacity=10_000,
    )


def engine(clock: Any, steps: Any = None, admitted: int = 100) -> Engine:
    return Engine(ContinuousBatcher(steps or HandMadeSteps(), limits(admitted)), clock)


async def times_ms(generation: Generation, clock: VirtualClock) -> list[float]:
    return [clock.now_ms() async for _ in generation]


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 60))


def test_one_request_is_prefilled_then_decoded() -> None:
    """30 prompt tokens: first token after 30 ms, then one every 10 ms, four in all."""

    async def scene() -> list[float]:
        clock = VirtualClock()
        running = engine(clock)
        found = await times_ms(running.submit(30, 4), clock)
        await running.close()
        return found

    assert run(scene()) == [30.0, 40.0, 50.0, 60.0]


def test_two_requests_share_prefill_and_decode_steps() -> None:
    """Submitted together, 20 + 30 prompt tokens prefill in 50 ms; both then decode in the same 10 ms steps."""

    async def scene() -> list[list[float]]:
        clock = VirtualClock()
        running = engine(clock)
        both = [running.submit(20, 3), running.submit(30, 2)]
        found = await asyncio.gather(*(times_ms(one, clock) for one in both))
        await running.close()
        return found

    assert run(scene()) == [[50.0, 60.0, 70.0], [50.0, 60.0]]


def test_canceling_frees_the_batch_and_ends_nothing_else() -> None:
    """The canceled neighbour is gone from the engine; the other request keeps its rhythm and count."""

    async def scene() -> tuple[list[float], int]:
        clock = VirtualClock()
        running = engine(clock)
        kept, dropped = running.submit(10, 5), running.submit(10, 1000)
        found = [clock.now_ms() async for index in kept if index != 1 or running.cancel(dropped) is None]
        left = running.outstanding
        await running.close()
        return found, left

    assert run(scene()) == ([20.0, 30.0, 40.0, 50.0, 60.0], 0)


def test_a_full_queue_refuses() -> None:
    """The third request over a limit of two is rejected at once; the first two are untouched."""

    async def scene() -> int:
        running = engine(VirtualClock(), admitted=2)
        running.submit(1, 5)
        running.submit(1, 5)
        with pytest.raises(RejectedError, match="queue_full"):
            running.submit(1, 5)
        found = running.outstanding
        await running.close()
        return found

    assert run(scene()) == 2


@pytest.mark.parametrize("steps", [HandMadeSteps(), BrokenSteps()])
def test_a_stopped_or_crashed_engine_ends_its_generations(steps: Any) -> None:
    """Nobody waits for ever: closing the engine, or a defect in it, is a container that died."""

    async def scene() -> None:
        running = engine(VirtualClock(), steps)
        generation = running.submit(10, 9_000)

        async def consume() -> None:
            async for _ in generation:
                pass

        consumer = asyncio.create_task(consume())
        await asyncio.sleep(0.01)
        await running.close()
        with pytest.raises(ContainerDiedError):
            await consumer

    run(scene())


class LateClock(VirtualClock):
    """Wakes every sleeper a millisecond late."""

    async def sleep_until(self, deadline_ms: float) -> None:
        await super().sleep_until(deadline_ms + 1.0)


def test_lateness_does_not_add_up() -> None:
    """Fifty steps of 2 ms, each woken 1 ms late: the last token is there after 101 ms, not after 150."""

    class Quick(HandMadeSteps):
        def step_ms(self, **_: Any) -> float:
            return 2.0

    async def scene() -> tuple[list[float], Engine]:
        clock = LateClock()
        running = engine(clock, Quick())
        found = await times_ms(running.submit(1, 50), clock)
        await running.close()
        return found, running

    found, running = run(scene())
    assert found[-1] == pytest.approx(101.0)
    assert (running.lateness.steps, running.lateness.max_ms) == (50, pytest.approx(1.0))
