"""Clients that may be late, for tests that share their machine and ask for something else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from loadproof.bench.judge import verdict

sys.path.append(str(Path(__file__).parents[1] / "invocation"))  # virtual_twin


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run of this test is INVALID because its own client offered less load than asked."""
    monkeypatch.setattr(verdict, "OFFERED_AT_LEAST", 0.0)
