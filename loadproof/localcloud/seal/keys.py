"""The keys that a local cloud knows: its own, and those that its IAM and STS have handed out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import Protocol

from moto.iam.models import iam_backends
from moto.sts.models import sts_backends

from loadproof.localcloud.owners import owner_of


@dataclass(frozen=True, slots=True)
class Key:
    """An access key's secret; a session's has a token too, and an end in seconds since 1970."""

    secret: str
    token: str | None = None
    expires_s: float | None = None

    def __repr__(self) -> str:
        return "Key(...)"


class Keys(Protocol):
    def find(self, access_key: str) -> Key | None: ...


class CloudKeys:
    """Of one local cloud. IAM's and STS's are moto's, read where moto keeps them."""

    def __init__(self, access_key: str, secret_key: str) -> None:
        self.access_key = access_key
        self._own = Key(secret_key)

    def signing(self, access_key: str) -> dict[str, str]:
        """What a boto3 client is made with, so that a service asks another in its caller's name (and account)."""
        # In the home account the cloud's own keys do, and outlive every session.
        foreign = bool(access_key) and owner_of(access_key) != owner_of(self.access_key)
        known = self.find(access_key) if foreign else None
        if known is None:
            return {"aws_access_key_id": self.access_key, "aws_secret_access_key": self._own.secret}
        keys = {"aws_access_key_id": access_key, "aws_secret_access_key": known.secret}
        return keys | ({"aws_session_token": known.token} if known.token else {})

    def find(self, access_key: str) -> Key | None:
        """None for a key that this cloud did not hand out, or that is switched off."""
        if access_key == self.access_key:
            return self._own
        account = owner_of(access_key)
        for partition, backend in list(iam_backends[account].items()):
            known = backend.access_keys.get(access_key)
            if known is None or known.status != "Active":
                continue
            role = sts_backends[account][partition].get_assumed_role_from_access_key(access_key)
            if role is not None:
                ends_s = role.expiration.replace(tzinfo=UTC).timestamp()
                return Key(known.secret_access_key, role.session_token, ends_s)
            user = backend.get_user_from_access_key_id(access_key)  # forgotten with the key, unlike the key
            return None if user is None else Key(known.secret_access_key)
        return None
