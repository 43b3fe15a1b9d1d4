"""Stored runs and what they prove, for people and for programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich import box
from rich.text import Text

from loadproof.bench.document import as_json
from loadproof.bench.evidence.names import PACKED
from loadproof.bench.evidence.standing import Standing, standing_of
from loadproof.bench.evidence.status import EvidenceStatus, Proof, age_of, in_days
from loadproof.bench.evidence.store import StoredRun, part_of
from loadproof.bench.objectives import figure
from loadproof.bench.output.exports import properties
from loadproof.bench.output.words import interval
from loadproof.cli.printing import say, say_beside, say_folded, tables_on
from loadproof.errors import InputError
from loadproof.profiles.signers import Signers
from loadproof.terminal import Columns

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


@dataclass(frozen=True, slots=True)
class Row:
    """A run, what it is to the profiles as they are, and who signed it."""

    run: StoredRun
    status: EvidenceStatus
    standing: Standing


def print_runs(rows: Sequence[Row], now: datetime) -> None:
    console = tables_on(_PLAIN_WIDTH)
    if not rows:
        say("no runs; loadproof bench makes one, loadproof evidence add keeps it")
        return
    head = [Text(name) for name in ("run", "of", "profile hash", "verdict", "signed by", "age", "profile now", "where")]
    lines = []
    for row in rows:
        run, age = row.run, age_of(row.run, now)
        cells = (
            run.run_id,
            _profile_of(run),
            str(run.profile.get("sha256") or "–")[:12],
            run.verdict if not run.problem else "unreadable",
            row.standing.short,
            "–" if age is None else in_days(age),
            _status(row.status),
            run.where,
        )
        lines.append([*map(Text, cells)])  # a run's own words are no markup
    console.print(Columns(head, lines, box=box.SIMPLE_HEAD))
    for row in rows:
        notes = (*notes_of(row), *((row.run.problem,) if row.run.problem else ()))
        say_folded(*(f"{row.run.where}: {note}" for note in notes), console=console)


def notes_of(row: Row) -> tuple[str, ...]:
    """What a reader of its verdict has to know besides."""
    run = row.run
    cloud = {"twin": "a local cloud's twin answered: its figures are predicted, none was measured at AWS"}
    notes = [cloud.get(run.local_cloud, "a server of a local cloud answered, none of AWS")] if run.local_cloud else []
    if not run.has_requests:
        notes.append("kept without its requests: it can be shown, and not compared")
    if run.signature is not None and row.standing.by == "claimed":
        notes.append(row.standing.words)
    return (*run.misfits, *notes)


def print_run(row: Row, now: datetime) -> None:
    """What the verdict rests on, part by part."""
    run, age = row.run, age_of(row.run, now)
    verdict = run.summary.verdict if run.summary else None
    doubt = " (not to be relied on: its files do not fit together, see the notes)" if run.misfits else ""
    say_folded(f"{run.verdict}: {run.run_id}{doubt}", style="bold")
    say_folded(*(f"  {reason}" for reason in (verdict.reasons if verdict else ())))
    profile_hash = str(run.profile.get("sha256") or "–")[:12]
    say_beside(
        ("Profile", f"{_profile_of(run)} at {profile_hash}: {_status(row.status)}"),
        ("Measured", row.standing.words),
        ("Begun", f"{run.created_utc or '–'}{'' if age is None else f', {in_days(age)} ago'}"),
        ("Kept", run.where),
        label_width=13,
    )
    if run.summary and run.summary.objectives:
        say_folded(f"Objectives at {run.summary.verdict.at_load or '–'}", *(f"  {line}" for line in _objectives(run)))
    conditions = properties(run.summary) if run.summary else ()
    for title, rows in (("Conditions", conditions), ("Files", _files(run))):
        say(title)
        say_beside(*((f"  {name}", str(value)) for name, value in rows), label_width=27)
    say_folded(*(f"Note: {note}" for note in notes_of(row)))


def _objectives(run: StoredRun) -> list[str]:
    rows = run.summary.objectives if run.summary else ()
    width = max((len(row.label) for row in rows), default=0)
    return [
        f"{row.label:<{width}}  {figure(row.observed):>9}  {row.comparison} {figure(row.bound):<9} "
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


def print_proofs(proofs: Sequence[Proof], signers: Signers | None, now: datetime) -> None:
    for proof in proofs:
        if proof.holds and proof.run is not None:
            age, who = age_of(proof.run, now), standing_of(proof.run, signers).short
            old = "" if age is None else f", {in_days(age)} old"
            say(f"{proof.profile.file}: proven by {proof.run.where}{old}, {who}")
        else:
            by = f" ({proof.run.where})" if proof.run else ""
            say(*(f"{proof.profile.file}: not proven: {problem}{by}" for problem in proof.problems))
        say(*(f"{proof.profile.file}: note: {note}" for note in proof.notes))
    short = sum(not proof.holds for proof in proofs)
    say(f"{len(proofs) - short} of {len(proofs)} profiles proven")


def run_document(row: Row, now: datetime) -> dict[str, object]:
    run, status, age = row.run, row.status, age_of(row.run, now)
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
        "signed_by": row.standing.by,
        "signer": row.standing.signer or None,
        "why_claimed": row.standing.why or None,
        "local_cloud": run.local_cloud,
        "requests_kept": run.has_requests,
        "misfits": list(run.misfits),
        "problem": run.problem or None,
    }


def shown_document(row: Row, now: datetime) -> dict[str, object]:
    """`run_document`, with what its verdict rests on."""
    run = row.run
    said = as_json(run.summary) if run.summary else {}
    verdict = run.summary.verdict if run.summary else None
    return {
        "schema_version": 1,
        **run_document(row, now),
        "reasons": verdict.reasons if verdict else None,
        "at_load": verdict.at_load if verdict else None,
        **{name: said.get(name) for name in ("objectives", "target", "deployed", "workload", "conditions")},
        "sha256": run.evidence.get("sha256"),
        "files": dict(run.files),
    }


def proof_document(proof: Proof, now: datetime) -> dict[str, object]:
    return {
        "file": proof.profile.file.as_posix(),
        "environment": proof.profile.environment,
        "profile": proof.profile.name,
        "proven": proof.holds,
        "problems": list(proof.problems),
        "notes": list(proof.notes),
        "run": None if proof.run is None else _run_of_proof(proof.run, now),
    }


def _run_of_proof(run: StoredRun, now: datetime) -> dict[str, object]:
    age = age_of(run, now)
    seconds = None if age is None else int(age.total_seconds())
    return {"run_id": run.run_id, "where": run.where, "verdict": run.verdict, "age_s": seconds}


def _profile_of(run: StoredRun) -> str:
    return f"{run.profile.get('environment')}/{run.profile.get('name')}" if run.profile else "no profile"


def _status(status: EvidenceStatus) -> str:
    words = {"no profile": "–", "unknown": "not in the tree", "current": "current"}
    if status.state != "stale":
        return words[status.state]
    fields, more = status.since[:_MOST_FIELDS], len(status.since) - _MOST_FIELDS
    return f"stale: changed since: {', '.join(fields)}{f' and {more} more' if more > 0 else ''}"
