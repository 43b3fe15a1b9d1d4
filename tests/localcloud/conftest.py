"""A local cloud for tests that need a real process on a real port: one for each test worker, made on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cloud_clients import boto3_client

from loadproof.localcloud.local import LocalCloud, start, stop


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADPROOF_STATE_DIR", str(folder))
        running = start("tests", transition_s=0.05, stop_with_parent=True)
        yield running
        stop("tests")


@pytest.fixture(scope="session")
def aws(cloud: LocalCloud) -> Callable[[str], Any]:
    """`aws("sagemaker")` gives a boto3 client of the test worker's cloud."""
    made: dict[str, Any] = {}

    def client(service: str) -> Any:
        if service not in made:
            made[service] = boto3_client(cloud, service)
        return made[service]

    return client
