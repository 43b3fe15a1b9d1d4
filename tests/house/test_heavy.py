"""What `make test-fast` leaves out is known by what a file imports, not by a list."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_a_file_that_starts_processes_is_heavy(request: pytest.FixtureRequest) -> None:
    """This one does, and nobody marked it."""
    assert subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0
    assert request.node.get_closest_marker("heavy") is not None
