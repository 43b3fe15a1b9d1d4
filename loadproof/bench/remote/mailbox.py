"""Lines between hosts that share nothing but a store: numbered objects, each written once, read in order.

A line is a request's record as it stands in requests.jsonl, or a JSON object that begins with the key `tell`. It is
the language of a run's own worker processes (`loadproof.bench.load.workers`) with S3 in the socket's place.
"""

from __future__ import annotations

import threading

import orjson

from loadproof.bench.load.worker import Said
from loadproof.bench.s3_store import Store
from loadproof.errors import CouldNotRunError

LEADER = "leader"
_TELL = b'{"tell"'


def host_box(host: str) -> str:
    return f"hosts/{host}"


class Outbox:
    """What one host says. Lines wait until `flush`, which makes one object of them."""

    def __init__(self, store: Store, box: str) -> None:
        self._store, self._box = store, box
        self._lines: list[bytes] = []
        self._number = 0
        self._flushing = threading.Lock()

    def tell(self, what: str, **more: object) -> None:
        self._lines.append(orjson.dumps({"tell": what, **more}))

    def add(self, record: object) -> None:
        self._lines.append(orjson.dumps(record, default=list))  # read records hold arrays

    def flush(self) -> bool:
        """Write what waits; False where the store would not have it, and the next flush has it too."""
        with self._flushing:
            lines = list(self._lines)
            if not lines:
                return True
            try:
                self._store.put(f"{self._box}/{self._number:08d}.jsonl", b"\n".join(lines) + b"\n")
            except CouldNotRunError:
                return False
            del self._lines[: len(lines)]  # what was said meanwhile stays
            self._number += 1
            return True


class Inbox:
    """What another host says, from the beginning."""

    def __init__(self, store: Store, box: str) -> None:
        self._store, self._box = store, box
        self._last = ""

    def read(self) -> list[bytes]:
        """New lines; none also where the store cannot be read just now."""
        lines: list[bytes] = []
        try:
            for key in self._store.keys(f"{self._box}/", self._last or f"{self._box}/"):
                body = self._store.get(key)
                if body is None:
                    break
                lines += body.splitlines()
                self._last = key
        except CouldNotRunError:
            pass  # whoever is not heard of for long is lost; one failed look is nothing
        return lines


def parsed_line(line: bytes) -> Said | None:
    """The line as something told; None for a record."""
    if not line.startswith(_TELL):
        return None
    said: Said = orjson.loads(line)
    return said
