"""Requests as an attacker writes them: byte by byte, so that no client library repairs them."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.client import HTTPResponse

from loadproof.localcloud.local import LocalCloud


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


def raw(cloud: LocalCloud, request: bytes) -> Answer:
    """Send these bytes, and read the one answer."""
    with socket.create_connection(("127.0.0.1", cloud.state.port), timeout=20) as connection:
        connection.sendall(request)
        answer = HTTPResponse(connection)
        answer.begin()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


def request_bytes(
    method: str,
    path: str,
    headers: Mapping[str, str] | Iterable[tuple[str, str]],
    body: bytes = b"",
    version: str = "HTTP/1.1",
) -> bytes:
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    if not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in pairs):
        pairs.append(("Content-Length", str(len(body))))
    lines = "".join(f"{name}: {value}\r\n" for name, value in pairs)
    return f"{method} {path} {version}\r\n{lines}\r\n".encode() + body
