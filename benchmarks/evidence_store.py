"""Where runs are kept, and what each says of itself: folders of this machine, or objects under an S3 prefix.

A stored run is a folder with `plan.json`, at any depth of its place: `runs/<run-id>/` as the benchmark leaves it,
`evidence/<environment>/<profile>/<run-id>/` as `loadproof evidence add` files it, and the same keys in S3. Only its
small files are read; nothing is recomputed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson

from loadproof.errors import InputError
from loadproof.review.model import MeasuredRun

# As the modules that write them call them; those load numpy, and a review reads no request.
PLAN, SUMMARY, EVIDENCE, REQUESTS = "plan.json", "summary.json", "evidence.json", "requests.jsonl"
DEFAULT_PLACES = ("evidence", "runs")
_SMALL = (PLAN, SUMMARY, EVIDENCE)
_DEEPEST = 6  # folders below a place


class Place(Protocol):
    """Somewhere runs are kept. Names are relative, with `/`: `dev/chat/20261121-101500-chat`."""

    @property
    def name(self) -> str: ...

    def runs(self) -> Mapping[str, Mapping[str, int]]:
        """The files of every run, with their sizes in bytes, by the run's name."""
        ...

    def read(self, run: str, file: str) -> bytes | None: ...


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it is kept: its small files' contents (empty where one is missing), and every file's size in bytes.

    `problem` says why it cannot be used; "" where it can.
    """

    place: str
    name: str
    plan: Mapping[str, Any]
    summary: Mapping[str, Any]
    evidence: Mapping[str, Any]
    files: Mapping[str, int]
    problem: str = ""

    @property
    def run_id(self) -> str:
        return str(self.plan.get("run_id") or self.name.rsplit("/", 1)[-1])

    @property
    def created_utc(self) -> str:
        return str(self.plan.get("created_utc") or "")

    @property
    def where(self) -> str:
        """`evidence/dev/chat/20261121-101500-chat` or `s3://bucket/dev/chat/…`."""
        return f"{self.place.rstrip('/')}/{self.name}" if self.name != "." else self.place

    @property
    def profile(self) -> Mapping[str, Any]:
        """Name, file, sha256, environment and, in newer runs, the whole document; empty for a run of no profile."""
        return _part(self.plan, "spec", "profile")

    @property
    def verdict(self) -> str:
        """PASS, FAIL, INCONCLUSIVE, INVALID; `not judged` for a run that was cut off."""
        said = _part(self.summary, "verdict").get("outcome")
        return str(said) if said else "not judged"

    @property
    def local_cloud(self) -> str | None:
        """What answered in the endpoint's place: `twin` or `http`; None: the endpoint itself."""
        said = _part(self.plan, "spec", "target").get("local_cloud")
        return None if said is None else str(said)


class FolderPlace:
    """A folder of this machine. A folder that is a run itself holds that one run, called `.`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        return self.folder.as_posix()

    def runs(self) -> dict[str, dict[str, int]]:
        found = {}
        for path, folders, files in os.walk(self.folder):
            here = Path(path)
            below = here.relative_to(self.folder)
            if len(below.parts) >= _DEEPEST or PLAN in files:
                folders.clear()
            folders[:] = sorted(one for one in folders if not one.startswith("."))
            if PLAN in files:
                found[below.as_posix()] = {one: (here / one).stat().st_size for one in sorted(files)}
        return found

    def read(self, run: str, file: str) -> bytes | None:
        try:
            return (self.folder / run / file).read_bytes()
        except FileNotFoundError:
            return None


def places_of(places: Iterable[str | Path]) -> tuple[Place, ...]:
    """Places by their names; without any those of `DEFAULT_PLACES` that exist. Raises InputError for a missing one."""
    named = [str(place) for place in places]
    if not named:
        return tuple(FolderPlace(Path(one)) for one in DEFAULT_PLACES if Path(one).is_dir())
    missing = [one for one in named if not one.startswith("s3://") and not Path(one).is_dir()]
    if missing:
        raise InputError(
            "\n".join(f"{one}: no such folder; give a folder of runs or s3://BUCKET/PREFIX" for one in missing)
        )
    return tuple(place_of(one) for one in named)


def place_of(name: str) -> Place:
    if name.startswith("s3://"):
        raise InputError(f"{name}: S3 is not read yet")
    return FolderPlace(Path(name))


def read_stored(places: Iterable[Place]) -> tuple[StoredRun, ...]:
    """Every run of these places, the newest first; one that cannot be read has its `problem`."""
    found = [_stored(place, name, files) for place in places for name, files in place.runs().items()]
    return tuple(sorted(found, key=lambda run: (run.created_utc, run.run_id, run.where), reverse=True))


def stored_runs(place: str | Path, *, local_cloud: bool = False) -> tuple[MeasuredRun, ...]:
    """The judged runs of a profile in one place, the newest first, as a review needs them.

    Runs against a local cloud measured no endpoint of AWS's and are left out unless asked for (`local_cloud`). Raises
    InputError for a place that is not there.
    """
    runs = read_stored(places_of([place]))
    return tuple(
        measured_run(run)
        for run in runs
        if not run.problem and run.profile and run.summary and (local_cloud or run.local_cloud is None)
    )


def measured_run(run: StoredRun) -> MeasuredRun:
    """Raises nothing: whatever a file holds that should not be there is text, or left out."""
    profile, document = run.profile, run.profile.get("document")
    environment = profile.get("environment")
    return MeasuredRun(
        run_id=run.run_id,
        created_utc=run.created_utc,
        profile_name=str(profile.get("name")),
        environment_name=None if environment is None else str(environment),
        profile_sha256=str(profile.get("sha256")),
        verdict=run.verdict,
        measured={str(row.get("name")): _figure(row.get("observed")) for row in objectives_of(run)},
        profile=document if isinstance(document, Mapping) else None,
        link=run.where,
    )


def objectives_of(run: StoredRun) -> list[Mapping[str, Any]]:
    """The rows of summary.json's `objectives`, with bound, figure, interval and verdict each."""
    rows = run.summary.get("objectives")
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _figure(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _part(document: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The map at that path, empty where there is none: files in a pull request may hold anything."""
    for name in names:
        found = document.get(name)
        document = found if isinstance(found, Mapping) else {}
    return document


def _stored(place: Place, name: str, files: Mapping[str, int]) -> StoredRun:
    read: dict[str, Mapping[str, Any]] = {}
    problems = []
    for file in _SMALL:
        body = place.read(name, file) if file in files else None
        try:
            row = {} if body is None else orjson.loads(body)
        except orjson.JSONDecodeError as error:
            row = None
            problems.append(f"{file}: not JSON ({error})")
        if row is not None and body is not None and (not isinstance(row, dict) or row.get("schema_version") != 1):
            problems.append(f"{file}: not of schema_version 1")
        read[file] = row if isinstance(row, dict) else {}
    return StoredRun(place.name, name, read[PLAN], read[SUMMARY], read[EVIDENCE], dict(files), "; ".join(problems))
