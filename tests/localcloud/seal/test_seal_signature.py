"""The receiver's half of Signature Version 4, against botocore's signers and AWS's own worked example."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from loadproof.invocation.openai_path import bearer_token
from loadproof.invocation.sigv4 import Credentials as OurCredentials
from loadproof.invocation.sigv4 import Signer
from loadproof.localcloud.seal import chunks
from loadproof.localcloud.seal.canonical import Request, Scope
from loadproof.localcloud.seal.errors import SealError
from loadproof.localcloud.seal.keys import Key
from loadproof.localcloud.seal.signature import Verifier

HOST = "localhost:4566"
KEYS = Credentials("AKID", "secret")


class OneKey:
    def __init__(self, key: Key) -> None:
        self._key = key

    def find(self, access_key: str) -> Key | None:
        return self._key if access_key == "AKID" else None


def verify(request: Request, body: bytes = b"", key: Key | None = None) -> None:
    Verifier(OneKey(key or Key("secret"))).claim(request).settle(body)


def received(request: AWSRequest) -> Request:
    parts = urlsplit(request.url)
    return Request(
        request.method, parts.path or "/", parts.query, CIMultiDictProxy(CIMultiDict(request.headers.items()))
    )


_PATHS = st.text("abz/-_.~%20 é:+=&", max_size=20).map(lambda text: f"/{text}")
_VALUES = st.text("ab z,;=é", max_size=20)


@given(
    path=_PATHS.map(lambda path: path.replace(" ", "%20").replace("é", "%C3%A9").replace("%z", "z")),
    query=st.dictionaries(st.sampled_from(["list-type", "prefix", "a b", "uploads", "é"]), _VALUES, max_size=3),
    value=st.text("ab c", max_size=10),
    body=st.binary(max_size=50),
    service=st.sampled_from(["s3", "sagemaker", "sqs"]),
)
def test_what_botocore_signs_is_verified(
    path: str, query: dict[str, str], value: str, body: bytes, service: str
) -> None:
    """Paths with dots, doubled slashes and escapes, queries, headers with blanks, bodies; S3's way and the others'."""
    request = AWSRequest("POST", f"http://{HOST}{path}", {"Host": HOST, "X-Amz-Meta": value}, body, query)
    (S3SigV4Auth if service == "s3" else SigV4Auth)(KEYS, service, "eu-west-1").add_auth(request)
    prepared = request.prepare()
    query_text = prepared.url.partition("?")[2].replace("+", "%20")
    sent = Request("POST", path, query_text, CIMultiDictProxy(CIMultiDict(request.headers.items())))
    verify(sent, body)
    with pytest.raises(SealError, match="does not match"):
        verify(sent, body + b".")


@pytest.mark.parametrize(("signer", "service"), [(SigV4QueryAuth, "sts"), (S3SigV4QueryAuth, "s3")])
@pytest.mark.parametrize("token", [None, "session"])
def test_presigned_addresses_are_verified(
    signer: Callable[..., SigV4QueryAuth], service: str, token: str | None
) -> None:
    """With and without a session; the token must be the key's own."""
    request = AWSRequest("GET", f"http://{HOST}/bucket/a%20b?x=1", {"Host": HOST})
    signer(Credentials("AKID", "secret", token), service, "us-east-1", expires=60).add_auth(request)
    verify(received(request), key=Key("secret", token))
    with pytest.raises(SealError, match="token"):
        verify(received(request), key=Key("secret", "another"))


def test_our_own_signer_is_verified() -> None:
    """The hot path's, by which benchmarks sign."""
    headers = {"host": HOST, "content-type": "application/json", "x-amzn-sagemaker-inference-component": "c"}
    keys = OurCredentials("AKID", "secret")
    added = Signer("us-east-1", "sagemaker").sign("POST", "/endpoints/e/invocations", headers, b"{}", keys)
    merged = CIMultiDictProxy(CIMultiDict({**headers, **added}))
    verify(Request("POST", "/endpoints/e/invocations", "", merged), b"{}")


def test_bearer_tokens_are_verified() -> None:
    """A signed URL in base64; with another secret it is none."""
    for secret, taken in (("secret", True), ("guessed", False)):
        token = bearer_token(OurCredentials("AKID", secret), "us-east-1")
        headers = CIMultiDictProxy(CIMultiDict(Host=HOST, Authorization=f"Bearer {token}"))
        request = Request("POST", "/endpoints/e/openai/v1/chat/completions", "", headers)
        if taken:
            verify(request)
        else:
            with pytest.raises(SealError):
                verify(request)


def test_a_session_ends() -> None:
    """Signed in time, with a session that has ended."""
    request = AWSRequest("GET", f"http://{HOST}/", {"Host": HOST})
    SigV4Auth(Credentials("AKID", "secret", "session"), "sts", "us-east-1").add_auth(request)
    verify(received(request), key=Key("secret", "session", expires_s=4e9))
    with pytest.raises(SealError, match="expired"):
        verify(received(request), key=Key("secret", "session", expires_s=1.0))


# "Example: PUT Object" of "Transferring Payload in Multiple Chunks (Chunked Upload)", Amazon S3 API Reference.
_SCOPE = Scope("AKIAIOSFODNN7EXAMPLE", "20130524", "us-east-1", "s3")
_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
_SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
_CHUNKS = (
    b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n"
    + b"a" * 65536
    + b"\r\n"
    b"400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n" + b"a" * 1024 + b"\r\n"
    b"0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
)


def test_a_body_in_signed_chunks() -> None:
    """AWS's example is taken."""
    chunks.verify(_CHUNKS, _SECRET, _SCOPE, "20130524T000000Z", _SEED, trailer=False)


@pytest.mark.parametrize(
    "body",
    [
        _CHUNKS.replace(b"aaaa\r\n", b"aaab\r\n", 1),
        _CHUNKS.partition(b"400;")[0] + b"0;" + _CHUNKS.partition(b"\r\n0;")[2],
        _CHUNKS.rpartition(b"0;")[0],
        _CHUNKS + b"more",
        _CHUNKS.replace(b"400;", b"3ff;"),
        b"",
    ],
    ids=["changed", "one chunk left out", "cut off", "more behind it", "another length", "nothing"],
)
def test_a_body_in_chunks_that_was_changed(body: bytes) -> None:
    """Each chunk is signed after the one before, and the empty last one closes it."""
    with pytest.raises(SealError):
        chunks.verify(body, _SECRET, _SCOPE, "20130524T000000Z", _SEED, trailer=False)
