"""Credentials are renewed away from the requests."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import botocore.session
import pytest

from loadproof.errors import CouldNotRunError
from loadproof.invocation.credentials import CredentialSource, from_environment, is_loopback
from loadproof.invocation.sigv4 import Credentials


def test_renewal_does_not_hold_up_requests() -> None:
    """After a minute the old keys are still handed out while the new ones are fetched, once for all callers."""
    now = [0.0]
    release = threading.Event()
    fetched: list[int] = []

    def fetch() -> Credentials:
        fetched.append(len(fetched))
        if len(fetched) > 1:
            release.wait(5)
        return Credentials(f"key-{len(fetched)}", "secret")

    async def main() -> list[str]:
        source = CredentialSource(fetch, lambda: now[0])
        first = await asyncio.gather(*(source.current() for _ in range(3)))
        now[0] = 61.0
        while_renewing = [await source.current() for _ in range(3)]
        release.set()
        while (await source.current()).access_key == "key-1":
            await asyncio.sleep(0.005)
        return [keys.access_key for keys in (*first, *while_renewing, await source.current())]

    assert asyncio.run(main()) == ["key-1"] * 6 + ["key-2"]
    assert len(fetched) == 2


def test_keys_that_cannot_be_fetched_are_told_and_old_ones_kept() -> None:
    """The first failure is the caller's; a later one leaves the keys there are."""
    now = [0.0]
    answers: list[Credentials | CouldNotRunError] = [
        CouldNotRunError("expired session"),
        Credentials("key", "secret"),
        CouldNotRunError("expired session"),
    ]

    def fetch() -> Credentials:
        answer = answers.pop(0)
        if isinstance(answer, CouldNotRunError):
            raise answer
        return answer

    async def main() -> str:
        source = CredentialSource(fetch, lambda: now[0])
        with pytest.raises(CouldNotRunError, match="expired session"):
            await source.current()
        await source.current()
        now[0] = 61.0
        await source.current()
        await asyncio.sleep(0.05)
        return (await source.current()).access_key

    assert asyncio.run(main()) == "key"
    assert answers == []


@pytest.mark.parametrize(
    "token", [{}, {"AWS_SESSION_TOKEN": "a"}, {"AWS_SECURITY_TOKEN": "b", "AWS_SESSION_TOKEN": "a"}]
)
@pytest.mark.parametrize("profile", [{}, {"AWS_PROFILE": "other"}])
def test_keys_in_the_environment_are_taken_as_botocore_takes_them(
    token: dict[str, str], profile: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before a profile's keys, and of two tokens the same one."""
    config = tmp_path / "credentials"
    config.write_text("[other]\naws_access_key_id = O\naws_secret_access_key = P\n")
    for name in ("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_PROFILE", "AWS_CREDENTIAL_EXPIRATION"):
        monkeypatch.delenv(name, raising=False)
    keys = {"AWS_ACCESS_KEY_ID": "K", "AWS_SECRET_ACCESS_KEY": "S", "AWS_SHARED_CREDENTIALS_FILE": str(config)}
    for name, value in (keys | token | profile).items():
        monkeypatch.setenv(name, value)
    theirs = botocore.session.Session().get_credentials().get_frozen_credentials()
    ours = asyncio.run(from_environment(None).current())
    assert ours == Credentials(theirs.access_key, theirs.secret_key, theirs.token)
    assert ours.access_key == "K"


def test_half_a_pair_of_keys_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key without its secret is bad configuration, not a reason to look elsewhere."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "K")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    with pytest.raises(CouldNotRunError, match="cannot be read"):
        from_environment("http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:4566", True),
        ("http://[::1]:80", True),
        ("http://localhost", True),
        ("http://a.localhost:1", True),
        ("http://10.0.0.1", False),
        ("https://localhost.example.com", False),
    ],
)
def test_what_is_loopback(url: str, loopback: bool) -> None:
    """Only this machine's own addresses."""
    assert is_loopback(url) is loopback


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A local cloud's address, by its state file; the shell has keys of its own."""
    monkeypatch.setenv("LOADPROOF_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "MINE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "my secret")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "broken.json").write_text("{")
    state = {"port": 4566, "access_key": "AKIALOCAL", "secret_key": "local"}
    (tmp_path / "local" / "one.json").write_text(json.dumps(state))
    return "http://localhost:4566"


def test_a_local_cloud_is_asked_with_its_own_keys(noted: str) -> None:
    """The user's never go there; any other address gets them as ever."""
    assert asyncio.run(from_environment(noted).current()) == Credentials("AKIALOCAL", "local")
    assert asyncio.run(from_environment("http://localhost:4567").current()).access_key == "MINE"
    assert asyncio.run(from_environment("http://example.com:4566").current()).access_key == "MINE"


def test_a_shell_that_means_the_local_cloud_keeps_its_keys(noted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be those of a role assumed there."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", noted)
    assert asyncio.run(from_environment(noted).current()).access_key == "MINE"
