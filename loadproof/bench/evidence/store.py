"""What stored runs say of themselves, by their small files; nothing is recomputed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import orjson

from loadproof.bench.document import SCHEMA_VERSIONS, Summary, as_json, summary_of
from loadproof.bench.evidence.names import EVIDENCE, PACKED, PLAN, REQUESTS, SIGNATURE, SUMMARY
from loadproof.bench.evidence.places import DEFAULT_PLACES, Files, Place, places_of
from loadproof.errors import InputError
from loadproof.profiles import document_hash
from loadproof.review.model import MeasuredRun

__all__ = [
    "DEFAULT_PLACES", "EVIDENCE", "PLAN", "REQUESTS", "SIGNATURE", "SUMMARY", "StoredRun", "measured_run", "part_of",
    "read_run_of", "read_stored", "stored_runs",
]  # fmt: skip
Row = Mapping[str, object]  # what a file that may hold anything says
_SMALL = (PLAN, SUMMARY, EVIDENCE)
MOST_BYTES = 4 * 1024 * 1024  # of a small file
_MOST_VALUES = 200_000  # in one, as its brackets and commas count them: an empty list of three bytes takes 64 in memory
_AT_ONCE = 8  # runs read side by side


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it is kept: its small files' contents (empty or None where one is missing), and every file's size.

    `problem` says why it cannot be used, "" where it can. `misfits`: what of its small files does not fit together;
    whether its verdict follows from its requests is for `loadproof verify` to say.
    """

    place: Place
    name: str
    plan: Row
    summary: Summary | None
    evidence: Row
    files: Files
    problem: str = ""
    misfits: tuple[str, ...] = ()
    signature: bytes | None = None
    """`evidence.dsse.json` as it is; nothing of it was checked"""
    evidence_sha256: str = ""

    @property
    def run_id(self) -> str:
        return str(self.plan.get("run_id") or self.name.rsplit("/", 1)[-1])

    @property
    def created_utc(self) -> str:
        return str(self.plan.get("created_utc") or self.evidence.get("created_utc") or "")

    @property
    def latest_utc(self) -> str:
        """The latest that a file says it was made: one that was damaged may say an earlier time."""
        return max(self.created_utc, str(self.evidence.get("created_utc") or ""))

    @property
    def where(self) -> str:
        """`evidence/dev/chat/20261121-101500-chat` or `s3://bucket/dev/chat/…`."""
        return self.place.name if self.name == "." else f"{self.place.name.rstrip('/')}/{self.name}"

    @property
    def profile(self) -> Row:
        """Name, file, sha256, environment and, in newer runs, the whole document; empty for a run of no profile."""
        return part_of(self.plan, "spec", "profile")

    @property
    def named_profiles(self) -> tuple[Row, ...]:
        """The profile that each of its files names; they differ where one was damaged. The plan's is `profile`."""
        of_summary = self.summary.profile if self.summary else None
        said = {} if of_summary is None else {"name": of_summary.name, "environment": of_summary.environment}
        return (self.profile, part_of(self.evidence, "profile"), said)

    @property
    def is_damaged(self) -> bool:
        """Whether its files cannot be read or do not fit together; a run that was cut off just has no verdict yet."""
        cut_off = bool(self.profile) and not self.evidence and self.summary is None
        return bool(self.problem) or (bool(self.misfits) and not cut_off)

    @property
    def verdict(self) -> str:
        """PASS, FAIL, INCONCLUSIVE, INVALID, NOT JUDGED; `not judged` for a run that was cut off."""
        return self.summary.verdict.outcome if self.summary else "not judged"

    @property
    def local_cloud(self) -> str | None:
        """What answered in the endpoint's place: `twin` or `http`; None: the endpoint itself."""
        said = part_of(self.plan, "spec", "target").get("local_cloud")
        return None if said is None else str(said)

    @property
    def has_requests(self) -> bool:
        return bool({REQUESTS, REQUESTS + PACKED} & self.files.keys())


def read_stored(places: Iterable[Place]) -> tuple[StoredRun, ...]:
    """Every run of these places, the newest first; one that cannot be read has its `problem`."""
    return tuple(sorted(_each(places), key=lambda run: (run.created_utc, run.run_id, run.where), reverse=True))


def _each(places: Iterable[Place]) -> Iterator[StoredRun]:
    """No more than _AT_ONCE in memory, for whoever keeps none."""
    found = [(place, name, files) for place in places for name, files in place.runs().items()]
    with ThreadPoolExecutor(_AT_ONCE) as pool:  # S3 takes its time for each of many small files
        for start in range(0, len(found), _AT_ONCE):
            yield from pool.map(lambda one: read_run_of(*one), found[start : start + _AT_ONCE])


