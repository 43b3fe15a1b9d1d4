"""Start a run on several hosts, follow it, bring back one run folder: `loadproof bench --remote`, and with `--hosts`.

What is left under the run's prefix: plan.json, remote.json, files/ (what the plan names), leader/ and hosts/<host>/
(what each said, records included), at the end summary.json, requests.jsonl, report.html and done.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from loadproof.bench.document import read_summary
from loadproof.bench.job import claimed, release
from loadproof.bench.judging import RunResult, judge_run
from loadproof.bench.live.lines import OnLine
from loadproof.bench.plan import FILE_NAME as PLAN_FILE
from loadproof.bench.plan import RunPlan, run_id_of, write_plan
from loadproof.bench.remote.fleet import STOP
from loadproof.bench.remote.host import DONE
from loadproof.bench.remote.mailbox import LEADER, Inbox, parsed_line
from loadproof.bench.remote.merge import fetch, merge_hosts
from loadproof.bench.remote.planning import planned_for_hosts
from loadproof.bench.remote.settings import Terms, write_terms
from loadproof.bench.s3_store import Store
from loadproof.bench.spec import BenchmarkSpec
from loadproof.errors import CouldNotRunError, InputError

STOPPED_S = 60.0  # what a stopped run has to come to its end


class Launcher(Protocol):
    """Starts the hosts of a run somewhere. `ended` says how that went, None while they are at it.

    `close` leaves nobody at work; `done`: the leader has said all it had to.
    """

    hosts: tuple[str, ...]

    def start(self, run_uri: str) -> None: ...

    def ended(self) -> str | None: ...

    def close(self, done: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """A run whose plan is in the store."""

    plan: RunPlan
    folder: Path
    store: Store


def upload(
    spec: BenchmarkSpec, open_store: Callable[[str], Store], folder: Path | None, terms: Terms, name: str
) -> RemoteRun:
    """Plan the run and put all its hosts need into the store. Raises InputError, CouldNotRunError.

    `open_store` gives the store of one run's id; `folder` None is `runs/<run-id>`.
    """
    now_ns = time.time_ns()
    folder, run_id = claimed(folder, run_id_of(now_ns, name))
    try:
        store = open_store(run_id)
        plan = planned_for_hosts(spec, store, run_id, now_ns)
        write_plan(folder, plan)
        store.put(PLAN_FILE, (folder / PLAN_FILE).read_bytes())
        write_terms(store, terms)
    except (CouldNotRunError, InputError):
        release(folder)
        raise
    return RemoteRun(plan, folder, store)


def drive(run: RemoteRun, launcher: Launcher, run_uri: str, terms: Terms, on_line: OnLine) -> RunResult:
    """Start the hosts, follow them to the end, judge. Ctrl-C ends the run in order and judges what there is."""
    try:
        return _driven(run, launcher, run_uri, terms, on_line)
    except (CouldNotRunError, InputError):
        release(run.folder)
        raise


def _driven(run: RemoteRun, launcher: Launcher, run_uri: str, terms: Terms, on_line: OnLine) -> RunResult:
    launcher.start(run_uri)
    done = False
    try:
        how = _follow(run.store, launcher, terms, on_line)
        done = run.store.get(DONE) is not None
    finally:
        launcher.close(done)
    if not done:
        return merge_hosts(run.store, run.folder, launcher.hosts, how)
    fetch(run.store, run.folder)
    # Judged here once more: summary and report follow from plan and records, whoever makes them.
    return judge_run(run.folder, interrupted=read_summary(run.folder).conditions.interrupted)


def _follow(store: Store, launcher: Launcher, terms: Terms, on_line: OnLine) -> str:
    """Returns how it ended, in words."""
    from loadproof.bench.live.schema import parsed  # noqa: PLC0415  brings pydantic along

    inbox, stopped_s = Inbox(store, LEADER), None
    while True:
        try:
            for line in inbox.read():
                said = parsed_line(line)
                if said is not None and said["tell"] == "live":
                    on_line(parsed(said["line"]))
            if store.get(DONE) is not None:
                return "the run is done"
            how = launcher.ended()
            if how is not None and store.get(DONE) is None:
                return how
            if stopped_s is not None and time.monotonic() - stopped_s > STOPPED_S:
                return f"nothing was heard for {STOPPED_S:g} s after the stop"
            time.sleep(terms.poll_s)
        except KeyboardInterrupt:
            if stopped_s is not None:
                raise
            stopped_s = time.monotonic()
            store.put(STOP, b"")
