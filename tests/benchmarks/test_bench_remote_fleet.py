"""The leader and its hosts' mail, without processes and without S3."""

from __future__ import annotations

import asyncio
import time

import pytest

from benchmarks.remote.fleet import Fleet
from benchmarks.remote.mailbox import Inbox, Outbox, host_box, told
from benchmarks.remote.settings import Terms
from loadproof.errors import CouldNotRunError

TERMS = Terms(poll_s=0.02, lost_s=5.0, start_s=0.5)


class Shelf:
    """A store in memory. `closed`: it refuses what comes."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.closed = False

    def put(self, key: str, body: bytes) -> None:
        if self.closed:
            raise CouldNotRunError("503 SlowDown")
        self.objects[key] = body

    def get(self, key: str) -> bytes | None:
        return self.objects.get(key)

    def keys(self, prefix: str, after: str = "") -> list[str]:
        if self.closed:
            raise CouldNotRunError("503 SlowDown")
        return sorted(key for key in self.objects if key.startswith(prefix) and key > after)


def test_mail_arrives_once_and_in_order_also_over_a_store_that_fails() -> None:
    """What a refused flush held goes with the next one; a look that fails loses nothing."""
    shelf = Shelf()
    outbox, inbox = Outbox(shelf, "hosts/algo-1"), Inbox(shelf, "hosts/algo-1")
    other = Outbox(shelf, "hosts/algo-10")
    outbox.tell("one")
    other.tell("not ours")
    assert outbox.flush() and other.flush()
    outbox.tell("two")
    shelf.closed = True
    assert not outbox.flush()
    assert inbox.read() == []
    outbox.tell("three")
    shelf.closed = False
    assert outbox.flush()
    assert [told(line) for line in inbox.read()] == [{"tell": "one"}, {"tell": "two"}, {"tell": "three"}]
    assert inbox.read() == []


def test_a_record_is_not_a_thing_told() -> None:
    """Records stand as they are in requests.jsonl."""
    assert told(b'{"phase":"measured"}') is None


def ready(shelf: Shelf, host: str, *, clock_ahead_s: float = 0.0) -> Outbox:
    outbox = Outbox(shelf, host_box(host))
    outbox.tell("ready", cpu_count=1)
    outbox.tell("state", unix_ns=time.time_ns() + round(clock_ahead_s * 1e9), under_way=[], waiting=0)
    outbox.flush()
    return outbox


def fleet_of(shelf: Shelf, *hosts: str) -> Fleet:
    return Fleet(shelf, hosts, time.time_ns(), time.perf_counter_ns(), TERMS)


async def warmed(fleet: Fleet, boxes: dict[str, Outbox]) -> None:
    """Have every host answer the one order there is."""

    async def answer() -> None:
        await asyncio.sleep(TERMS.start_s + 0.3)
        for outbox in boxes.values():
            outbox.tell("done", order=1, fault=None)
            outbox.flush()

    await asyncio.gather(fleet.warm(4), answer())
    fleet._refuse_wrong_clocks()
    await fleet.close()


@pytest.mark.parametrize("ahead_s", [-30.0, 30.0])
def test_a_host_with_a_wrong_clock_is_refused(ahead_s: float) -> None:
    """It would start at another time than the others and nobody would see it in its records."""
    shelf = Shelf()
    boxes = {"algo-1": ready(shelf, "algo-1"), "algo-2": ready(shelf, "algo-2", clock_ahead_s=ahead_s)}
    fleet = fleet_of(shelf, *boxes)
    asyncio.run(warmed(fleet, boxes))
    assert fleet.lost.keys() == {"algo-2"}
    word = "ahead of" if ahead_s > 0 else "behind"
    assert f"s {word} its leader's" in fleet.lost["algo-2"]


def test_hosts_that_never_come_are_lost_and_none_at_all_is_an_error() -> None:
    """The others go on; without any there is no run."""
    shelf = Shelf()
    boxes = {"algo-1": ready(shelf, "algo-1")}
    fleet = fleet_of(shelf, "algo-1", "algo-2")
    asyncio.run(warmed(fleet, boxes))
    assert fleet.lost == {"algo-2": "never reported within 0.5 s"}
    empty = fleet_of(Shelf(), "algo-1")
    with pytest.raises(CouldNotRunError, match=r"no host is left: algo-1 never reported"):
        asyncio.run(empty.warm(1))
