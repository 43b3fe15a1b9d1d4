"""Keeping a run as evidence: `<environment>/<profile>/<run-id>/` of a place, requests packed, never over another's."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from loadproof.bench.evidence.document import misfits
from loadproof.bench.evidence.names import EVIDENCE, PACKED, PLAN, REQUESTS, SIGNATURE, SUMMARY
from loadproof.bench.evidence.places import FolderPlace, Place
from loadproof.bench.evidence.store import StoredRun
from loadproof.bench.measure.observer import FILE_NAME as OBSERVED
from loadproof.bench.measure.records import opened_records
from loadproof.bench.plain import Unpacked, is_plain
from loadproof.bench.plan import read_plan
from loadproof.errors import CouldNotRunError, InputError

REPORT = "report.html"
MOST_MIB = 20  # of packed requests in a folder: it is likely to be a repository
_MIB = 1024 * 1024
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_LEVEL = 6  # of gzip; 9 saves another 0.4% in one and a half times the time


@dataclass(frozen=True, slots=True)
class Filed:
    """Where a run was put: `written` bytes, 0 where all of it was there already."""

    where: str
    written: int


def file_run(folder: Path, place: Place, *, requests: bool = True, report: bool = False) -> Filed:
    """Copy what evidence needs of a judged run. evidence.json is written last: what has it is whole.

    Raises InputError for a run of no profile, one that was not judged, whose files do not fit together, or that is too
    large for a folder, and where the place holds another run under its name.
    """
    if found := misfits(folder):
        raise InputError("\n".join(f"{folder}: {one}" for one in found))
    name = name_of(folder)
    small = (PLAN, SUMMARY, OBSERVED, SIGNATURE)
    bodies = {file: (folder / file).read_bytes() for file in small if is_plain(folder / file)}
    if requests:
        bodies[REQUESTS + PACKED] = _packed(folder, place)
    if report and is_plain(folder / REPORT):
        bodies[REPORT] = (folder / REPORT).read_bytes()
    bodies[EVIDENCE] = (folder / EVIDENCE).read_bytes()
    written = 0
    for file, body in bodies.items():
        if place.create(name, file, body):
            written += len(body)
        elif file != REPORT and _content(file, place.read(name, file) or b"") != _content(file, body):
            raise InputError(f"{place.name}/{name}/{file}: holds another content; nothing is written over it")
    return Filed(f"{place.name.rstrip('/')}/{name}", written)


def name_of(folder: Path) -> str:
    """`<environment>/<profile>/<run-id>`. Raises InputError for a run of no profile and for unfit names."""
    plan = read_plan(folder)
    profile = plan.spec.profile
    if profile is None:
        raise InputError(f"{folder}: a run of no profile is evidence for none; benchmark a profile")
    parts = (profile.environment or "", profile.name, plan.run_id)
    if bad := [part for part in parts if not _SAFE.fullmatch(part)]:
        raise InputError(f"{folder}: `{bad[0]}` is no name for a folder of evidence; expected letters, digits, . _ -")
    return "/".join(parts)


def _packed(folder: Path, place: Place) -> bytes:
    packed = io.BytesIO()
    with opened_records(folder / REQUESTS) as plain, gzip.GzipFile("", "wb", _LEVEL, packed, mtime=0) as packing:
        assert plain is not None, "misfits tells of runs without requests"
        shutil.copyfileobj(plain, packing, _MIB)
    size_mib = packed.tell() / _MIB
    if isinstance(place, FolderPlace) and size_mib > MOST_MIB:
        raise InputError(
            f"{folder}: its requests take {size_mib:.1f} MiB packed, a folder takes at most {MOST_MIB}; keep it with "
            "--to s3://BUCKET/PREFIX, or --without-requests: the figures alone, which no other run can be held to"
        )
    return packed.getvalue()


def _content(file: str, body: bytes) -> str:
    """What is compared: of packed requests what they unpack to, since another zlib packs otherwise."""
    try:
        if not file.endswith(PACKED):
            return hashlib.sha256(body).hexdigest()
        with gzip.open(io.BytesIO(body)) as unpacked:
            return hashlib.file_digest(
                io.BufferedReader(Unpacked(unpacked, len(body), Path(file))), "sha256"
            ).hexdigest()
    except (OSError, EOFError, zlib.error, CouldNotRunError):
        return "damaged"


@contextmanager
def at_hand(run: StoredRun) -> Iterator[Path]:
    """The run's folder; of one in S3 a copy for as long. Raises CouldNotRunError for what cannot be fetched."""
    if isinstance(run.place, FolderPlace):
        yield run.place.folder / run.name
        return
    with TemporaryDirectory(prefix="loadproof-evidence-") as name:
        folder = Path(name)
        for file in (PLAN, SUMMARY, EVIDENCE, SIGNATURE, OBSERVED, REQUESTS, REQUESTS + PACKED):
            if file not in run.files:
                continue
            body = run.place.read(run.name, file)
            if body is None:
                raise CouldNotRunError(f"{run.where}/{file}: it was there and is no more; try again")
            (folder / file).write_bytes(body)
        yield folder
