"""A hub on loopback: its tree in pages, files by redirect to another host, ranges, gates and faults."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler
from typing import Any

from http_servers import Quiet, serving_http

REVISION = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "acme/chat-7b"


@dataclass
class Hub:
    """What it serves and how it misbehaves; `ranges` are what was asked of the place that keeps the bytes."""

    files: dict[str, bytes]
    large: frozenset[str] = frozenset()
    repository: str = REPOSITORY
    revision: str = REVISION
    token: str | None = None
    refuses_with: int | None = None
    wrong_sum: str | None = None
    cut_at: int | None = None  # bytes of an answer after which the connection ends
    ignores_ranges: bool = False
    stall_after: int | None = None  # answers of bytes, after which the next ones hang
    address: str = ""
    storage: str = ""
    ranges: list[tuple[str, int, int]] = field(default_factory=list)
    tokens_at_storage: list[str | None] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def tree(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = [{"type": "directory", "path": "original", "oid": "0" * 40, "size": 0}]
        for path, body in self.files.items():
            blob = _sum("sha1", b"blob %d\0" % len(body) + body)
            entry: dict[str, Any] = {"type": "file", "path": path, "oid": blob, "size": len(body)}
            if path in self.large:
                digest = _sum("sha256", body)
                # The listed size of a large file is its pointer's in git; the file's own stands under lfs.
                entry |= {"size": 134, "lfs": {"oid": digest, "size": len(body), "pointerSize": 134}}
            if path == self.wrong_sum:
                entry.get("lfs", entry)["oid"] = "f" * (64 if path in self.large else 40)
            listed.append(entry)
        return listed


@lru_cache(maxsize=64)
def _sum(kind: str, body: bytes) -> str:
    return hashlib.new(kind, body).hexdigest()


@contextmanager
def served(hub: Hub) -> Iterator[Hub]:
    """The hub and its storage, each on a port of its own."""
    with serving_http(_storage_handler(hub)) as storage, serving_http(_hub_handler(hub)) as address:
        hub.storage, hub.address = storage, address
        try:
            yield hub
        finally:
            hub.released.set()


class _Answers(Quiet, BaseHTTPRequestHandler):
    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _hub_handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(_Answers):
        def do_GET(self) -> None:
            url = urllib.parse.urlsplit(self.path)
            path = urllib.parse.unquote(url.path)
            if hub.refuses_with:
                return self.answer(hub.refuses_with)
            if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
                return self.answer(401)
            if path == f"/api/models/{hub.repository}/tree/{hub.revision}":
                return self._page(int(urllib.parse.parse_qs(url.query).get("cursor", ["0"])[0]))
            name = path.removeprefix(f"/{hub.repository}/resolve/{hub.revision}/")
            if name not in hub.files:
                return self.answer(404)
            if name in hub.large:
                return self.answer(302, Location=f"{hub.storage}/{urllib.parse.quote(name)}")
            return self.answer(206 if "Range" in self.headers else 200, hub.files[name])

        def _page(self, start: int) -> None:
            """Three entries a page, the next one named in a header."""
            tree = hub.tree()
            following = (
                f"{hub.address}/api/models/{hub.repository}/tree/{hub.revision}?recursive=true&cursor={start + 3}"
            )
            more = {"Link": f'<{following}>; rel="next"'} if start + 3 < len(tree) else {}
            self.answer(200, json.dumps(tree[start : start + 3]).encode(), **more)

    return Handler


def _storage_handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Handler(_Answers):
        def do_GET(self) -> None:
            name = urllib.parse.unquote(self.path.lstrip("/"))
            hub.tokens_at_storage.append(self.headers.get("Authorization"))
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
            assert wanted is not None
            start, end = int(wanted[1]), int(wanted[2]) + 1
            if hub.ignores_ranges:
                return self.answer(200, hub.files[name])
            with lock:
                stalled = hub.stall_after is not None and len(hub.ranges) >= hub.stall_after
                if not stalled:
                    hub.ranges.append((name, start, end))
            if stalled:
                hub.released.wait(20)
                return None
            body = hub.files[name][start:end]
            if hub.cut_at is not None:
                self.send_response(206)
                self.end_headers()
                self.wfile.write(body[: hub.cut_at])
                return None
            return self.answer(206, body)

    return Handler
