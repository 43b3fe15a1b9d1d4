"""The door of a benchmark job's container, by which state machines that are deployed start it."""

from __future__ import annotations

from typing import Final

PROGRAM: Final = ("python", "-m", "benchmarks.remote.host")
