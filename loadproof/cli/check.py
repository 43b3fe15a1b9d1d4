"""`loadproof check`."""

from __future__ import annotations

from loadproof.errors import CouldNotRunError


def check() -> int:
    """(being built)"""
    raise CouldNotRunError("not built yet")
