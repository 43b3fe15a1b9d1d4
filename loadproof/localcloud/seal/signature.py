"""Whether a request was signed with a key of this cloud: headers, presigned URLs of either version, bearer tokens.

Raises SealError with the code that AWS uses. Two halves: what can be said before the body is read (a stranger gets
no further), and the signature itself, which covers the body. Dates are the wall's, as callers' are, however fast the
cloud's own clock runs.
"""

from __future__ import annotations

import hmac
import re
import time
from base64 import b64decode
from calendar import timegm
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from urllib.parse import parse_qsl, urlsplit

from multidict import CIMultiDict, CIMultiDictProxy

from loadproof.localcloud.seal import chunks
from loadproof.localcloud.seal.canonical import ALGORITHM, UNSIGNED, Request, Scope, canonical_request, signature
from loadproof.localcloud.seal.errors import SealError
from loadproof.localcloud.seal.keys import Key, Keys
from loadproof.localcloud.seal.presigned_v2 import signature_v2

SKEW_S = 15 * 60
_LONGEST_PRESIGNED_S = 7 * 24 * 3600
_LONGEST_BEARER_S = 12 * 3600
_AUTHORIZATION = re.compile(
    rf"{ALGORITHM} Credential=([^/,\s]+)/(\d{{8}})/([^/,\s]+)/([^/,\s]+)/aws4_request,\s*"
    r"SignedHeaders=([^,\s]+),\s*Signature=([0-9a-f]{64})"
)
_CREDENTIAL = re.compile(r"([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request")
# Tokens are signed URLs of one action, sent to a host that is not ours: what the token is for says which.
_BEARERS = {"sagemaker-api-key-": "sagemaker.amazonaws.com", "bedrock-api-key-": "bedrock.amazonaws.com"}
_FREE_HEADERS = frozenset({"x-amzn-trace-id"})  # set by the network on AWS


@dataclass(frozen=True, slots=True)
class Claim:
    """A signature whose key, token and dates are good; `settle` says whether it is this request's, body and all.

    `scope` is what it is good for; `presigned`, that it came in the address; `bearer`, that it is a token.
    """

    settle: Callable[[bytes], None]
    scope: Scope
    presigned: bool = False
    bearer: bool = False


