"""Signature Version 4 as the receiver computes it, from a request as it came.

Source: "Create a signed AWS API request", IAM User Guide. botocore's signers leave out headers that other SDKs
sign and rebuild URLs that must be taken as they came; tests hold the two equal.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from urllib.parse import quote, unquote

from botocore.utils import normalize_url_path
from multidict import CIMultiDictProxy

ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"
SINGLY_ENCODED = ("s3", "s3express", "s3-outposts", "s3-object-lambda")


@dataclass(frozen=True, slots=True)
class Scope:
    """Whom and what a signature is good for, as its credential says."""

    access_key: str
    day: str
    region: str
    service: str

    @property
    def text(self) -> str:
        return f"{self.day}/{self.region}/{self.service}/aws4_request"

    @property
    def s3(self) -> bool:
        return self.service in SINGLY_ENCODED


@dataclass(frozen=True, slots=True)
class Request:
    """The signed parts of a request, as received; `path` and `query` escaped as they were sent."""

    method: str
    path: str
    query: str
    headers: CIMultiDictProxy[str]


def canonical_request(request: Request, scope: Scope, signed: tuple[str, ...], payload_hash: str) -> str:
    """What is hashed and signed. `signed` are the names of the signed headers, sorted, in lower case."""
    lines = "".join(
        f"{name}:{','.join(' '.join(value.split()) for value in request.headers.getall(name, ()))}\n" for name in signed
    )
    path = request.path if scope.s3 else quote(_normal(request.path), safe="/~")
    query = _canonical_query(request.query)
    return f"{request.method}\n{path}\n{query}\n{lines}\n{';'.join(signed)}\n{payload_hash}"


def signature(secret: str, scope: Scope, timestamp: str, canonical: str) -> str:
    """The signature of a canonical request, in hex."""
    hashed = sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
    return signed_text(secret, scope, f"{ALGORITHM}\n{timestamp}\n{scope.text}\n{hashed}")


def signed_text(secret: str, scope: Scope, text: str) -> str:
    key = _signing_key(secret, scope.day, scope.region, scope.service)
    return hmac.digest(key, text.encode(), "sha256").hex()


@lru_cache(maxsize=256)
def _signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _canonical_query(query: str) -> str:
    if not query:
        return ""
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return "&".join(
        f"{name}={value}" for name, value in sorted((_escaped(one), _escaped(two)) for one, _, two in pairs)
    )


def _escaped(text: str) -> str:
    return quote(unquote(text), safe="-_.~")


def _normal(path: str) -> str:
    """Without dot segments and doubled slashes, which every service but S3 takes away."""
    if "//" not in path and "/." not in path:
        return path
    return str(normalize_url_path(path))
