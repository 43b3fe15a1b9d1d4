"""Lines of recorded traffic, one in memory at a time: what was gzipped may hold one of any length."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import IO, Final

from loadproof.bench.workload.trace_formats import TraceError

MOST_LINE_BYTES: Final = 64 * 2**20  # far above what an endpoint takes and gives


def lines_of(name: str, stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """(number, line) of a file that messages call `name`, without byte order marks. Raises TraceError."""
    number = 0
    while line := stream.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(line) > MOST_LINE_BYTES:
            raise TraceError((f"{name}:{number}", f"longer than {MOST_LINE_BYTES // 2**20} MiB; one object a line"))
        yield number, line.removeprefix(BOM_UTF8)
