"""A Merkle tree over the lines of requests.jsonl in their order, grown as requests end: RFC 6962's, with SHA-256.

Leaf = SHA-256(0x00 ‖ line, its newline included); node = SHA-256(0x01 ‖ left ‖ right); n leaves are split at the
largest power of two below n. One more leaf costs two hashes on average and keeps at most log2(n) + 1 of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Final

LEAF: Final = b"\x00"
NODE: Final = b"\x01"


@dataclass(frozen=True, slots=True)
class TreeHead:
    """What names all requests of a run, and their order."""

    root: str
    """root of the Merkle tree over the file's lines, hexadecimal (RFC 6962, SHA-256)"""
    count: int
    """lines"""


class HashTree:
    """Takes lines one by one; `head` is of those taken so far."""

    def __init__(self, lines: Iterable[bytes] = ()) -> None:
        self._peaks: list[bytes] = []  # roots of full subtrees, the largest first: one for each bit of the count
        self._count = 0
        for line in lines:
            self.append(line)

    def append(self, line: bytes) -> None:
        node = hashlib.sha256(LEAF + line).digest()
        full = self._count
        while full & 1:
            node = hashlib.sha256(NODE + self._peaks.pop() + node).digest()
            full >>= 1
        self._peaks.append(node)
        self._count += 1

    @property
    def head(self) -> TreeHead:
        if not self._peaks:
            return TreeHead(hashlib.sha256().hexdigest(), 0)
        root = reduce(lambda right, left: hashlib.sha256(NODE + left + right).digest(), reversed(self._peaks))
        return TreeHead(root.hex(), self._count)
