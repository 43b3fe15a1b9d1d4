"""One load from several processes: what one process cannot send and read in time, a crew shares.

Every process makes the same batch from the same plan and takes its own share of it (`batches`), at the batch's own
absolute times. Records come back as requests end and are kept by one writer; percentiles are exact as ever. A worker
that dies is never silently absent: each request of its share without a record gets one that says `missing`, which
makes what would pass at the level INVALID, and --resume sends it again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson

from loadproof.bench.batch import Batch
from loadproof.bench.load.batches import places_of, share_of
from loadproof.bench.load.runner import CANCEL_GRACE_S
from loadproof.bench.load.worker import ADDRESS, LONGEST_LINE_BYTES, Said
from loadproof.bench.measure.records import MISSING, RequestRecord, bare_record, parse_record
from loadproof.errors import CouldNotRunError
from loadproof.invocation.faults import ConnectionFault

LEAD_S = 0.05  # from telling the workers to start to the batch's zero
START_S = 60.0  # what a worker may take to come up on a busy machine


@dataclass(slots=True)
class Recorded:
    """Of which requests of a batch there is a record: a byte each."""

    held: bytearray = field(default_factory=bytearray)

    def add(self, index: int) -> None:
        if index >= len(self.held):
            self.held.extend(bytes(index + 4096 - len(self.held)))
        self.held[index] = 1

    def __contains__(self, index: int) -> bool:
        return index < len(self.held) and bool(self.held[index])


@dataclass(slots=True)
class _Member:
    """One worker process as its crew sees it. `lost` says why it is gone; None while it lives."""

    number: int
    process: subprocess.Popen[bytes]
    writer: asyncio.StreamWriter
    answer: asyncio.Future[Said | None]
    heard: asyncio.Task[None] | None = None
    lost: str | None = None
    waiting: int = 0
    cpu_s: float = 0.0
    under_way: tuple[tuple[int, int], ...] = ()
    recorded: Recorded = field(default_factory=Recorded)  # of the batch under way

    def ask(self, what: str, **more: object) -> asyncio.Future[Said | None]:
        """Tell the worker and await its one answer; None if it is lost."""
        self.answer = asyncio.get_running_loop().create_future()
        if self.lost is not None:
            self.answer.set_result(None)
        else:
            self.tell(what, **more)
        return self.answer

    def tell(self, what: str, **more: object) -> None:
        self.writer.write(orjson.dumps({"tell": what, **more}) + b"\n")


class Together(ABC):
    """What drives batches from several processes, here (`Crew`) or on several machines (`remote.fleet`).

    Records are handed on as they come; where that fails, the run ends.
    """

    def __init__(self) -> None:
        self.on_record: Callable[[RequestRecord], None] = lambda record: None
        self.session = 0
        self.stopped = False
        self.incomplete = False  # is a part of the last batch missing?
        self._failure: Exception | None = None

    @property
    @abstractmethod
    def under_way(self) -> Mapping[tuple[int, int], int]: ...

    @abstractmethod
    def waiting_for_first_token(self) -> int: ...

    def cpu_s(self) -> float | None:
        """CPU time of all processes that send; None: unknown."""
        return None

    @abstractmethod
    async def warm(self, count: int) -> None: ...

    @abstractmethod
    async def run(self, batch: Batch) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    def stop(self) -> None:
        """Send nothing more and end what is in flight."""
        self.stopped = True

    def _keep(self, record: RequestRecord) -> None:
        try:
            self.on_record(record)
        except Exception as error:  # a full disk: end the run, which then raises it
            self._failure = self._failure or error
            self.stop()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


class Crew(Together):
    """Drives batches like a `Runner`, and opens connections like its sender, with `workers` processes."""

    def __init__(
        self,
        folder: Path,
        workers: int,
        zero_ns: int,
        address: str | None = None,
        *,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """`folder` holds the run's plan.json; `address`: the whole one, of which the plan may leave out a part.

        The processes start with the first `warm` and end with `close`.
        """
        super().__init__()
        self._folder, self._size, self._zero_ns, self._clock_ns = folder, workers, zero_ns, clock_ns
        self._environment = os.environ | ({} if address is None else {ADDRESS: address})
        self._members: list[_Member] = []
        self._level = 0
        self._prepared: tuple[list[_Member], Batch] | None = None

    @property
    def under_way(self) -> dict[tuple[int, int], int]:
        """(level, index) -> when it left, oldest first; half a second old at most."""
        rows = sorted((left_ns, index) for member in self._living() for index, left_ns in member.under_way)
        return {(self._level, index): left_ns for left_ns, index in rows}

    def waiting_for_first_token(self) -> int:
        return sum(member.waiting for member in self._living())

    def cpu_s(self) -> float:
        return time.process_time() + sum(member.cpu_s for member in self._members)

    async def warm(self, count: int) -> None:
        """Have the crew hold `count` open connections.

        Raises ConnectionFault, and CouldNotRunError when a worker cannot start or none is left.
        """
        if not self._members:
            await self._start()
        living = self._living()
        if not living:
            raise CouldNotRunError("every worker process was lost; go on with --resume")
        shares = (count // len(living) + (place < count % len(living)) for place in range(len(living)))
        replies = await asyncio.gather(
            *(member.ask("warm", count=share) for member, share in zip(living, shares, strict=True))
        )
        for reply in replies:
            if reply is not None and reply["fault"] is not None:
                raise ConnectionFault("refused", reply["fault"])

    async def prepare(self, batch: Batch, number: int = 0, of: int = 1) -> None:
        """Have every worker make its share of the batch; of that, crew `number` of `of` crews sends a part.

        Worker w of W takes share number + of · w of (of · W): its share of the crew's share.
        """
        self._level, self.incomplete = batch.level, False
        living = self._living()
        for member in living:
            member.recorded = Recorded()
        said = {"phase": batch.phase, "level": batch.level, "of": of * len(living)}
        await asyncio.gather(
            *(member.ask("prepare", number=number + of * n, **said) for n, member in enumerate(living))
        )
        self._prepared = living, batch if of == 1 else share_of(batch, number, of)

    async def run(self, batch: Batch, start_ns: int | None = None) -> None:
        """Returns when every share has ended or is lost, or soon after `stop`. Raises what `on_record` raised.

        A batch that was not prepared is. `start_ns` is the schedule's zero; None: at once.
        """
        if self._prepared is None:
            await self.prepare(batch)
        assert self._prepared is not None
        (living, share), self._prepared = self._prepared, None
        start_ns = self._clock_ns() + round(LEAD_S * 1e9) if start_ns is None else start_ns
        ended = {member.ask("run", start_ns=start_ns) for member in living}
        while ended and not self.stopped:
            _, ended = await asyncio.wait(ended, timeout=CANCEL_GRACE_S)
        if ended:
            await asyncio.wait(ended, timeout=2 * CANCEL_GRACE_S)
        if not self.stopped:
            self._record_losses(share, living, start_ns)
        self._raise_failure()

    def stop(self) -> None:
        super().stop()
        for member in self._living():
            member.tell("stop")

    async def close(self) -> None:
        """Every process is gone when this returns."""
        for member in self._members:
            member.writer.close()
        for member in self._members:
            try:
                await asyncio.to_thread(member.process.wait, 2.0)
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
            if member.heard is not None:
                member.heard.cancel()

    def _living(self) -> list[_Member]:
        return [member for member in self._members if member.lost is None]

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        ready = []
        for number in range(self._size):
            ours, theirs = socket.socketpair()
            command = [sys.executable, "-m", "loadproof.bench.load.worker", str(self._folder), str(self._zero_ns)]
            with theirs:
                # A group of its own: Ctrl-C is for us to hear and to pass on.
                command.append(str(theirs.fileno()))
                process = subprocess.Popen(
                    command,
                    env=self._environment,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    process_group=0,
                )
            reader, writer = await asyncio.open_connection(sock=ours, limit=LONGEST_LINE_BYTES)
            member = _Member(number, process, writer, loop.create_future())
            member.heard = loop.create_task(self._hear(member, reader))
            self._members.append(member)
            ready.append(member.answer)
        try:
            async with asyncio.timeout(START_S):
                await asyncio.gather(*ready)
        except TimeoutError:
            raise CouldNotRunError(f"worker processes did not start within {START_S:g} s; give fewer workers") from None
        if lost := [member.lost for member in self._members if member.lost]:
            raise CouldNotRunError(f"worker processes could not start: {lost[0]}")

    async def _hear(self, member: _Member, reader: asyncio.StreamReader) -> None:
        """Take what one worker says until it says no more."""
        with suppress(ConnectionError):
            while (line := await reader.readline()).endswith(b"\n"):
                self._take(member, line)
        code = await asyncio.to_thread(member.process.wait)
        member.lost = _how(code)
        if not member.answer.done():
            member.answer.set_result(None)

    def _take(self, member: _Member, line: bytes) -> None:
        if not line.startswith(b'{"tell"'):
            record = parse_record(line, f"worker {member.number}")
            if record is not None:
                member.recorded.add(record.index)
                self._keep(record)
            return
        said = orjson.loads(line)
        if said["tell"] == "state":
            member.under_way, member.waiting = tuple(map(tuple, said["under_way"])), said["waiting"]
            member.cpu_s = said["cpu_s"]
        elif not member.answer.done():
            member.answer.set_result(said)

    def _record_losses(self, batch: Batch, members: list[_Member], start_ns: int) -> None:
        lost = {
            place: Lost(member.recorded, f"worker process {member.number + 1} of {self._size} {member.lost}")
            for place, member in enumerate(members)
            if member.lost is not None
        }
        self.incomplete = bool(lost)
        for record in missing_records(batch, lost, len(members), self.session, start_ns - self._zero_ns):
            self._keep(record)


@dataclass(frozen=True, slots=True)
class Lost:
    """One share whose sender is gone: what of it is recorded, and how it went."""

    recorded: Recorded
    why: str


def missing_records(
    batch: Batch, lost: Mapping[int, Lost], places: int, session: int, start_ns: int
) -> Iterator[RequestRecord]:
    """A record for each request of the lost shares that has none; `lost` by its place among `places` shares.

    What a share that ends by time would still have sent nobody knows; what its slots had in flight is missing.
    """
    slots = len(batch.schedule.slot_open_ns)
    left = {place: -(-(slots - place) // places) if batch.duration_s is not None else None for place in lost}
    for place, turns in zip(places_of(batch, places), batch.conversations, strict=False):
        if all(most == 0 for most in left.values()):
            return
        for index in turns if left.get(place, 0) != 0 else ():
            if index not in lost[place].recorded:
                most = left[place]
                yield _missing(batch, index, session, start_ns, lost[place].why)
                left[place] = None if most is None else most - 1


def _missing(batch: Batch, index: int, session: int, start_ns: int, why: str) -> RequestRecord:
    """What is left to say of a request whose worker was lost: that it was to be sent, at the level's start or later."""
    return replace(
        bare_record(index, start_ns, start_ns, MISSING),
        phase=batch.phase,
        session=session,
        level=batch.level,
        concurrency=batch.concurrency,
        error_code="WorkerLost",
        error_message=why,
    )


def _how(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return f"ended by itself with exit code {code}"
