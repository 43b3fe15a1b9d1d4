"""Templates kept between reviews, by a hash of everything they are made of: the base of one is the base of the next.

Whoever may write here decides what a review sees: a job that runs strangers' code may read a cache that others trust,
and must not save it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 256 * 1024 * 1024  # about 15,000 templates
_FOLDER_VARIABLE: Final = "LOADPROOF_CACHE"


def cache_folder() -> Path:
    """$LOADPROOF_CACHE, else `loadproof` in the user's cache folder; reviews have a folder in it."""
    own = os.environ.get(_FOLDER_VARIABLE)
    general = os.environ.get("XDG_CACHE_HOME")
    base = Path(own) if own else (Path(general) if general else Path.home() / ".cache") / "loadproof"
    return base / "review"


class Cache:
    """Entries are files of their own, written whole; one that does not read well counts as none.

    A folder that cannot be written costs time and nothing else.
    """

    def __init__(self, folder: Path | None, most_bytes: int = MOST_BYTES) -> None:
        """None: nothing is kept."""
        self.folder = folder
        self.most_bytes = most_bytes

    def get(self, key: str) -> Mapping[str, object] | None:
        """Templates by stack name; None for a key that is not there."""
        if self.folder is None:
            return None
        file = self._file(key)
        try:
            digest, _, body = gzip.decompress(file.read_bytes()).partition(b"\n")
            if digest.decode() != _digest(key, body):
                return None
            found = json.loads(body)
            os.utime(file)  # the oldest goes first, by use
        except (OSError, EOFError, zlib.error, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def put(self, key: str, templates: Mapping[str, object]) -> None:
        if self.folder is None:
            return
        body = json.dumps(templates, separators=(",", ":")).encode()
        packed = gzip.compress(_digest(key, body).encode() + b"\n" + body, compresslevel=3, mtime=0)
        file = self._file(key)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=file.parent, prefix=".new-", delete=False) as new:
                new.write(packed)
            Path(new.name).replace(file)

    def trim(self) -> None:
        """Remove the least recently used entries past the bound. Another review may do the same at the same time."""
        if self.folder is None:
            return
        found: list[tuple[float, int, Path]] = []
        for file in self.folder.glob("*/*"):
            with suppress(OSError):
                facts = file.stat()
                found.append((facts.st_mtime, facts.st_size, file))
        total = sum(size for _, size, _ in found)
        for _, size, file in sorted(found):
            if total <= self.most_bytes:
                return
            with suppress(OSError):
                file.unlink()
            total -= size

    def _file(self, key: str) -> Path:
        if self.folder is None:
            raise ValueError("no folder")
        return self.folder / key[:2] / f"{key}.json.gz"


def _digest(key: str, body: bytes) -> str:
    """Of content and place, so that an entry under another's name is none."""
    return hashlib.sha256(key.encode() + b"\n" + body).hexdigest()
