"""S3's bodies in chunks (`aws-chunked`), each signed after the one before.

Source: "Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks", Amazon S3 API
Reference.
"""

from __future__ import annotations

import hmac
import re
from hashlib import sha256

from loadproof.localcloud.seal.canonical import ALGORITHM, Scope, signed_text
from loadproof.localcloud.seal.errors import SealError

SIGNED = f"STREAMING-{ALGORITHM}-PAYLOAD"
UNSIGNED = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
KINDS = (SIGNED, f"{SIGNED}-TRAILER", UNSIGNED)
_HEAD = re.compile(rb"([0-9a-fA-F]{1,16});chunk-signature=([0-9a-f]{64})\r\n")
_EMPTY = sha256(b"").hexdigest()


def verify(body: bytes, secret: str, scope: Scope, timestamp: str, seed: str, *, trailer: bool) -> None:
    """Raises SealError unless every chunk, the last empty one and the trailer (if any) carry their signatures."""
    before, at = seed, 0
    while True:
        head = _HEAD.match(body, at)
        if head is None:
            raise _refused("a chunk without a signature")
        size = int(head[1], 16)
        chunk = body[head.end() : head.end() + size]
        text = f"{ALGORITHM}-PAYLOAD\n{timestamp}\n{scope.text}\n{before}\n{_EMPTY}\n{sha256(chunk).hexdigest()}"
        before = _checked(head[2].decode(), signed_text(secret, scope, text))
        at = head.end() + size
        if not size:
            break
        if body[at : at + 2] != b"\r\n":
            raise _refused("a chunk of another length")
        at += 2
    lines = [line for line in body[at:].split(b"\r\n") if line]
    if trailer:
        _verify_trailer(lines, secret, scope, timestamp, before)
    elif lines:
        raise _refused("more than was signed")


def _verify_trailer(lines: list[bytes], secret: str, scope: Scope, timestamp: str, before: str) -> None:
    if not lines:
        raise _refused("no trailer")
    given = lines.pop().partition(b"x-amz-trailer-signature:")[2].decode("ascii", "replace")
    hashed = sha256(b"".join(line + b"\n" for line in lines)).hexdigest()
    text = f"{ALGORITHM}-TRAILER\n{timestamp}\n{scope.text}\n{before}\n{hashed}"
    _checked(given, signed_text(secret, scope, text))


def _checked(given: str, computed: str) -> str:
    if not hmac.compare_digest(given.encode(), computed.encode()):
        raise _refused("a chunk with another signature")
    return given


def _refused(why: str) -> SealError:
    return SealError("SignatureDoesNotMatch", f"The body in chunks is not what was signed: {why}", s3=True)
