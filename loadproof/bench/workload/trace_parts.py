"""The files of a trace: one, or the parts of one that a folder holds."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path
from typing import BinaryIO, Final, cast

from loadproof.bench.workload.trace_formats import TraceError

UNREADABLE: Final = (OSError, EOFError, zlib.error)  # a file that is not there, not gzipped as its name says, cut off
SUFFIXES: Final = (".csv", ".jsonl", ".ndjson", ".json")
_NUMBERS: Final = re.compile(r"([0-9]{1,18})")


def opened(path: Path) -> BinaryIO:
    """Its bytes as they were before they were gzipped, if they were."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def unreadable(path: Path, error: Exception) -> TraceError:
    """What is said of a file that is not there, not gzipped as its name says, or cut off."""
    why = getattr(error, "strerror", None) or error
    return TraceError((str(path), f"cannot be read as a trace ({why}); give a CSV or JSON Lines file, gzipped or not"))


def plain_suffix(path: Path) -> str:
    """`.json` of `a.json` and of `a.json.gz`."""
    return Path(path.name.removesuffix(".gz")).suffix


def parts_of(path: Path) -> list[Path]:
    """A file itself; of a folder what may hold a trace, by name, with numbers in it by their value."""
    if not path.is_dir():
        return [path]
    found = (one for one in path.glob("*") if plain_suffix(one) in SUFFIXES and one.name[0] not in "._")
    return sorted((one for one in found if one.is_file()), key=_by_name)


def _by_name(path: Path) -> list[tuple[str, int]]:
    """Texts and numbers of a name take turns, so that part-2 comes before part-10."""
    pieces = _NUMBERS.split(path.name)
    return [("", int(piece)) if place % 2 else (piece, 0) for place, piece in enumerate(pieces)]