class Verifier:
    """`wall_s`: seconds since 1970."""

    def __init__(self, keys: Keys, wall_s: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._wall_s = wall_s
        self._bodies: dict[str, tuple[float, bytes]] = {}  # of signatures that do not cover them

    def claim(self, request: Request) -> Claim:
        """Everything but the signature, which needs the body. Raises SealError."""
        authorization = request.headers.get("Authorization", "")
        if authorization:
            if authorization.startswith("Bearer "):
                return self._bearer(request, authorization.removeprefix("Bearer "))
            return self._headers(request, authorization)
        query = dict(parse_qsl(request.query, keep_blank_values=True))
        if "X-Amz-Signature" in query:
            return self._presigned(request, query)
        if "Signature" in query and "AWSAccessKeyId" in query:
            return self._presigned_v2(request, query)
        raise SealError("MissingAuthenticationToken", "The local cloud takes requests signed with its own keys only")

    def _headers(self, request: Request, authorization: str) -> Claim:
        found = _AUTHORIZATION.fullmatch(authorization)
        if found is None:
            raise SealError("IncompleteSignature", f"Authorization is no {ALGORITHM} signature")
        scope = Scope(*found.group(1, 2, 3, 4))
        timestamp = request.headers.get("X-Amz-Date", "")
        at_s = _seconds(timestamp, scope)
        if abs(self._wall_s() - at_s) > SKEW_S:
            code = "RequestTimeTooSkewed" if scope.s3 else "SignatureDoesNotMatch"
            raise SealError(code, f"Signature of {timestamp} is not of now", s3=scope.s3)
        key = self._key(scope, request.headers.get("X-Amz-Security-Token"))
        signed = _signed_headers(request, scope, found[5])
        declared = request.headers.get("X-Amz-Content-Sha256")

        def settle(body: bytes) -> None:
            hashed = _payload_hash(scope, declared, body)
            canonical = canonical_request(request, scope, signed, hashed)
            _compare(found[6], signature(key.secret, scope, timestamp, canonical), scope)
            if hashed.startswith(chunks.SIGNED):
                chunks.verify(body, key.secret, scope, timestamp, found[6], trailer=hashed != chunks.SIGNED)
            elif hashed in (UNSIGNED, chunks.UNSIGNED):
                self._only_body(found[6], body, scope)

        return Claim(settle, scope)

    def _only_body(self, given: str, body: bytes, scope: Scope) -> None:
        """A signature that covers no body is good for the first one it comes with, and its retries."""
        now_s = self._wall_s()
        self._bodies = {one: kept for one, kept in self._bodies.items() if now_s - kept[0] < 2 * SKEW_S}
        hashed = sha256(body).digest()
        if self._bodies.setdefault(given, (now_s, hashed))[1] != hashed:
            raise SealError("SignatureDoesNotMatch", "The signature was used with another body", s3=scope.s3)

    def _presigned(self, request: Request, query: Mapping[str, str]) -> Claim:
        scope = self._query_scope(query)
        timestamp = query.get("X-Amz-Date", "")
        self._check_life(timestamp, query.get("X-Amz-Expires", ""), scope, _LONGEST_PRESIGNED_S)
        key = self._key(scope, query.get("X-Amz-Security-Token"))
        signed = _signed_headers(request, scope, query.get("X-Amz-SignedHeaders", ""))
        unsigned = Request(request.method, request.path, _without_signature(request.query), request.headers)
        declared = request.headers.get("X-Amz-Content-Sha256") or query.get("X-Amz-Content-Sha256")

        def settle(body: bytes) -> None:
            hashed = declared or (UNSIGNED if scope.s3 else sha256(body).hexdigest())
            hashed = _payload_hash(scope, hashed, body)
            canonical = canonical_request(unsigned, scope, signed, hashed)
            _compare(query["X-Amz-Signature"], signature(key.secret, scope, timestamp, canonical), scope)

        return Claim(settle, scope, presigned=True)

    def _presigned_v2(self, request: Request, query: Mapping[str, str]) -> Claim:
        """boto3's presigned URLs of S3 are of version 2 where nobody asks for another."""
        expires = query.get("Expires", "")
        if not expires.isdigit() or self._wall_s() > int(expires):
            raise SealError("AccessDenied", "Request has expired", s3=True)
        scope = Scope(query["AWSAccessKeyId"], "", "", "s3")
        key = self._key(scope, query.get("x-amz-security-token"))
        _compare(query["Signature"], signature_v2(request, query, key.secret), scope)
        return Claim(lambda body: None, scope, presigned=True)

    def _bearer(self, request: Request, token: str) -> Claim:
        prefix = next((one for one in _BEARERS if token.startswith(one)), None)
        if prefix is None:
            raise SealError("InvalidSignatureException", "The bearer token is not one of this cloud's keys")
        host = _BEARERS[prefix]
        try:
            url = urlsplit(f"https://{b64decode(token.removeprefix(prefix), validate=True).decode('ascii')}")
        except ValueError:
            raise SealError("InvalidSignatureException", "The bearer token cannot be read") from None
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        scope = self._query_scope(query)
        if url.netloc != host or query.get("Action") != "CallWithBearerToken" or not host.startswith(scope.service):
            raise SealError("InvalidSignatureException", "The bearer token is for something else")
        timestamp = query.get("X-Amz-Date", "")
        self._check_life(timestamp, query.get("X-Amz-Expires", ""), scope, _LONGEST_BEARER_S)
        key = self._key(scope, query.get("X-Amz-Security-Token"))
        meant = CIMultiDictProxy(CIMultiDict(Host=host))
        # The version is put behind what was signed.
        unsigned = _without_signature(url.query.removesuffix("&Version=1"))
        canonical = canonical_request(
            Request("POST", url.path or "/", unsigned, meant), scope, ("host",), sha256(b"").hexdigest()
        )
        _compare(query.get("X-Amz-Signature", ""), signature(key.secret, scope, timestamp, canonical), scope)
        return Claim(lambda body: None, scope, bearer=True)

    def _query_scope(self, query: Mapping[str, str]) -> Scope:
        found = _CREDENTIAL.fullmatch(query.get("X-Amz-Credential", ""))
        if found is None or query.get("X-Amz-Algorithm") != ALGORITHM:
            raise SealError("IncompleteSignature", f"The signed URL is not of {ALGORITHM}")
        return Scope(*found.group(1, 2, 3, 4))

    def _check_life(self, timestamp: str, expires: str, scope: Scope, longest_s: int) -> None:
        at_s = _seconds(timestamp, scope)
        if not expires.isdigit() or not 1 <= int(expires) <= longest_s:
            raise SealError("AuthorizationQueryParametersError", f"X-Amz-Expires: 1 to {longest_s}", s3=scope.s3)
        if not at_s - SKEW_S <= self._wall_s() <= at_s + int(expires):
            raise SealError("AccessDenied", "Request has expired", s3=scope.s3)

    def _key(self, scope: Scope, token: str | None) -> Key:
        known = self._keys.find(scope.access_key)
        if known is None:
            code = "InvalidAccessKeyId" if scope.s3 else "InvalidClientTokenId"
            raise SealError(code, "The access key is not this local cloud's: loadproof local env", s3=scope.s3)
        if not hmac.compare_digest((known.token or "").encode(), (token or "").encode()):
            code = "InvalidToken" if scope.s3 else "InvalidClientTokenId"
            raise SealError(code, "The security token included in the request is invalid", s3=scope.s3)
        if known.expires_s is not None and self._wall_s() > known.expires_s:
            code = "ExpiredToken" if scope.s3 else "ExpiredTokenException"
            raise SealError(code, "The security token included in the request is expired", s3=scope.s3)
        return known


@lru_cache(maxsize=64)
def _parsed(timestamp: str) -> int:
    return timegm(time.strptime(timestamp, "%Y%m%dT%H%M%SZ"))


def _seconds(timestamp: str, scope: Scope) -> int:
    try:
        at_s = _parsed(timestamp)
    except ValueError:
        raise SealError("IncompleteSignature", "X-Amz-Date is no time", s3=scope.s3) from None
    if not timestamp.startswith(scope.day):
        raise SealError("SignatureDoesNotMatch", "Credential and X-Amz-Date are of two days", s3=scope.s3)
    return at_s


def _signed_headers(request: Request, scope: Scope, names: str) -> tuple[str, ...]:
    """The names; `host` and everything of AWS's own must be among them, or somebody could put it there."""
    signed = tuple(names.split(";"))
    if "host" not in signed or list(signed) != sorted(set(signed)):
        raise SealError("SignatureDoesNotMatch", "SignedHeaders must hold host, in order", s3=scope.s3)
    for name in {name.lower() for name in request.headers}:
        if name.startswith(("x-amz-", "x-amzn-")) and name not in signed and name not in _FREE_HEADERS:
            code = "AccessDenied" if scope.s3 else "SignatureDoesNotMatch"
            raise SealError(
                code, f"There were headers present in the request which were not signed: {name}", s3=scope.s3
            )
    return signed


def _payload_hash(scope: Scope, declared: str | None, body: bytes) -> str:
    """What stands for the body in the canonical request; only S3 takes bodies that are not hashed whole."""
    if declared is None:
        return sha256(body).hexdigest()
    if scope.s3 and (declared == UNSIGNED or declared in chunks.KINDS):
        return declared
    if not hmac.compare_digest(declared.encode(), sha256(body).hexdigest().encode()):
        code = "XAmzContentSHA256Mismatch" if scope.s3 else "SignatureDoesNotMatch"
        raise SealError(
            code, "The provided 'x-amz-content-sha256' header does not match what was computed", s3=scope.s3
        )
    return declared


def _without_signature(query: str) -> str:
    return "&".join(pair for pair in query.split("&") if not pair.startswith("X-Amz-Signature="))


def _compare(given: str, computed: str, scope: Scope) -> None:
    if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), computed.encode()):
        raise SealError(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. "
            "Check your key and signing method.",
            s3=scope.s3,
        )
