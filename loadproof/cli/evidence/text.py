"""Stored runs and what they prove, for people and for programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from rich import box
from rich.table import Table
from rich.text import Text

from loadproof.bench.document import as_json
from loadproof.bench.evidence.places import PACKED
from loadproof.bench.evidence.status import EvidenceStatus, Proof, age_of, in_days
from loadproof.bench.evidence.store import StoredRun, part_of
from loadproof.bench.output.exports import properties
from loadproof.bench.output.words import figure, interval
from loadproof.cli.printing import say, tables_on
from loadproof.errors import InputError

_MOST_FIELDS = 4
_PLAIN_WIDTH = 160
_UNITS = {"h": "hours", "d": "days"}


def size_of(count: int) -> str:
    """`12 kB`, `3.4 MB`."""
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"


def age_limit(text: str) -> timedelta | None:
    """`30d`, `12h`; None for `any`. Raises InputError."""
    if text == "any":
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,4})([hd])", text)
    if match is None:
        raise InputError(f"--max-age {text!r}: expected hours or days, for example 12h or 30d, or any")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def print_runs(rows: Sequence[tuple[StoredRun, EvidenceStatus]], now: datetime) -> None:
    console = tables_on(_PLAIN_WIDTH)
    if not rows:
        say("no runs; loadproof bench makes one, loadproof evidence add keeps it")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("run", "of", "profile hash", "verdict", "age", "profile now", "where"):
        table.add_column(name, overflow="fold", no_wrap=name in ("verdict", "age", "profile hash"))
    for run, status in rows:
        age = age_of(run, now)
        cells = (
            run.run_id,
            _profile_of(run),
            str(run.profile.get("sha256") or "–")[:12],
            run.verdict if not run.problem else "unreadable",
            "–" if age is None else in_days(age),
            _status(status),
            run.where,
        )
        table.add_row(*map(Text, cells))  # a run's own words are no markup
    console.print(table)
    for run, _ in rows:
        notes = (*notes_of(run), *((run.problem,) if run.problem else ()))
        say(*(f"{run.where}: {note}" for note in notes), console=console)


def notes_of(run: StoredRun) -> tuple[str, ...]:
    """What a reader of its verdict has to know besides."""
    cloud = {"twin": "a local cloud's twin answered: its figures are predicted, none was measured at AWS"}
    notes = [cloud.get(run.local_cloud, "a server of a local cloud answered, none of AWS")] if run.local_cloud else []
    if not run.has_requests:
        notes.append("kept without its requests: it can be shown, and not compared")
    return (*run.misfits, *notes)


def print_run(run: StoredRun, status: EvidenceStatus, now: datetime) -> None:
    """What the verdict rests on, part by part."""
    age = age_of(run, now)
    verdict = run.summary.verdict if run.summary else None
    doubt = " (not to be relied on: its files do not fit together, see the notes)" if run.misfits else ""
    say(f"{run.verdict}: {run.run_id}{doubt}", style="bold")
    say(*(f"  {reason}" for reason in (verdict.reasons if verdict else ())))
    say(f"Profile      {_profile_of(run)} at {str(run.profile.get('sha256') or '–')[:12]}: {_status(status)}")
    say(f"Begun        {run.created_utc or '–'}{'' if age is None else f', {in_days(age)} ago'}")
    say(f"Kept         {run.where}")
    if run.summary and run.summary.objectives:
        say(f"Objectives at {run.summary.verdict.at_load or '–'}", *(f"  {row}" for row in _objectives(run)))
    conditions = properties(run.summary) if run.summary else ()
    for title, rows in (("Conditions", conditions), ("Files", _files(run))):
        say(title, *(f"  {name:<24} {value}" for name, value in rows))
    say(*(f"Note: {note}" for note in notes_of(run)))


def _objectives(run: StoredRun) -> list[str]:
    rows = run.summary.objectives if run.summary else ()
    width = max((len(row.name) for row in rows), default=0)
    return [
        f"{row.name:<{width}}  {figure(row.observed):>9}  {row.comparison} {figure(row.bound):<9} "
        f"95% interval {interval(row.low, row.high)}  {row.verdict}"
        for row in rows
    ]


def _files(run: StoredRun) -> list[tuple[str, str]]:
    """Every file with its size, and the hash that evidence.json ties to it."""
    hashes = part_of(run.evidence, "sha256")
    said = {name: str(hashes.get(name.removesuffix(PACKED), "")) for name in run.files}
    return [
        (name, f"{size_of(size):>9}{f'  sha256 {said[name][:12]}' if said[name] else ''}")
        for name, size in run.files.items()
    ]


def print_proofs(proofs: Sequence[Proof], now: datetime) -> None:
    for proof in proofs:
        if proof.holds and proof.run is not None:
            age = age_of(proof.run, now)
            say(f"{proof.profile.file}: proven by {proof.run.where}{'' if age is None else f', {in_days(age)} old'}")
        else:
            by = f" ({proof.run.where})" if proof.run else ""
            say(*(f"{proof.profile.file}: not proven: {problem}{by}" for problem in proof.problems))
    short = sum(not proof.holds for proof in proofs)
    say(f"{len(proofs) - short} of {len(proofs)} profiles proven")


def run_document(run: StoredRun, status: EvidenceStatus, now: datetime) -> dict[str, object]:
    age = age_of(run, now)
    return {
        "run_id": run.run_id,
        "where": run.where,
        "profile": run.profile.get("name"),
        "environment": run.profile.get("environment"),
        "profile_sha256": run.profile.get("sha256"),
        "verdict": run.verdict,
        "created_utc": run.created_utc or None,
        "age_s": None if age is None else int(age.total_seconds()),
        "state": status.state,
        "changed_since": list(status.since),
        "local_cloud": run.local_cloud,
        "requests_kept": run.has_requests,
        "misfits": list(run.misfits),
        "problem": run.problem or None,
    }


def shown_document(run: StoredRun, status: EvidenceStatus, now: datetime) -> dict[str, object]:
    """`run_document`, with what its verdict rests on."""
    said = as_json(run.summary) if run.summary else {}
    verdict = run.summary.verdict if run.summary else None
    return {
        "schema_version": 1,
        **run_document(run, status, now),
        "reasons": verdict.reasons if verdict else None,
        "at_load": verdict.at_load if verdict else None,
        **{name: said.get(name) for name in ("objectives", "target", "deployed", "workload", "conditions")},
        "sha256": run.evidence.get("sha256"),
        "files": dict(run.files),
    }


def proof_document(proof: Proof, now: datetime) -> dict[str, object]:
    status = EvidenceStatus("current" if proof.holds else "unknown")
    run = None if proof.run is None else run_document(proof.run, status, now)
    return {
        "file": proof.profile.file.as_posix(),
        "environment": proof.profile.environment,
        "profile": proof.profile.name,
        "proven": proof.holds,
        "problems": list(proof.problems),
        "run": None if run is None else {key: run[key] for key in ("run_id", "where", "verdict", "age_s")},
    }


def _profile_of(run: StoredRun) -> str:
    return f"{run.profile.get('environment')}/{run.profile.get('name')}" if run.profile else "no profile"


def _status(status: EvidenceStatus) -> str:
    words = {"no profile": "–", "unknown": "not in the tree", "current": "current"}
    if status.state != "stale":
        return words[status.state]
    fields, more = status.since[:_MOST_FIELDS], len(status.since) - _MOST_FIELDS
    return f"stale: changed since: {', '.join(fields)}{f' and {more} more' if more > 0 else ''}"
