"""One worker process of a run: `python -m loadproof.bench.load.worker FOLDER ZERO_NS SOCKET`, started by `workers`.

What to send it reads from the run's plan.json; over the socket it hears which share of which level, and when. Lines of
JSON both ways: a record goes back as it is, whatever else is said begins with the key `tell`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from loadproof.bench.batch import Batch
from loadproof.bench.connect import open_invoker
from loadproof.bench.load.batches import measured_batch, share_of, warm_up_batch
from loadproof.bench.load.process import loop_factory
from loadproof.bench.load.runner import Runner
from loadproof.bench.measure.records import FILE_NAME, RequestRecord, line_of, read_records
from loadproof.bench.plan import read_plan
from loadproof.bench.workload.prompts import Prompts
from loadproof.invocation.faults import InvocationFault

Said = dict[str, Any]  # a line of JSON, by its key `tell`
ADDRESS = "LOADPROOF_TARGET"  # the whole of it, of which a plan leaves out what may be secret
LONGEST_LINE_BYTES = 256 * 1024 * 1024
STATE_INTERVAL_S = 0.5


class Worker:
    """Does what one socket says until it closes."""

    def __init__(self, folder: Path, zero_ns: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        plan = read_plan(folder)
        spec = plan.spec
        self._folder, self._reader, self._writer = folder, reader, writer
        self._earlier = read_records(folder / FILE_NAME).records if plan.session else ()
        target = replace(spec.target, endpoint=os.environ.get(ADDRESS, spec.target.endpoint))
        self._invoker = open_invoker(target, spec.request_timeout_s)
        self._runner = Runner(
            self._invoker,
            Prompts(spec.workload, chat=spec.target.chat),
            spec.target.streaming,
            plan.session,
            zero_ns,
            self._keep,
        )
        self._batch: Batch | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        self._tell("ready")
        self._begin(self._say_state())
        with suppress(ConnectionError):  # a run that is over does not read what we still say
            while line := await self._reader.readline():
                self._obey(orjson.loads(line))
        self._runner.stop()
        await self._invoker.close()

    def _obey(self, said: Said) -> None:
        match said["tell"]:
            case "warm":
                self._begin(self._warm(said["count"]))
            case "prepare":
                self._prepare(said["phase"], said["level"], said["number"], said["of"])
            case "run":
                self._begin(self._run(said["start_ns"]))
            case "stop":
                self._runner.stop()

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_end_on_error)

    async def _warm(self, count: int) -> None:
        fault = None
        try:
            await self._invoker.warm(count)
        except InvocationFault as error:
            fault = str(error)
        self._tell("warmed", fault=fault)

    def _prepare(self, phase: str, level: int, number: int, of: int) -> None:
        plan = read_plan(self._folder)  # anew: a search adds levels while the run goes
        batch = warm_up_batch(plan, level) if phase == "warmup" else measured_batch(plan, level, self._earlier)
        assert batch is not None, "nothing is left of the level"
        self._batch = self._runner.prepared(share_of(batch, number, of))
        gc.freeze()
        self._tell("prepared")

    async def _run(self, start_ns: int) -> None:
        assert self._batch is not None
        await self._runner.run(self._batch, start_ns)
        self._tell("ended")

    async def _say_state(self) -> None:
        while True:
            under_way = [[index, left_ns] for (_, index), left_ns in self._runner.under_way.items()]
            waiting = self._invoker.waiting_for_first_token()
            self._tell("state", under_way=under_way, waiting=waiting, cpu_s=time.process_time())
            await asyncio.sleep(STATE_INTERVAL_S)

    def _keep(self, record: RequestRecord) -> None:
        self._writer.write(line_of(record))

    def _tell(self, what: str, **more: object) -> None:
        self._writer.write(orjson.dumps({"tell": what, **more}) + b"\n")


def _end_on_error(task: asyncio.Task[None]) -> None:
    """A bug must not leave a worker that is there and does nothing."""
    if not task.cancelled() and (error := task.exception()) is not None:
        sys.stderr.write(f"a worker process of the benchmark failed: {error!r}\n")
        sys.stderr.flush()
        os._exit(70)


async def _main(folder: Path, zero_ns: int, descriptor: int) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor), limit=LONGEST_LINE_BYTES)
    await Worker(folder, zero_ns, reader, writer).serve()


def main() -> None:
    folder, zero_ns, descriptor = sys.argv[1:]
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_main(Path(folder), int(zero_ns), int(descriptor)))


if __name__ == "__main__":
    main()
