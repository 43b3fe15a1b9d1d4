"""`loadproof demo`."""

from __future__ import annotations

from loadproof.errors import CouldNotRunError


def demo() -> int:
    """(being built)"""
    raise CouldNotRunError("not built yet")
