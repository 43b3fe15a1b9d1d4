"""Whose account an access key is of, by what moto's IAM has handed out."""

from __future__ import annotations

from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.iam import models


def owner_of(access_key: str) -> str:
    """The home account for a key that IAM knows nothing of.

    Only where somebody has been: moto's own makes an IAM of every partition first, each with all of AWS's policies.
    """
    for account, partitions in list(models.iam_backends.items()):
        if any(access_key in backend.access_keys for backend in list(partitions.values())):
            return account
    return DEFAULT_ACCOUNT_ID


def install() -> None:
    """Let moto ask in the same way."""
    moto: Any = models
    moto.get_account_id_from = owner_of
