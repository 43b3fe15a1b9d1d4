"""Names of what the roles' stacks make. Literal, so that a workflow finds a role without being told its ARN.

They begin with `ci-loadproof`, as nothing of a profile does: rights over `loadproof-*` never reach them.
"""

from __future__ import annotations

from typing import Final, Literal

from loadproof.profiles.names import fitted

Job = Literal["deploy", "benchmark", "read"]
PREFIX: Final = "ci-loadproof"
DEFAULT_QUALIFIER: Final = "hnb659fds"
_BUCKET_NAME_LIMIT: Final = 63


def role_name(environment_name: str, job: Job) -> str:
    """At most 63 of IAM's 64 characters: an environment's name has 40 at most."""
    return f"{PREFIX}-{environment_name}-{job}"


def evidence_bucket_name(environment_name: str, account: str) -> str:
    """Where an environment's evidence stays."""
    return fitted(f"{PREFIX}-{environment_name}-{account}", _BUCKET_NAME_LIMIT)


def bootstrap_role_name(kind: str, qualifier: str, account: str, region: str) -> str:
    """A role that `cdk bootstrap` made: deploy, file-publishing, image-publishing or lookup."""
    return f"cdk-{qualifier}-{kind}-role-{account}-{region}"
