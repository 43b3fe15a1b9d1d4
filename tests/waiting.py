"""Waiting for what other threads, processes and clouds do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(check: Callable[[], Any], within_s: float = 120.0) -> Any:
    """What `check` gives as soon as that is true; a test that waits longer than `within_s` for it fails."""
    end_s = time.monotonic() + within_s
    while not (found := check()):
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.02)
    return found
