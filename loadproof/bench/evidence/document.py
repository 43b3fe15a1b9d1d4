"""`evidence.json`: what a verdict rests on, tied together by hashes, and the check that all of it still fits.

A hash shows that a file changed, not who changed it: someone who rewrites every file, this one included, is not found
out by it. That the verdict follows from the requests is checked without trust, by judging them again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from loadproof.bench.document import FILE_NAME as SUMMARY_FILE
from loadproof.bench.document import (
    SCHEMA_VERSION,
    SCHEMA_VERSIONS,
    RunTarget,
    Summary,
    as_json,
    read_summary,
    summary_of,
)
from loadproof.bench.evidence.names import SIGNATURE
from loadproof.bench.judge.verdict import Outcome
from loadproof.bench.measure.hash_tree import TreeHead
from loadproof.bench.measure.observer import FILE_NAME as OBSERVED_FILE
from loadproof.bench.measure.records import FILE_NAME as RECORDS_FILE
from loadproof.bench.measure.records import PACKED, opened_records, read_records, tree_of
from loadproof.bench.measure.scaling import Deployed, read_observed
from loadproof.bench.plan import ABSENT, RunPlan, read_document, read_plan, write_json
from loadproof.bench.plan import FILE_NAME as PLAN_FILE
from loadproof.bench.spec import ProfileBrief
from loadproof.bench.summary import build_summary

FILE_NAME = "evidence.json"
HASHED = (PLAN_FILE, RECORDS_FILE, OBSERVED_FILE, SUMMARY_FILE)
_JUDGED = ("verdict", "objectives", "levels", "scaling", "profile", "target", "workload")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the verdict rests on. All but the hashes is said in the run's other files, too."""

    schema_version: Literal[1, 2]
    """2; 1 in older runs"""
    run_id: str
    """the run's"""
    created_utc: str
    """the run's"""
    verdict: Outcome
    """the outcome"""
    profile: ProfileBrief | None
    """as in the plan"""
    target: RunTarget
    """as in the summary"""
    deployed: Deployed | None
    """as in the summary"""
    seed: int
    """as in the plan"""
    versions: Mapping[str, str | None]
    """Loadproof, Python, platform, event loop"""
    sha256: Mapping[str, str]
    """of each file that was there; `report.html` follows from them"""
    requests: TreeHead | None = field(default=None, metadata=ABSENT)
    """the hash tree over `requests.jsonl` that the client kept as they ended; absent in older runs"""


def write_evidence(folder: Path, plan: RunPlan, summary: Summary) -> None:
    """Write evidence.json for a folder whose other files are whole. Raises OSError."""
    write_json(folder / FILE_NAME, _evidence(folder, plan, summary))


def _evidence(folder: Path, plan: RunPlan, summary: Summary) -> Evidence:
    return Evidence(
        schema_version=SCHEMA_VERSION,
        run_id=plan.run_id,
        created_utc=plan.created_utc,
        verdict=summary.verdict.outcome,
        profile=summary.profile,
        target=summary.target,
        deployed=summary.deployed,
        seed=plan.spec.workload.seed,
        versions={name: plan.conditions.get(name) for name in ("loadproof", "python", "platform", "event_loop")},
        sha256={name: found for name in HASHED if (found := sha256_of(folder / name))},
        requests=tree_of(folder / RECORDS_FILE).head,
    )


def sha256_of(path: Path) -> str | None:
    """The file's SHA-256 in hex, of requests that are kept packed as they were; None where there is no such file."""
    digest = hashlib.sha256()
    with opened_records(path) as file:
        if file is None:
            return None
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def mismatches(folder: Path, profile: Path | None = None) -> list[str]:
    """Everything about a run folder that does not fit together, in sentences; empty when it all does.

    `profile`: the file the run should be evidence for, as it is now; None: the run's own, where it can be found.
    Raises InputError where the folder holds no evidence or no plan.
    """
    found = misfits(folder)
    return found if _never_judged(folder) else found + _other_profile(read_plan(folder), profile)


def _never_judged(folder: Path) -> bool:
    return not (folder / FILE_NAME).exists() and (folder / PLAN_FILE).exists()


