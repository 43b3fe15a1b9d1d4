"""Where recorded traffic lies: files and folders of this machine, objects under a prefix of S3; gzipped or not."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from loadproof.bench.s3_store import S3Store, s3_client
from loadproof.bench.workload import lines
from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation.aws_errors import BotoCoreError

CAPTURES: Final = (".jsonl", ".json", ".ndjson", ".gz")


class NothingRecordedError(InputError):
    """No file, or next to no request in them."""


@dataclass(frozen=True, slots=True)
class File:
    """One file, as messages name it; `path` where it lies here, else `store` has it as `key`."""

    name: str
    path: Path | None = None
    store: S3Store | None = None
    key: str = ""
    size: int = 0

    def opened(self) -> IO[bytes]:
        """A stream of its bytes. Raises OSError, CouldNotRunError."""
        if self.path is not None:
            return self.path.open("rb")
        assert self.store is not None
        return self.store.stream(self.key)


def files_of(source: str) -> Iterator[File]:
    """Raises NothingRecordedError for a folder or prefix without a capture, CouldNotRunError for what S3 refuses."""
    if source.startswith("s3:"):
        store = S3Store(source, s3_client(attempts=4))
        files = [File(f"{store.uri}/{key}", None, store, key, size) for key, size in _sizes(store)]
    elif Path(source).is_dir():
        found = sorted(one for one in Path(source).rglob("*") if one.suffix in CAPTURES and one.is_file())
        files = [File(str(one), one, size=one.stat().st_size) for one in found]
    else:
        path = Path(source)
        if not path.exists():
            raise InputError(f"{source}: no such file or folder")
        files = [File(source, path, size=path.stat().st_size if path.is_file() else 0)]
    if not files:
        raise NothingRecordedError(f"{source}: no file ending in {', '.join(CAPTURES)}")
    yield from files


def _sizes(store: S3Store) -> Iterator[tuple[str, int]]:
    last = ""
    while page := store.sizes("", last):
        yield from ((key, size) for key, size in page.items() if key.endswith(CAPTURES))
        last = [*page][-1]


def lines_of(file: File) -> Iterator[tuple[int, bytes]]:
    """(number, line) of all that are not blank, one in memory at a time. Raises InputError, CouldNotRunError."""
    try:
        with closing(file.opened()) as raw, closing(_plain(file.name, raw)) as stream:
            yield from ((number, line) for number, line in lines.lines_of(file.name, stream) if line.strip())
    except BotoCoreError as error:
        raise CouldNotRunError(f"{file.name}: S3 broke off: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file.name}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def _plain(name: str, raw: IO[bytes]) -> IO[bytes]:
    if name.endswith(".gz"):
        return io.BufferedReader(gzip.GzipFile(fileobj=raw))
    return raw