def stored_runs(
    place: str | Path,
    *,
    local_cloud: bool = False,
    measured: Callable[[StoredRun], MeasuredRun] | None = None,
) -> tuple[MeasuredRun, ...]:
    """The judged runs of a profile in one place, the newest first, as a review needs them.

    Runs against a local cloud measured no endpoint of AWS's and are left out unless asked for (`local_cloud`); so is
    one whose files do not fit together. `measured` says what a review needs of a run,
    `measured_run` unless given. Raises InputError for a place that is not there.
    """
    runs = (
        (measured or measured_run)(run)
        for run in _each(places_of([place]))
        if not (run.problem or run.misfits) and run.profile and run.summary and (local_cloud or run.local_cloud is None)
    )
    return tuple(sorted(runs, key=lambda run: (run.created_utc, run.run_id, run.link), reverse=True))


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
        measured={row.label: row.observed for row in run.summary.objectives} if run.summary else {},
        profile=document if isinstance(document, Mapping) else None,
        link=run.where,
    )


def part_of(document: Row, *names: str) -> Row:
    """The map at that path, empty where there is none: files in a pull request may hold anything."""
    for name in names:
        found = document.get(name)
        document = found if isinstance(found, Mapping) else {}
    return document


def read_run_of(place: Place, name: str, files: Files) -> StoredRun:
    """One run of a place by its small files."""
    read: dict[str, dict[str, object]] = {}
    hashes: dict[str, str] = {}
    problems = []
    for file in _SMALL:
        if files.get(file, 0) > MOST_BYTES:
            problems.append(f"{file}: {files[file]:,} bytes are too many to be one")
            continue
        body = place.read(name, file) if file in files else None
        if body is None:
            continue
        if sum(map(body.count, (b",", b"[", b"{"))) > _MOST_VALUES:
            problems.append(f"{file}: more than {_MOST_VALUES:,} values are too many to be one")
            continue
        try:
            row = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            problems.append(f"{file}: not JSON ({error})")
            continue
        if not isinstance(row, dict) or row.get("schema_version") not in SCHEMA_VERSIONS:
            problems.append(f"{file}: expected schema_version 1 or 2; use the Loadproof that wrote it")
            continue
        read[file], hashes[file] = row, hashlib.sha256(body).hexdigest()
    plan, evidence = read.get(PLAN, {}), read.get(EVIDENCE, {})
    summary = None
    try:
        summary = summary_of(read[SUMMARY], SUMMARY) if SUMMARY in read else None
    except InputError as error:
        problems.append(str(error).replace("\n", "; "))
    misfits = () if problems else tuple(_misfits(plan, summary, evidence, hashes))
    signature = place.read(name, SIGNATURE) if 0 < files.get(SIGNATURE, 0) <= MOST_BYTES else None
    return StoredRun(
        place=place,
        name=name,
        plan=plan,
        summary=summary,
        evidence=evidence,
        files=dict(files),
        problem="; ".join(problems),
        misfits=misfits,
        signature=signature,
        evidence_sha256=hashes.get(EVIDENCE, ""),
    )


def _misfits(plan: Row, summary: Summary | None, evidence: Row, hashes: Mapping[str, str]) -> Iterator[str]:
    if not evidence:
        yield f"no {EVIDENCE}: loadproof report judges what there is of it" if not summary else f"no {EVIDENCE}"
        return
    expected = part_of(evidence, "sha256")
    for file in (PLAN, SUMMARY):
        if hashes.get(file) != expected.get(file):
            yield f"{file}: changed since the run was judged" if file in hashes else f"{file}: missing"
    said = {"run_id": plan.get("run_id"), "created_utc": plan.get("created_utc")}
    said |= {
        "verdict": summary.verdict.outcome if summary else None,
        "profile": as_json(summary.profile) if summary and summary.profile else None,
    }
    yield from (
        f"{EVIDENCE}: another {name} than in {PLAN} and {SUMMARY}" for name in said if evidence.get(name) != said[name]
    )
    profile = part_of(plan, "spec", "profile")
    brief = {name: profile.get(name) for name in ("name", "file", "sha256", "environment")} if profile else None
    if summary and said["profile"] != brief:
        yield f"{SUMMARY}: another profile than in {PLAN}"
    document = profile.get("document")
    known = document_hash(document) if isinstance(document, Mapping) else None
    if document is not None and known != profile.get("sha256"):
        yield f"{PLAN}: the profile in it is not the one its hash names"
