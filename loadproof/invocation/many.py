"""Many requests through one invoker, in two faces.

async for result in invoke_many(items, invoker):              # `auto`: finds how many in flight are best
    result.item.key, result.outcome, result.invocation, result.attempts

for result in invoke_many_sync(items, open_invoker, concurrency=8): ...      # the same without asyncio
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, suppress
from typing import Any, Literal

from loadproof.errors import InputError
from loadproof.invocation.adaptive import Auto, Bound
from loadproof.invocation.chains import Item
from loadproof.invocation.concurrency import Pace
from loadproof.invocation.engine import MOST_UNDELIVERED, TICK_S, ItemResult, Many, Sender
from loadproof.invocation.invoker import Invoker

MOST_IN_FLIGHT = 512  # of `auto`, where nothing else bounds it


def pace_of(concurrency: int | Literal["auto"], *, most: int = MOST_IN_FLIGHT, bounds: Iterable[Bound] = ()) -> Pace:
    """A fixed number in flight, which refusals lower for a while, or the number that is best, up to `most`."""
    if concurrency == "auto":
        return Pace(most, Auto(most, tuple(bounds)))
    if concurrency < 1:
        raise InputError(f"concurrency {concurrency}: expected auto or a whole number from 1")
    return Pace(concurrency)


async def invoke_many(
    items: Iterable[Item],
    sender: Sender,
    *,
    concurrency: int | Literal["auto"] = "auto",
    most: int = MOST_IN_FLIGHT,
    bounds: Iterable[Bound] = (),
    **options: Any,
) -> AsyncGenerator[ItemResult]:
    """Results as they end. `bounds` and `most` go with `auto`; `options` are those of `Many`.

    Raises CouldNotRunError when nothing is answered any more, InputError for a concurrency below 1.
    """
    many = Many(sender, pace_of(concurrency, most=most, bounds=bounds), **options)
    async with aclosing(many.run(items)) as results:
        async for result in results:
            yield result


def invoke_many_sync(
    items: Iterable[Item], open_invoker: Callable[[], Invoker], **options: Any
) -> Iterator[ItemResult]:
    """`invoke_many` for code without an event loop: it runs in a thread of its own, and this yields what ends.

    `open_invoker` is called in that thread. Leaving the loop early ends the requests in flight.
    """
    results: queue.SimpleQueue[ItemResult | BaseException | None] = queue.SimpleQueue()
    leave: list[Callable[[], object]] = []

    async def drive() -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        leave.append(lambda: loop.call_soon_threadsafe(task.cancel))
        invoker = open_invoker()
        try:
            async with aclosing(invoke_many(items, invoker, **options)) as ended:
                async for result in ended:
                    results.put(result)
                    while results.qsize() >= MOST_UNDELIVERED:
                        await asyncio.sleep(TICK_S)
        finally:
            await invoker.close()

    def run() -> None:
        try:
            asyncio.run(drive())
            results.put(None)
        except BaseException as error:  # raised where the results are read
            results.put(error)

    thread = threading.Thread(target=run, name="invoke_many", daemon=True)
    thread.start()
    try:
        while (result := results.get()) is not None:
            if isinstance(result, BaseException):
                raise result
            yield result
    finally:
        if thread.is_alive():
            with suppress(RuntimeError):  # its loop has just closed
                leave[0]()
        thread.join()
