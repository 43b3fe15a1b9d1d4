"""A local cloud, its account put back to where all is well before each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from account_states import Aws, World

from loadproof.localcloud.local import LocalCloud, running


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADPROOF_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        with running("preflight", transition_s=0.01) as local:
            yield local


@pytest.fixture(scope="session")
def aws(cloud: LocalCloud) -> Aws:
    """Clients of the cloud, made once for all tests."""
    return Aws(cloud)


@pytest.fixture
def world(aws: Aws, tmp_path: Path) -> World:
    """An account where all is well for the environment in its folder."""
    return World.made(aws, tmp_path)
