"""`loadproof schema`."""

from __future__ import annotations

from loadproof.errors import CouldNotRunError


def schema() -> int:
    """(being built)"""
    raise CouldNotRunError("not built yet")
