"""One host's part in a run: does what the leader tells, with a crew of worker processes, and says how it goes."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path, PurePosixPath

from loadproof.bench.batch import Batch
from loadproof.bench.load.batches import measured_batch, warm_up_batch
from loadproof.bench.load.worker import Said
from loadproof.bench.load.workers import Crew
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.plan import RunPlan
from loadproof.bench.remote.mailbox import LEADER, Inbox, Outbox, host_box, parsed_line
from loadproof.bench.remote.settings import Hosts, Terms, fetch_plan
from loadproof.bench.s3_store import Store
from loadproof.errors import CouldNotRunError, LoadproofError
from loadproof.invocation.faults import InvocationFault

FILES = "files/"


class Agent:
    """Serves one leader until it says that the run is over, or is not heard of any more.

    `folder` is this host's own: the plan and the files it names are put there, and it is the working directory.
    """

    def __init__(self, store: Store, folder: Path, hosts: Hosts, terms: Terms) -> None:
        self._store, self._folder, self._hosts, self._terms = store, folder, hosts, terms
        self._inbox, self._outbox = Inbox(store, LEADER), Outbox(store, host_box(hosts.current))
        self._crew: Crew | None = None
        self._batch: Batch | None = None
        self._plan: RunPlan | None = None
        self._zero_ns = 0
        self._over = False

    async def serve(self) -> None:
        """Raises CouldNotRunError when the leader is lost or the load cannot be sent from here."""
        try:
            await asyncio.to_thread(self._fetch)
            plan = await asyncio.to_thread(self._read_plan)
            self._zero_ns = time.perf_counter_ns() - (time.time_ns() - plan.zero_unix_ns)
            self._crew = Crew(self._folder, plan.spec.workers, self._zero_ns)
            self._crew.on_record, self._crew.session = self._keep, plan.session
            self._outbox.tell("ready", cpu_count=os.cpu_count())
            await self._converse(self._crew)
        except Exception as error:  # a bug too must be heard of at once, not by silence
            self._outbox.tell("failed", why=str(error) if isinstance(error, LoadproofError) else repr(error))
            raise
        finally:
            if self._crew is not None:
                await self._crew.close()
            await asyncio.to_thread(self._outbox.flush)

    async def _converse(self, crew: Crew) -> None:
        """Hear the leader, say where we are, until it is over. Orders are done one after another; a stop is heard."""
        orders: asyncio.Queue[Said] = asyncio.Queue()
        work = asyncio.create_task(self._work(crew, orders))
        heard_s, patient_s = time.monotonic(), self._terms.start_s
        try:
            while not self._over and not work.done():
                for line in await asyncio.to_thread(self._inbox.read):
                    heard_s, patient_s = time.monotonic(), self._terms.lost_s
                    self._hear(crew, line, orders)
                if time.monotonic() - heard_s > patient_s:
                    crew.stop()
                    raise CouldNotRunError(f"{self._hosts.names[0]} leads this run and is not heard of")
                self._say_state(crew)
                await asyncio.to_thread(self._outbox.flush)
                await asyncio.wait({work}, timeout=self._terms.poll_s)
            if work.done():
                work.result()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def _hear(self, crew: Crew, line: bytes, orders: asyncio.Queue[Said]) -> None:
        said = parsed_line(line)
        match said and said["tell"]:
            case "stop":
                crew.stop()
            case "over":
                self._over = True
            case "warm" | "prepare" | "run":
                assert said is not None
                orders.put_nowait(said)

    async def _work(self, crew: Crew, orders: asyncio.Queue[Said]) -> None:
        while True:
            said = await orders.get()
            self._outbox.tell("done", order=said["order"], **await self._do(crew, said))

    async def _do(self, crew: Crew, said: Said) -> dict[str, object]:
        if said["tell"] == "warm":
            try:
                await crew.warm(_part(said["count"], self._hosts))
            except InvocationFault as fault:
                return {"fault": str(fault)}
            return {"fault": None}
        if said["tell"] == "prepare":
            plan = await asyncio.to_thread(self._read_plan)  # anew: a search adds levels while the run goes
            level = said["level"]
            self._batch = warm_up_batch(plan, level) if said["phase"] == "warmup" else measured_batch(plan, level, ())
            assert self._batch is not None, "nothing is left of the level"
            await crew.prepare(self._batch, self._hosts.number, len(self._hosts.names))
            return {}
        assert self._batch is not None
        assert self._plan is not None
        await crew.run(self._batch, said["start_unix_ns"] - self._plan.zero_unix_ns + self._zero_ns)
        return {"incomplete": crew.incomplete}

    def _keep(self, record: RequestRecord) -> None:
        self._outbox.add(record)

    def _say_state(self, crew: Crew) -> None:
        under_way = [[index, left_ns - self._zero_ns] for (_, index), left_ns in crew.under_way.items()]
        self._outbox.tell("state", unix_ns=time.time_ns(), under_way=under_way, waiting=crew.waiting_for_first_token())

    def _read_plan(self) -> RunPlan:
        self._plan = fetch_plan(self._store, self._folder)
        return self._plan

    def _fetch(self) -> None:
        """The files that the plan names: traces, datasets, a tokenizer."""
        last = FILES
        while page := self._store.keys(FILES, last):
            for key in page:
                path = self._folder / FILES / PurePosixPath(key).relative_to(FILES)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self._store.get(key) or b"")
            last = page[-1]


def _part(count: int, hosts: Hosts) -> int:
    """This host's part of `count` connections."""
    of = len(hosts.names)
    return count // of + (hosts.number < count % of)
