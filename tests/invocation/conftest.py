"""Both ways of reading a connection: our own stamped sockets, and asyncio's transports as on other systems."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["stamped", "portable"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The test runs once on each."""
    if request.param == "portable":
        monkeypatch.setattr("invocation.connections.stamps_reads", lambda: False)
    return request.param
