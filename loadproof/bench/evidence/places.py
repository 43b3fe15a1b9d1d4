"""Places where runs are kept: folders of this machine, and S3 prefixes laid out alike.

A run is a folder with any of `MARKS`, at any depth of its place: `runs/<run-id>/` as the benchmark leaves it,
`evidence/<environment>/<profile>/<run-id>/` as `loadproof evidence add` files it. No missing file hides what the others
say, and no run what lies below it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from loadproof.bench.evidence.names import MARKS
from loadproof.bench.plain import is_plain
from loadproof.errors import InputError

DEFAULT_PLACES = ("evidence", "runs")
_DEEPEST = 6  # folders below a place
Files = Mapping[str, int]  # sizes in bytes by name


class Place(Protocol):
    """Somewhere runs are kept. Names are relative, with `/`: `dev/chat/20261121-101500-chat`; `.`: the place itself."""

    @property
    def name(self) -> str: ...

    def runs(self) -> Mapping[str, Files]:
        """The files of every run, by the run's name."""
        ...

    def read(self, run: str, file: str) -> bytes | None: ...

    def create(self, run: str, file: str, body: bytes) -> bool:
        """Write a file that is not there yet, whole or not at all; False, and nothing touched, where it is."""
        ...


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
            if len(below.parts) >= _DEEPEST:
                folders.clear()
            folders[:] = sorted(one for one in folders if not one.startswith("."))
            plain = [one for one in sorted(files) if is_plain(here / one)] if MARKS.intersection(files) else []
            if MARKS.intersection(plain):
                found[below.as_posix()] = {one: (here / one).stat().st_size for one in plain}
        return found

    def read(self, run: str, file: str) -> bytes | None:
        path = self.folder / run / file
        try:
            return path.read_bytes() if is_plain(path) else None
        except FileNotFoundError:
            return None

    def create(self, run: str, file: str, body: bytes) -> bool:
        target = self.folder / run / file
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{file}.")
        try:
            with os.fdopen(handle, "wb") as writing:
                writing.write(body)
            Path(part).chmod(0o644)
            target.hardlink_to(part)  # unlike a rename, it never takes another's place
        except FileExistsError:
            return False
        finally:
            Path(part).unlink()
        return True


def is_reached(folder: str) -> bool:
    """Whether a place finds a run in a folder of it, named from beside the place (`evidence/dev/r`)."""
    below = folder.split("/")[1:]
    return len(below) <= _DEEPEST and not any(part.startswith(".") for part in below)


def places_of(places: Iterable[str | Path], *, must_exist: bool = True) -> tuple[Place, ...]:
    """Places by their names; without any those of `DEFAULT_PLACES` that exist.

    A folder that is missing holds nothing; with `must_exist` it is refused: InputError.
    """
    named = [str(place) for place in places]
    if not named:
        return tuple(FolderPlace(Path(one)) for one in DEFAULT_PLACES if Path(one).is_dir())
    missing = [one for one in named if not one.startswith("s3://") and not Path(one).is_dir()]
    if missing and must_exist:
        raise InputError(
            "\n".join(f"{one}: no such folder; give a folder of runs or s3://BUCKET/PREFIX" for one in missing)
        )
    return tuple(place_of(one) for one in named)


def place_of(name: str) -> Place:
    if not name.startswith("s3://"):
        return FolderPlace(Path(name))
    from loadproof.bench.evidence.s3_place import S3Place  # noqa: PLC0415  a folder needs no boto3

    return S3Place(name)
