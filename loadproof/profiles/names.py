"""Names of deployed resources: what stacks give and what whoever looks for them asks for (docs/decisions/0001)."""

from __future__ import annotations

import hashlib
import re
from typing import Final

SAGEMAKER_NAME_LIMIT: Final = 63
BENCHMARK: Final = "benchmark"  # in a profile's place: the stack that runs an environment's benchmarks
NETWORK: Final = "network"  # likewise: the stack of an environment's VPC endpoints
ENVIRONMENT_TAG: Final = "loadproof:environment"  # whose a resource is: rights ask for it
PROFILE_TAG: Final = "loadproof:profile"
VARIANT_NAME: Final = "AllTraffic"  # the one production variant of every endpoint

_ENVIRONMENT_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME: Final = 40  # rights hold for the prefix `loadproof-<environment>-`, which no shortened name may lose
ENVIRONMENT_NAME_FORM: Final = f"a-z, 0-9 and single hyphens only, {_LONGEST_NAME} of them at most"


def is_environment_name(name: str) -> bool:
    """Resources are named after an environment's folder."""
    return _ENVIRONMENT_NAME.fullmatch(name) is not None and len(name) <= _LONGEST_NAME


def stack_name(environment_name: str, profile_name: str) -> str:
    """`loadproof-<environment>-<profile>`."""
    return f"loadproof-{environment_name}-{profile_name}"


def endpoint_name(environment_name: str, profile_name: str) -> str:
    """The SageMaker endpoint of a profile."""
    return fitted(stack_name(environment_name, profile_name))


def inference_component_name(endpoint: str, component: str, adapter: str | None = None) -> str:
    """The inference component of a model (`main` for the profile's own), or of an adapter on top of it."""
    return fitted("-".join(part for part in (endpoint, component, adapter) if part))


def queue_name(endpoint: str) -> str:
    """The buffer's queue."""
    return f"{endpoint}-requests"


def dead_letter_queue_name(endpoint: str) -> str:
    """Where the buffer's messages go that failed too often."""
    return f"{endpoint}-dead-letters"


def jobs_prefix(environment_name: str) -> str:
    """How an environment's processing jobs are called first, and no other environment's: 19 of 63 characters."""
    return f"loadproof-{hashlib.sha256(environment_name.encode()).hexdigest()[:8]}-"


def alarm_name(endpoint: str, kind: str) -> str:
    """An alarm of an endpoint's stack; `kind` begins with its section in docs/runbook.md."""
    return f"{endpoint}-{kind}"


def fitted(name: str, limit: int = SAGEMAKER_NAME_LIMIT) -> str:
    """`name`, or its beginning closed with a hash of the whole when it is longer than `limit` characters."""
    if len(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: limit - 9].rstrip('-')}-{digest}"
