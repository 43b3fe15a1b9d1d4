"""AWS credentials for the signed hot path: found by botocore, refreshed away from the event loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from loadproof.errors import CouldNotRunError
from loadproof.invocation.aws_sdk import sdk
from loadproof.invocation.local_cloud import local_keys
from loadproof.invocation.sigv4 import Credentials

# botocore renews credentials that expire within 15 minutes; asking it once a minute is often enough.
_KEEP_S = 60.0
PLACEHOLDER = Credentials("loadproof", "loadproof")  # for servers on loopback that look at no signature


class CredentialSource:
    """Credentials as of now. `fetch` may block (files, instance metadata), so it runs in a thread."""

    def __init__(self, fetch: Callable[[], Credentials], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock_s = clock_s
        self._current: Credentials | None = None
        self._fetched_s = 0.0
        self._renewal: asyncio.Task[None] | None = None

    async def current(self) -> Credentials:
        """The credentials to sign with. Waits the first time only; later renewals happen behind the requests."""
        if self._current is None or self._clock_s() - self._fetched_s > _KEEP_S:
            if self._renewal is None or self._renewal.done():
                self._renewal = asyncio.create_task(self._renew())
            if self._current is None:
                await asyncio.shield(self._renewal)
        assert self._current is not None
        return self._current

    async def _renew(self) -> None:
        try:
            self._current = await asyncio.to_thread(self._fetch)
        except Exception:
            if self._current is None:
                raise
            # The old ones may still be valid; if not, AWS's own answer will say so in the records.
        self._fetched_s = self._clock_s()


def fixed(credentials: Credentials) -> CredentialSource:
    return CredentialSource(lambda: credentials)


def from_environment(endpoint_url: str | None, profile_name: str | None = None) -> CredentialSource:
    """What botocore finds (variables, files, roles); a local cloud's own keys for that.

    Placeholders for any other loopback `endpoint_url` if botocore finds nothing.
    Raises CouldNotRunError where there are no credentials and the target is real.
    """
    if endpoint_url is not None and (local := local_keys(endpoint_url)) is not None:
        return fixed(local)
    if profile_name is None and (plain := _from_variables()) is not None:
        return fixed(plain)
    exceptions, session = sdk("botocore.exceptions"), sdk("botocore.session")
    try:
        found: Any = session.Session(profile=profile_name).get_credentials()
    except exceptions.BotoCoreError as error:
        raise CouldNotRunError(f"AWS credentials cannot be read: {error}") from error
    if found is None:
        if endpoint_url is not None and is_loopback(endpoint_url):
            return fixed(PLACEHOLDER)
        raise CouldNotRunError(
            "no AWS credentials found; set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "or point --endpoint-url at a local cloud"
        )

    def fetch() -> Credentials:
        try:
            frozen = found.get_frozen_credentials()
        except exceptions.BotoCoreError as error:
            raise CouldNotRunError(f"AWS credentials cannot be renewed: {error}") from error
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    return CredentialSource(fetch)


def _from_variables() -> Credentials | None:
    """Keys that stand in the environment and do not expire, which botocore looks for first: no need to load it."""
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret or os.environ.get("AWS_CREDENTIAL_EXPIRATION"):
        return None
    return Credentials(key, secret, os.environ.get("AWS_SECURITY_TOKEN") or os.environ.get("AWS_SESSION_TOKEN"))


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def boto3_keys(endpoint_url: str | None, session: Any) -> dict[str, str]:
    """What a boto3 client there is made with: nothing, where the session's own credentials are to be used."""
    if endpoint_url is None or not is_loopback(endpoint_url):
        return {}
    keys = local_keys(endpoint_url) or (PLACEHOLDER if session.get_credentials() is None else None)
    return {} if keys is None else {"aws_access_key_id": keys.access_key, "aws_secret_access_key": keys.secret_key}
