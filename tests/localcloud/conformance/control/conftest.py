"""The control plane to state facts about: a local cloud, or an AWS account of yours.

    LOADPROOF_CONFORMANCE_AWS=1 python -m pytest tests/localcloud/conformance/control

On AWS it makes and removes a queue and a stack or two; nothing that costs money by the hour. Credentials and region
come from the usual places.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from typing import Any

import boto3
import pytest


@pytest.fixture(scope="session")
def client(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    if os.environ.get("LOADPROOF_CONFORMANCE_AWS") == "1":
        return lambda service: boto3.client(service)
    made: Callable[[str], Any] = request.getfixturevalue("aws")
    return made


@pytest.fixture
def name() -> str:
    """A name that nobody has."""
    return f"loadproof-fact-{uuid.uuid4().hex[:12]}"
