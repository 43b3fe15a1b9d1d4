"""The leader and its hosts' mail, without processes and without S3."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from loadproof.bench.connect import parse_target
from loadproof.bench.load.batches import measured_batch
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.remote.fleet import Fleet
from loadproof.bench.remote.job import upload
from loadproof.bench.remote.mailbox import LEADER, Inbox, Outbox, host_box, parsed_line
from loadproof.bench.remote.merge import fetch
from loadproof.bench.remote.settings import Terms
from loadproof.bench.spec import BenchmarkSpec, WorkloadSpec, fixed_tokens
from loadproof.cli.main import run as loadproof
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
        return sorted(key for key in self.objects if key.startswith(prefix) and key > after)[:1000]  # as S3 does


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
    assert [parsed_line(line) for line in inbox.read()] == [{"tell": "one"}, {"tell": "two"}, {"tell": "three"}]
    assert inbox.read() == []


def test_a_record_is_not_a_thing_told() -> None:
    """Records stand as they are in requests.jsonl."""
    assert parsed_line(b'{"phase":"measured"}') is None


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


def test_results_are_fetched_of_a_run_with_more_mail_than_one_listing_holds(tmp_path: Path) -> None:
    """Two hosts that say something every second have left a thousand objects after eight minutes."""
    shelf = Shelf()
    for number in range(1000):
        shelf.put(f"hosts/algo-1/{number:08d}.jsonl", b"")
    shelf.put("summary.json", b"{}")
    shelf.put("done.json", b'{"exit_code":0,"problem":null,"files":["summary.json"]}')
    fetch(shelf, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_a_run_that_could_not_be_put_into_the_store_leaves_no_folder(tmp_path: Path) -> None:
    """The same command can be tried again, also one with --out; a wrong place is said before anything is made."""
    shelf = Shelf()
    shelf.closed = True
    target = parse_target("http://127.0.0.1:9", "openai", streaming=True)
    spec = BenchmarkSpec(target, WorkloadSpec(fixed_tokens(4), fixed_tokens(4)), (1,), 4)
    with pytest.raises(CouldNotRunError, match="503"):
        upload(spec, lambda run_id: shelf, tmp_path / "run", TERMS, "demo")
    assert not (tmp_path / "run").exists()


def test_a_place_that_is_no_bucket_is_named_as_it_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    """Without the run's id, which nobody typed."""
    arguments = ["--target", "http://127.0.0.1:9", "--protocol", "openai", "--hosts", "2", "--results", "/tmp/a"]
    assert loadproof(["bench", *arguments]) == 2
    assert "'/tmp/a': expected s3://BUCKET or s3://BUCKET/PREFIX" in capsys.readouterr().err


def test_the_slot_of_a_host_that_never_came_is_asked_of_nobody(tmp_path: Path) -> None:
    """Of three slots with four requests each the second is its own: those are missing, by its name."""
    shelf = Shelf()
    target = parse_target("http://127.0.0.1:9", "openai", streaming=True)
    spec = BenchmarkSpec(target, WorkloadSpec(fixed_tokens(4), fixed_tokens(4)), (3,), 12)
    batch = measured_batch(upload(spec, lambda run_id: shelf, tmp_path / "run", TERMS, "demo").plan, 0, ())
    assert batch is not None
    there, fleet, kept = ready(shelf, "algo-1"), fleet_of(shelf, "algo-1", "algo-2"), list[RequestRecord]()
    fleet.on_record = kept.append

    async def answer() -> None:
        heard, over = Inbox(shelf, LEADER), False
        while not over:
            for said in (parsed_line(line) or {} for line in heard.read()):
                over = over or said["tell"] == "over"
                if "order" in said:
                    there.tell("done", order=said["order"], fault=None, incomplete=False)
            there.flush()
            await asyncio.sleep(TERMS.poll_s)

    async def load() -> None:
        await fleet.warm(3)
        await fleet.run(batch)
        await fleet.close()

    async def both() -> None:
        await asyncio.gather(load(), answer())

    asyncio.run(asyncio.wait_for(both(), 30))
    assert fleet.incomplete
    assert {record.index for record in kept} == {1, 4, 7, 10}
    assert {record.error_message for record in kept} == {"host algo-2 of 2 never reported within 0.5 s"}
