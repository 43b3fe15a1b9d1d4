"""Pictures to send: PNG files of a given size, no two alike, as `data:` URIs."""

from __future__ import annotations

import base64
import random
import struct
import zlib

from loadproof.bench.spec import ImageSpec

CELL_PX = 16
MOST_PX = 8192


def picture_uri(spec: ImageSpec, seed: str) -> str:
    """One picture, the same for the same seed: cells of 16 px in random colours, small as a file at any size.

    What a model pays for is the picture's size in pixels; cells keep the request's size in bytes, and the time to make
    it, from becoming the thing that is measured.
    """
    return "data:image/png;base64," + base64.b64encode(png(spec.width_px, spec.height_px, seed)).decode()


def png(width_px: int, height_px: int, seed: str) -> bytes:
    """8-bit RGB, no interlace (PNG specification, third edition)."""
    chance = random.Random(seed)
    lines = []
    for _ in range(-(-height_px // CELL_PX)):
        colours = (chance.randbytes(3) for _ in range(-(-width_px // CELL_PX)))
        line = b"".join(colour * CELL_PX for colour in colours)[: 3 * width_px]
        lines.append(b"\0" + line)  # filter 0: none
    rows = b"".join(line * CELL_PX for line in lines)[: height_px * (3 * width_px + 1)]
    header = struct.pack(">IIBBBBB", width_px, height_px, 8, 2, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 1)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
