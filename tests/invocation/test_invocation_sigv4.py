"""Signatures against botocore's signer."""

from __future__ import annotations

import datetime

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from hypothesis import given
from hypothesis import strategies as st

from loadproof.invocation.sigv4 import Credentials, Signer

NOON = datetime.datetime(2026, 11, 21, 12, 0, 0, tzinfo=datetime.UTC)

TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40)


def _botocore_headers(path: str, headers: dict[str, str], body: bytes, credentials: Credentials) -> dict[str, str]:
    keys = BotocoreCredentials(credentials.access_key, credentials.secret_key, credentials.token)
    request = AWSRequest("POST", f"https://{headers['host']}{path}", headers=dict(headers), data=body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, "get_current_datetime", lambda: NOON.replace(tzinfo=None))
        botocore.auth.SigV4Auth(keys, "sagemaker", "eu-west-1").add_auth(request)
    added = ("x-amz-date", "x-amz-security-token", "authorization")
    return {name: request.headers[name] for name in added if name in request.headers}


@given(
    st.from_regex(r"(/[A-Za-z0-9_.~%!*' -]{1,12}){1,3}", fullmatch=True).filter(lambda path: "/." not in path),
    st.dictionaries(st.from_regex(r"x-amzn-[a-z]{1,8}", fullmatch=True).filter(lambda n: n != "x-amzn-trace-id"), TEXT),
    st.binary(max_size=200),
    st.none() | st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=60),
)
def test_equal_to_botocore(path: str, more: dict[str, str], body: bytes, token: str | None) -> None:
    """Any path, headers (with runs of spaces), body and session token: date, token and signature are botocore's."""
    headers = {"host": "runtime.sagemaker.eu-west-1.amazonaws.com", "content-type": "application/json", **more}
    credentials = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token)
    ours = Signer("eu-west-1", "sagemaker", NOON.timestamp).sign("POST", path, headers, body, credentials)
    assert ours == _botocore_headers(path, headers, body, credentials)


def test_a_new_day_and_new_keys_get_a_new_signing_key() -> None:
    """The cached key belongs to one day and one secret."""
    now = [NOON.timestamp()]
    signer = Signer("us-east-1", "sagemaker", lambda: now[0])
    old, new = Credentials("A", "one"), Credentials("A", "two")

    def signature(credentials: Credentials) -> str:
        return signer.sign("POST", "/", {"host": "h"}, b"", credentials)["authorization"].rpartition("=")[2]

    first = signature(old)
    assert signature(new) != first
    assert signature(old) == first
    now[0] += 86400
    assert signature(old) != first


def test_keys_are_not_shown() -> None:
    """A logged credential shows nothing of itself."""
    assert "secret" not in repr(Credentials("id", "secret", "secret token"))
