"""`loadproof plan`."""

from __future__ import annotations

from loadproof.errors import CouldNotRunError


def plan() -> int:
    """(being built)"""
    raise CouldNotRunError("not built yet")
