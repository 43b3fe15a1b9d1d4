"""The door of a benchmark job's container, by which state machines that are deployed start it."""

from __future__ import annotations

from typing import Final

PROGRAM: Final = ("python", "-m", "benchmarks.remote.host")
SIGNING_KEY: Final = "LOADPROOF_SIGNING_KEY"
"""Variable of the job: what it signs its run with, as `loadproof bench --sign` takes it."""
