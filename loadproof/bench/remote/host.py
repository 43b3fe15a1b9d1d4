"""The program of one host: `python -m benchmarks.remote.host s3://BUCKET/PREFIX/RUN [--resources FILE]`.

Every host of the job runs the same command. The first by name leads beside its own part: it plans as it goes, keeps
the records of all, judges, and leaves plan, records, summary and report under the run's prefix. It exits with 0 once
`done.json` holds a verdict, whatever the verdict: a job that ran is no failed job.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import orjson

from loadproof.bench.evidence.keys import signing_key
from loadproof.bench.evidence.standing import sign_run
from loadproof.bench.job import machine_conditions
from loadproof.bench.judging import RunResult, judge_run
from loadproof.bench.load.process import loop_factory, raised_priority
from loadproof.bench.load.sweep import Sweep
from loadproof.bench.measure.hash_tree import TreeHead
from loadproof.bench.measure.observer import observing
from loadproof.bench.measure.records import FILE_NAME as RECORDS_FILE
from loadproof.bench.measure.records import RecordWriter, latest, read_records
from loadproof.bench.plan import FILE_NAME as PLAN_FILE
from loadproof.bench.plan import RunPlan, read_plan, write_plan
from loadproof.bench.remote.accounts import host_accounts
from loadproof.bench.remote.agent import Agent
from loadproof.bench.remote.bundle import BUNDLE, plan_bundle
from loadproof.bench.remote.fleet import Fleet
from loadproof.bench.remote.settings import (
    EXIT_MESSAGE,
    KEY,
    RESOURCES,
    Hosts,
    Terms,
    fetch_plan,
    read_hosts,
    read_terms,
)
from loadproof.bench.s3_store import S3Store, Store, s3_client
from loadproof.errors import ExitCode, LoadproofError
from loadproof.wire.job import SIGNING_KEY

DONE = "done.json"
RESULTS = (".json", ".jsonl", ".html")


def take_part(store: Store, hosts: Hosts, folder: Path, run_id: str) -> None:
    """Do this host's part. Raises LoadproofError when it cannot be done; the leader then leaves word of it."""
    os.chdir(folder)  # files that the plan names lie here
    if not hosts.leads:
        agent = Agent(store, folder, hosts, _terms_of_leader(store))
        with raised_priority(), asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(agent.serve())
        return
    try:
        if store.get(BUNDLE) is not None:
            plan_bundle(store, run_id, folder)
        terms = read_terms(store)
        agent = Agent(store, folder, hosts, terms)
        with (
            raised_priority(),
            asyncio.Runner(loop_factory=loop_factory()) as runner,
            tempfile.TemporaryDirectory(prefix="loadproof-run-") as results,
        ):
            _lead(store, hosts, Path(results), terms, agent, runner)
    except LoadproofError as error:
        done = {"exit_code": int(error.exit_code), "problem": str(error), "outcome": "INVALID", "reasons": [str(error)]}
        store.put(DONE, orjson.dumps(done))
        raise


def _terms_of_leader(store: Store) -> Terms:
    """The run's terms, waited for where the leader is to plan first. Raises CouldNotRunError."""
    if store.get(BUNDLE) is not None:
        until_s = time.monotonic() + Terms().start_s
        while store.get(KEY) is None and store.get(DONE) is None and time.monotonic() < until_s:
            time.sleep(Terms().poll_s)
    return read_terms(store)


def _lead(store: Store, hosts: Hosts, folder: Path, terms: Terms, agent: Agent, runner: asyncio.Runner) -> None:
    plan = fetch_plan(store, folder)
    plan = replace(plan, conditions=plan.conditions | machine_conditions())  # of the machine that measures
    zero_ns = time.perf_counter_ns() - (time.time_ns() - plan.zero_unix_ns)
    fleet = Fleet(store, hosts.names, plan.zero_unix_ns, zero_ns, terms)

    def save(changed: RunPlan) -> None:
        write_plan(folder, changed)
        store.put(PLAN_FILE, (folder / PLAN_FILE).read_bytes())

    write_plan(folder, plan)
    watched = observing(folder, plan.spec.target) if terms.observe else nullcontext()
    with watched, RecordWriter(folder / RECORDS_FILE) as writer:
        sweep = Sweep(plan, fleet, writer.append, save, fleet.show, zero_ns)
        runner.run(_both(sweep, fleet, agent))
    result = conclude(folder, hosts.names, fleet.lost, interrupted=sweep.runner.stopped, sent=writer.head)
    if key := os.environ.get(SIGNING_KEY):
        _sign(folder, key)
    files = sorted(path for path in folder.iterdir() if path.suffix in RESULTS)
    for path in files:
        store.put(path.name, path.read_bytes())
    done = {
        "exit_code": int(result.exit_code),
        "problem": None,
        "files": [path.name for path in files],
        "outcome": result.summary.verdict.outcome,
        "reasons": result.summary.verdict.reasons,
    }
    store.put(DONE, orjson.dumps(done))


def conclude(
    folder: Path, hosts: tuple[str, ...], lost: dict[str, str], *, interrupted: bool, sent: TreeHead | None = None
) -> RunResult:
    """Judge what the hosts sent, with each one's account among the conditions. Raises as `judge_run` does."""
    plan = read_plan(folder)
    records = latest(read_records(folder / RECORDS_FILE).records)
    accounts = host_accounts(hosts, plan.spec.workload.stride, records, lost)
    write_plan(
        folder,
        replace(plan, conditions=plan.conditions | {"hosts": {account.host: account.words for account in accounts}}),
    )
    return judge_run(folder, interrupted=interrupted, sent=sent)


def _sign(folder: Path, key: str) -> None:
    """A verdict stands without its signature: the run is then only claimed, and the job's log says why."""
    try:
        sign_run(folder, signing_key(key))
    except LoadproofError as error:
        sys.stderr.write(f"loadproof: the run is not signed: {error}\n")


async def _both(sweep: Sweep, fleet: Fleet, agent: Agent) -> None:
    """Lead, and do one's own part; if that fails, the fleet goes on without it, as without any other."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, sweep.runner.stop)
    own = asyncio.create_task(agent.serve())
    try:
        await sweep.run()
    finally:
        await fleet.close()
        await asyncio.gather(own, return_exceptions=True)


def main(arguments: list[str] | None = None, make_client: Callable[[], object] = s3_client) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.remote.host", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", help="s3://BUCKET/PREFIX/RUN, as `loadproof bench --remote` uploaded it")
    parser.add_argument("--resources", type=Path, help=f"the job's list of hosts; default: {RESOURCES}")
    given = parser.parse_args(arguments)
    try:
        hosts = read_hosts(given.resources or RESOURCES)
        store = S3Store(given.run, make_client())
        with tempfile.TemporaryDirectory(prefix="loadproof-host-") as folder:
            take_part(store, hosts, Path(folder), store.uri.rpartition("/")[2])
    except LoadproofError as error:
        sys.stderr.write(f"loadproof: {error}\n")
        if given.resources is None:
            with suppress(OSError):  # the job's own word for why it failed
                EXIT_MESSAGE.parent.mkdir(parents=True, exist_ok=True)
                EXIT_MESSAGE.write_text(str(error)[:1000], "utf-8")
        return int(error.exit_code)
    return int(ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())