def misfits(folder: Path) -> list[str]:
    """The same of the run's own files, whatever became of its profile."""
    if _never_judged(folder):
        return [f"not judged: the run was cut off; loadproof report {folder} judges what there is of it"]
    missing = "cannot be read ({}); give a judged run that has its requests"
    evidence = read_document(folder / FILE_NAME, missing, "restore it, or benchmark again", SCHEMA_VERSIONS)
    found = _changed_files(folder, evidence)
    plan, summary = read_plan(folder), read_summary(folder)
    try:
        rebuilt = build_summary(
            plan,
            read_records(folder / RECORDS_FILE),
            observed=read_observed(folder),
            interrupted=summary.conditions.interrupted,
        )
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # of values that no client writes
        return [*found, f"{RECORDS_FILE}: holds what no run of {PLAN_FILE} sends or is answered"]
    found += _not_following(summary, rebuilt) if summary.schema_version == rebuilt.schema_version else _older(summary)
    said = as_json(_evidence(folder, plan, summary))
    if "requests" not in evidence:  # an older run's
        del said["requests"]
    found += [
        f"{FILE_NAME}: {name} {evidence.get(name)}, but {PLAN_FILE} and {SUMMARY_FILE} say {said[name]}"
        for name in said
        if name not in ("schema_version", "sha256") and evidence.get(name) != said[name]
    ]
    return found


def uncovered(folder: Path) -> list[str]:
    """What lies in a run's folder and in no hash of evidence.json: pages made of the run, and whatever somebody put
    there. Raises InputError where the folder holds no evidence."""
    missing = "cannot be read ({}); give a judged run"
    hashes = read_document(folder / FILE_NAME, missing, "restore it, or benchmark again", SCHEMA_VERSIONS).get("sha256")
    known = {FILE_NAME, SIGNATURE, *(hashes if isinstance(hashes, dict) else ())}
    if RECORDS_FILE in known and not (folder / RECORDS_FILE).exists():
        known.add(RECORDS_FILE + PACKED)  # it stands for them, and only then
    return sorted(one.name + ("/" if one.is_dir() else "") for one in folder.iterdir() if one.name not in known)


def _changed_files(folder: Path, evidence: Mapping[str, object]) -> list[str]:
    found = []
    hashes = evidence.get("sha256")
    for name, expected in hashes.items() if isinstance(hashes, dict) else ():
        actual = sha256_of(folder / name) if name in HASHED else None  # it may name any file of this machine
        if actual is None:
            found.append(f"{name}: missing, though {FILE_NAME} holds its hash")
        elif actual != expected:
            found.append(f"{name}: changed since the run was judged (sha256 {actual[:12]}…, was {str(expected)[:12]}…)")
    if not isinstance(hashes, dict) or RECORDS_FILE not in hashes:
        found.append(f"{FILE_NAME}: has no hash of {RECORDS_FILE}")
    elif OBSERVED_FILE not in hashes and (folder / OBSERVED_FILE).exists():
        found.append(f"{OBSERVED_FILE}: came after the run was judged: {FILE_NAME} has no hash of it; take it away")
    return found


def _not_following(summary: Summary, rebuilt: Summary) -> list[str]:
    rebuilt = summary_of(as_json(rebuilt), SUMMARY_FILE)  # as it would be read
    return [
        f"{SUMMARY_FILE}: `{name}` does not follow from {PLAN_FILE} and {RECORDS_FILE}"
        for name in _JUDGED
        if getattr(summary, name) != getattr(rebuilt, name)
    ]


def _older(summary: Summary) -> list[str]:
    return [
        f"{SUMMARY_FILE}: judged by the rules of schema_version {summary.schema_version}, which this version does not "
        f"have: whether it follows from {RECORDS_FILE} can be told by the Loadproof that wrote it "
        f"({summary.loadproof_version})"
    ]


def _other_profile(plan: RunPlan, profile: Path | None) -> list[str]:
    ours = plan.spec.profile
    if ours is None:
        return [] if profile is None else [f"{PLAN_FILE}: the run was of no profile: it is no evidence for {profile}"]
    file = profile or Path(ours.file)
    if profile is None and not file.is_file():
        return []
    from loadproof.profiles import load_profile, profile_hash  # noqa: PLC0415  a run without a profile needs none

    now = profile_hash(load_profile(file))
    if now == ours.sha256:
        return []
    return [f"{file}: changed since (sha256 {now[:12]}…): the run is evidence for {ours.name} at {ours.sha256[:12]}…"]
