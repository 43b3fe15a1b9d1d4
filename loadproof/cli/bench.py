"""`loadproof bench`."""

from __future__ import annotations

from loadproof.errors import CouldNotRunError


def bench() -> int:
    """(being built)"""
    raise CouldNotRunError("not built yet")
