"""The traces that profiles name, read for a review: within bounds, since a stranger's change may bring any.

As large as a review reads any file, all parts of a folder together, unzipped too. ServeGen's clients are not read:
their token counts are texts that take a hundred times their size to read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

from loadproof.bench.learn.traced import Traced, planned_as, traced_of
from loadproof.bench.workload.too_long import too_long
from loadproof.bench.workload.trace_folders import SERVEGEN
from loadproof.bench.workload.trace_formats import TraceError
from loadproof.bench.workload.trace_parts import UNREADABLE, opened, parts_of
from loadproof.bench.workload.traces import TooManyError
from loadproof.loads import MOST_REQUESTS
from loadproof.profiles import Profile
from loadproof.review.assemble import LateError
from loadproof.review.model import Traffic
from loadproof.sides.git import MOST_BLOB_BYTES
from loadproof.sides.names import readable_name

_PIECE_BYTES: Final = 1024 * 1024
_MOST_HELD: Final = 4  # traces: of a pair's two sides, and some


class Traces:
    """Each content is read once where profiles that name it follow each other; each reading is within `bounded`."""

    def __init__(self, bounded: Callable[[], AbstractContextManager[None]]) -> None:
        self._bounded = bounded
        self._held: OrderedDict[str, Traced | Traffic] = OrderedDict()

    def traffic_of(self, profile: Profile, content_id: str, file: Path, name: str) -> Traffic:
        """What a trace says of a profile, or why nothing is said. `name` is the file's, for messages."""
        if content_id not in self._held:
            self._held[content_id] = self._read(file)
            if len(self._held) > _MOST_HELD:
                self._held.popitem(last=False)
        found = self._held[content_id]
        if isinstance(found, Traffic):
            return found
        planned = planned_as(profile, found.learned) if found.learned is not None else None
        try:
            with self._bounded():
                wrong = too_long(profile, found.rows)
        except LateError:
            wrong = ""
        return Traffic(found.figures, wrong, planned, found.why and f"{name}: {found.why}")

    def _read(self, file: Path) -> Traced | Traffic:
        try:
            with self._bounded():
                return _why_not(file) or traced_of(file)
        except LateError:
            return Traffic(unread="there is no time to read it; give more with --within")
        except TooManyError:
            return Traffic(wrong=f"it has more than {MOST_REQUESTS:,} requests, which no benchmark holds at once")
        except TraceError as error:
            place = readable_name(error.places[0].removeprefix(f"{file}")[1:]) if error.places else ""
            part, _, line = place.rpartition(":")
            where = f" ({f'{part}, ' if part else ''}line {line})" if line.isdecimal() else ""
            return Traffic(wrong=f"a benchmark cannot read it as a trace{where}")


def _why_not(file: Path) -> Traffic | None:
    if any(file.glob(SERVEGEN)):
        return Traffic(unread="a folder of ServeGen's clients, which no review reads")
    left = MOST_BLOB_BYTES
    for part in parts_of(file):
        with suppress(*UNREADABLE), opened(part) as stream:  # told by who reads it
            while left >= 0 and (piece := stream.read(_PIECE_BYTES)):
                left -= len(piece)
    if left < 0:
        return Traffic(unread=f"larger than {MOST_BLOB_BYTES // 2**20} MiB, the most that a review reads of a trace")
    return None
