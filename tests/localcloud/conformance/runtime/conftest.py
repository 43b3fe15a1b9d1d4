"""One endpoint to state facts about: the local runtime, or a deployed one of yours.

    LOADPROOF_CONFORMANCE_AWS=1 LOADPROOF_CONFORMANCE_ENDPOINT=... LOADPROOF_CONFORMANCE_COMPONENT=... \
        python -m pytest tests/localcloud/conformance/runtime

The deployed component must run TGI; credentials and region come from the usual places. It costs a handful of requests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

sys.path.append(str(Path(__file__).parents[2] / "runtime"))

from runtime_harness import Deployed, container, local_runtime


@pytest.fixture(scope="module")
def deployed() -> Iterator[Deployed]:
    if os.environ.get("LOADPROOF_CONFORMANCE_AWS") == "1":
        names = (os.environ.get(f"LOADPROOF_CONFORMANCE_{what}", "") for what in ("ENDPOINT", "COMPONENT"))
        endpoint, component = names
        if not endpoint or not component:
            pytest.skip("set LOADPROOF_CONFORMANCE_ENDPOINT and LOADPROOF_CONFORMANCE_COMPONENT")
        yield Deployed(boto3.client("sagemaker-runtime"), endpoint, component)
        return
    with local_runtime() as running:
        running.directory.add_component("facts", "facts-main", container("tgi", {"MAX_INPUT_TOKENS": "64"}))
        yield Deployed(running.client(), "facts", "facts-main")
