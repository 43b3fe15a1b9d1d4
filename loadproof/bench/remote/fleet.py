"""The leader's view of all hosts: drives batches as a crew of worker processes does, over a store.

Every host sends a fixed share of each batch, by its place in the job's host list. A host that is lost, or never came,
leaves records that say `missing` for its share of every batch, so that no level it should have taken part in can pass.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field

from loadproof.bench.batch import Batch
from loadproof.bench.live.lines import Line
from loadproof.bench.load.worker import Said
from loadproof.bench.load.workers import Lost, Recorded, Together, missing_records
from loadproof.bench.measure.records import parse_record
from loadproof.bench.remote.mailbox import LEADER, Inbox, Outbox, host_box, parsed_line
from loadproof.bench.remote.settings import Terms
from loadproof.bench.s3_store import Store
from loadproof.errors import CouldNotRunError
from loadproof.invocation.faults import ConnectionFault

STOP = "stop"  # an object of this key ends the run in order
MOST_APART_S = 2.0  # clocks: a host that starts later than the others is another load
LEAD_POLLS = 3  # from telling to the start: everybody looks at the store at least twice


@dataclass(slots=True)
class _Host:
    """One host as its leader sees it. `lost` says why it is gone; None while it is there."""

    name: str
    inbox: Inbox
    heard_s: float
    ready: bool = False
    lost: str | None = None
    behind_s: float | None = None  # the least that its clock ever seemed behind, its words' way included
    waiting: int = 0
    under_way: tuple[tuple[int, int], ...] = ()
    recorded: Recorded = field(default_factory=Recorded)  # of the batch under way
    answer: asyncio.Future[Said | None] | None = None


class Fleet(Together):
    """Drives batches like a `Crew`, with hosts for processes. It listens from the first `warm` until `close`."""

    def __init__(self, store: Store, hosts: tuple[str, ...], zero_unix_ns: int, zero_ns: int, terms: Terms) -> None:
        """`zero_unix_ns` is the run's zero on the wall clock, `zero_ns` the same on this host's own."""
        super().__init__()
        self._store, self._zero_unix_ns, self._zero_ns, self._terms = store, zero_unix_ns, zero_ns, terms
        now_s = time.monotonic()
        self._hosts = [_Host(name, Inbox(store, host_box(name)), now_s) for name in hosts]
        self._outbox = Outbox(store, LEADER)
        self._listening: asyncio.Task[None] | None = None
        self._batch: Batch | None = None
        self._order = 0

    @property
    def lost(self) -> dict[str, str]:
        """Why each lost host is lost."""
        return {host.name: host.lost for host in self._hosts if host.lost is not None}

    @property
    def under_way(self) -> dict[tuple[int, int], int]:
        level = self._batch.level if self._batch else 0
        rows = sorted((left_ns + self._zero_ns, index) for host in self._living() for index, left_ns in host.under_way)
        return {(level, index): left_ns for left_ns, index in rows}

    def waiting_for_first_token(self) -> int:
        return sum(host.waiting for host in self._living())

    def show(self, line: Line) -> None:
        """Tell whoever follows the run."""
        self._outbox.tell("live", line=line)

    async def warm(self, count: int) -> None:
        """Have the hosts hold `count` connections. Raises ConnectionFault; CouldNotRunError when no host is left."""
        if self._listening is None:
            await self._gather()
        for reply in await self._ask("warm", count=count):
            if reply is not None and reply["fault"] is not None:
                raise ConnectionFault("refused", reply["fault"])

    async def run(self, batch: Batch) -> None:
        """Returns when every share has ended or is lost, or soon after `stop`. Raises what `on_record` raised."""
        self._batch, self.incomplete = batch, False
        for host in self._hosts:
            host.recorded = Recorded()
        await self._ask("prepare", phase=batch.phase, level=batch.level)
        self._refuse_wrong_clocks()
        start_unix_ns = time.time_ns() + round(LEAD_POLLS * self._terms.poll_s * 1e9)
        replies = await self._ask("run", start_unix_ns=start_unix_ns)
        self.incomplete = any(reply is None or reply["incomplete"] for reply in replies) or bool(self.lost)
        if not self.stopped:
            lost = {
                place: Lost(host.recorded, f"host {host.name} of {len(self._hosts)} {host.lost}")
                for place, host in enumerate(self._hosts)
                if host.lost is not None
            }
            start_ns = start_unix_ns - self._zero_unix_ns
            for record in missing_records(batch, lost, len(self._hosts), self.session, start_ns):
                self._keep(record)
        self._raise_failure()

    def stop(self) -> None:
        super().stop()
        self._outbox.tell("stop")

    async def close(self) -> None:
        """Tell the hosts that the run is over."""
        self._outbox.tell("over")
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening
        await asyncio.to_thread(self._outbox.flush)

    def _living(self) -> list[_Host]:
        return [host for host in self._hosts if host.lost is None]

    async def _gather(self) -> None:
        """Wait until every host has said that it is ready; who has not by then is lost."""
        self._listening = asyncio.create_task(self._listen())
        until_s = time.monotonic() + self._terms.start_s
        while not all(host.ready or host.lost for host in self._hosts) and not self.stopped:
            if self._listening.done():
                self._listening.result()
            if time.monotonic() > until_s:
                for host in self._hosts:
                    if not host.ready:
                        self._lose(host, f"never reported within {self._terms.start_s:g} s")
            await asyncio.sleep(self._terms.poll_s / 2)
        self._refuse_none()

    def _refuse_none(self) -> None:
        if not self._living():
            raise CouldNotRunError("no host is left: " + "; ".join(f"{name} {why}" for name, why in self.lost.items()))

    def _refuse_wrong_clocks(self) -> None:
        """What a host says is heard up to a poll later, so only what no delay explains is a clock's fault."""
        for host in self._living():
            least_s = host.behind_s or 0.0
            if least_s < -MOST_APART_S or least_s > MOST_APART_S + self._terms.poll_s:
                self._lose(
                    host, f"has a clock {abs(least_s):.1f} s {'ahead of' if least_s < 0 else 'behind'} its leader's"
                )

    async def _ask(self, what: str, **more: object) -> list[Said | None]:
        """Tell every host, wait for each one's answer: None of one that is lost. Stopped, it does not wait long."""
        self._refuse_none()
        self._order += 1
        loop = asyncio.get_running_loop()
        answers = []
        for host in self._hosts:
            host.answer = loop.create_future()
            answers.append(host.answer)
            if host.lost is not None:
                host.answer.set_result(None)
        self._outbox.tell(what, order=self._order, **more)
        await asyncio.to_thread(self._outbox.flush)
        grace_s = None
        pending: set[asyncio.Future[Said | None]] = set(answers)
        while pending:
            _, pending = await asyncio.wait(pending, timeout=self._terms.poll_s)
            if self._listening is not None and self._listening.done():
                self._listening.result()
            if self.stopped:
                grace_s = 4 * self._terms.poll_s + 2.0 if grace_s is None else grace_s - self._terms.poll_s
                if grace_s <= 0:
                    break
        return [answer.result() if answer.done() else None for answer in answers]

    async def _listen(self) -> None:
        while True:
            await asyncio.gather(*(self._hear(host) for host in self._living()))
            with suppress(CouldNotRunError):  # a look that fails is made again
                if not self.stopped and await asyncio.to_thread(self._store.get, STOP) is not None:
                    self.stop()
            self._outbox.tell("beat")
            await asyncio.to_thread(self._outbox.flush)
            await asyncio.sleep(self._terms.poll_s)

    async def _hear(self, host: _Host) -> None:
        lines = await asyncio.to_thread(host.inbox.read)
        now_s = time.monotonic()
        for line in lines:
            host.heard_s = now_s
            said = parsed_line(line)
            if said is not None:
                self._take(host, said)
            elif (record := parse_record(line, f"host {host.name}")) is not None:
                batch = self._batch
                if batch is not None and (record.phase, record.level) == (batch.phase, batch.level):
                    host.recorded.add(record.index)
                self._keep(record)
        if host.ready and host.lost is None and now_s - host.heard_s > self._terms.lost_s:
            self._lose(host, f"was not heard of for {self._terms.lost_s:g} s")

    def _take(self, host: _Host, said: Said) -> None:
        match said["tell"]:
            case "ready":
                host.ready = True
            case "state":
                host.under_way, host.waiting = tuple(map(tuple, said["under_way"])), said["waiting"]
                behind_s = (time.time_ns() - said["unix_ns"]) / 1e9
                host.behind_s = behind_s if host.behind_s is None else min(host.behind_s, behind_s)
            case "failed":
                self._lose(host, f"could not go on: {said['why']}")
            case "done" if said["order"] == self._order and host.answer is not None and not host.answer.done():
                host.answer.set_result(said)

    def _lose(self, host: _Host, why: str) -> None:
        host.lost = host.lost or why
        if host.answer is not None and not host.answer.done():
            host.answer.set_result(None)
