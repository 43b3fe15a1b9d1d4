"""From what hosts left in the store to one run folder; also where the leader was lost and nobody put it together."""

from __future__ import annotations

from pathlib import Path

import orjson

from loadproof.bench.judging import RunResult
from loadproof.bench.load.batches import measured_batch
from loadproof.bench.load.workers import Lost, Recorded, missing_records
from loadproof.bench.measure.records import FILE_NAME as RECORDS_FILE
from loadproof.bench.measure.records import RecordWriter, RequestRecord, parse_record
from loadproof.bench.plan import RunPlan
from loadproof.bench.remote.host import DONE, conclude
from loadproof.bench.remote.mailbox import Inbox, host_box, parsed_line
from loadproof.bench.remote.settings import fetch_plan
from loadproof.bench.s3_store import Store
from loadproof.errors import CouldNotRunError


def fetch(store: Store, folder: Path) -> None:
    """Copy what the leader left. Raises CouldNotRunError with the leader's own words where it could not run."""
    done = orjson.loads(store.get(DONE) or b"{}")
    if done.get("problem"):
        raise CouldNotRunError(done["problem"])
    for name in done["files"]:
        (folder / name).write_bytes(store.get(name) or b"")


def merge_hosts(store: Store, folder: Path, hosts: tuple[str, ...], why: str) -> RunResult:
    """Judge what the hosts themselves wrote, `why` being how their leader ended.

    Of every level that began, what no host has a record of is missing. Raises CouldNotRunError when nothing was sent.
    """
    plan = fetch_plan(store, folder)
    records = {host: _records_of(store, host) for host in hosts}
    with RecordWriter(folder / RECORDS_FILE) as writer:
        for record in (record for ours in records.values() for record in ours):
            writer.append(record)
        lost = dict.fromkeys(hosts, f"{why}, and the run ended with it")
        for record in _missing(plan, hosts, records, lost):
            writer.append(record)
    return conclude(folder, hosts, lost, interrupted=False)


def _records_of(store: Store, host: str) -> list[RequestRecord]:
    inbox, records = Inbox(store, host_box(host)), list[RequestRecord]()
    while lines := inbox.read():
        parsed = (parse_record(line, f"host {host}") for line in lines if parsed_line(line) is None)
        records += (record for record in parsed if record is not None)
    return records


def _missing(
    plan: RunPlan, hosts: tuple[str, ...], records: dict[str, list[RequestRecord]], lost: dict[str, str]
) -> list[RequestRecord]:
    found: list[RequestRecord] = []
    for level, planned in enumerate(plan.levels):
        ours = {host: [one for one in records[host] if (one.phase, one.level) == ("measured", level)] for host in hosts}
        starts = [record.intended_ns for sent in ours.values() for record in sent]
        batch = measured_batch(plan, level, ()) if starts and planned.ended_utc is None else None
        if batch is None:
            continue
        gone = {}
        for place, host in enumerate(hosts):
            recorded = Recorded()
            for record in ours[host]:
                recorded.add(record.index)
            gone[place] = Lost(recorded, f"host {host} of {len(hosts)} {lost[host]}")
        found += missing_records(batch, gone, len(hosts), plan.session, min(starts))
    return found
