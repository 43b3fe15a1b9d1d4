"""Stored runs and what they prove, for people and for programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from loadproof.errors import InputError
from loadproof.terminal import Terminal

if TYPE_CHECKING:
    from benchmarks.evidence_standing import Proof, Standing
    from benchmarks.evidence_store import StoredRun

_MOST_FIELDS = 4
_PLAIN_WIDTH = 160
_UNITS = {"h": "hours", "d": "days"}


def print_json(document: Mapping[str, Any]) -> None:
    import orjson

    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")


def say(words: str) -> None:
    Terminal(highlight=False).print(words, markup=False, soft_wrap=True)


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


def print_runs(rows: Sequence[tuple[StoredRun, Standing]], now: datetime) -> None:
    from rich import box
    from rich.table import Table

    from benchmarks.evidence_standing import age_of, in_days

    console = Terminal(highlight=False)
    if not console.is_terminal:
        console = Terminal(highlight=False, width=_PLAIN_WIDTH)
    if not rows:
        say("no runs; loadproof bench makes one, loadproof evidence add keeps it")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("run", "of", "profile hash", "verdict", "age", "profile now", "where"):
        table.add_column(name, overflow="fold", no_wrap=name in ("verdict", "age", "profile hash"))
    for run, standing in rows:
        age = age_of(run, now)
        table.add_row(
            *map(
                _plain,
                (
                    run.run_id,
                    _profile_of(run),
                    str(run.profile.get("sha256") or "–")[:12],
                    run.verdict if not run.problem else "unreadable",
                    "–" if age is None else in_days(age),
                    _standing(standing),
                    run.where,
                ),
            )
        )
    console.print(table)
    for run, _ in rows:
        for note in (*notes_of(run), *((run.problem,) if run.problem else ())):
            console.print(f"{run.where}: {note}", markup=False, soft_wrap=True)


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)  # a run's own words are no markup


def notes_of(run: StoredRun) -> tuple[str, ...]:
    """What a reader of its verdict has to know besides."""
    cloud = {"twin": "a local cloud's twin answered: its figures are predicted, none was measured at AWS"}
    notes = [cloud.get(run.local_cloud, "a server of a local cloud answered, none of AWS")] if run.local_cloud else []
    if not run.has_requests:
        notes.append("kept without its requests: it can be shown, and not compared")
    return (*run.misfits, *notes)


def print_run(run: StoredRun, standing: Standing, now: datetime) -> None:
    """What the verdict rests on, part by part."""
    from benchmarks.evidence_standing import age_of, in_days
    from benchmarks.evidence_store import part_of

    console, age = Terminal(highlight=False), age_of(run, now)

    def line(words: str, style: str = "") -> None:
        console.print(words, markup=False, soft_wrap=True, style=style)

    verdict = part_of(run.summary, "verdict")
    doubt = " (not to be relied on: its files do not fit together, see the notes)" if run.misfits else ""
    line(f"{run.verdict}: {run.run_id}{doubt}", "bold")
    for reason in verdict.get("reasons") or ():
        line(f"  {reason}")
    line(f"Profile      {_profile_of(run)} at {str(run.profile.get('sha256') or '–')[:12]}: {_standing(standing)}")
    line(f"Begun        {run.created_utc or '–'}{'' if age is None else f', {in_days(age)} ago'}")
    line(f"Kept         {run.where}")
    if run.summary.get("objectives"):
        line(f"Objectives at {verdict.get('at_load') or '–'}")
        for row in _objectives(run):
            line(f"  {row}")
    for title, rows in (("Conditions", _conditions(run)), ("Files", _files(run))):
        line(title)
        for name, value in rows:
            line(f"  {name:<24} {value}")
    for note in notes_of(run):
        line(f"Note: {note}")


def _objectives(run: StoredRun) -> list[str]:
    from benchmarks.evidence_store import rows_of
    from benchmarks.exports import figure, interval

    rows = rows_of(run.summary)
    width = max((len(str(row.get("name"))) for row in rows), default=0)
    return [
        f"{row.get('name')!s:<{width}}  {figure(row.get('observed')):>9}  {row.get('comparison')} "
        f"{figure(row.get('bound')):<9} 95% interval {interval(row.get('low'), row.get('high'))}  {row.get('verdict')}"
        for row in rows
    ]


def _conditions(run: StoredRun) -> list[tuple[str, str]]:
    from benchmarks.exports import properties

    return [(key, str(value)) for key, value in properties(run.summary)] if run.summary else []


def _files(run: StoredRun) -> list[tuple[str, str]]:
    """Every file with its size, and the hash that evidence.json ties to it."""
    from benchmarks.evidence_places import PACKED
    from benchmarks.evidence_store import part_of

    hashes = part_of(run.evidence, "sha256")
    said = {name: str(hashes.get(name.removesuffix(PACKED), "")) for name in run.files}
    return [
        (name, f"{size_of(size):>9}{f'  sha256 {said[name][:12]}' if said[name] else ''}")
        for name, size in run.files.items()
    ]


def print_proofs(proofs: Sequence[Proof], now: datetime) -> None:
    from benchmarks.evidence_standing import age_of, in_days

    for proof in proofs:
        if proof.holds and proof.run is not None:
            age = age_of(proof.run, now)
            say(f"{proof.profile.file}: proven by {proof.run.where}{'' if age is None else f', {in_days(age)} old'}")
        else:
            by = f" ({proof.run.where})" if proof.run else ""
            for problem in proof.problems:
                say(f"{proof.profile.file}: not proven: {problem}{by}")
    short = sum(not proof.holds for proof in proofs)
    say(f"{len(proofs) - short} of {len(proofs)} profiles proven")


def run_document(run: StoredRun, standing: Standing, now: datetime) -> dict[str, Any]:
    from benchmarks.evidence_standing import age_of

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
        "state": standing.state,
        "changed_since": list(standing.since),
        "local_cloud": run.local_cloud,
        "requests_kept": run.has_requests,
        "misfits": list(run.misfits),
        "problem": run.problem or None,
    }


def shown_document(run: StoredRun, standing: Standing, now: datetime) -> dict[str, Any]:
    """`run_document`, with what its verdict rests on."""
    from benchmarks.evidence_store import part_of

    verdict = part_of(run.summary, "verdict")
    return {
        "schema_version": 1,
        **run_document(run, standing, now),
        "reasons": verdict.get("reasons"),
        "at_load": verdict.get("at_load"),
        "objectives": run.summary.get("objectives"),
        "target": run.summary.get("target"),
        "deployed": run.summary.get("deployed"),
        "workload": run.summary.get("workload"),
        "conditions": run.summary.get("conditions"),
        "sha256": run.evidence.get("sha256"),
        "files": dict(run.files),
    }


def proof_document(proof: Proof, now: datetime) -> dict[str, Any]:
    from benchmarks.evidence_standing import Standing

    standing = Standing("current" if proof.holds else "unknown")
    run = None if proof.run is None else run_document(proof.run, standing, now)
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


def _standing(standing: Standing) -> str:
    words = {"no profile": "–", "unknown": "not in the tree", "current": "current"}
    if standing.state != "stale":
        return words[standing.state]
    fields, more = standing.since[:_MOST_FIELDS], len(standing.since) - _MOST_FIELDS
    return f"stale: changed since: {', '.join(fields)}{f' and {more} more' if more > 0 else ''}"
