"""Judging a run holds each token's time once, and no Python object for it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import report_memory


def test_a_judged_token_takes_bytes_not_objects() -> None:
    """5,000 requests of 64 tokens take less than 42 MB beyond the program itself; as Python integers they took 66."""
    found = report_memory.measure(5000, 64, 256)
    assert (found["requests"], found["report"]) == (5000, "written")
    assert float(found["peak_mb"]) - float(found["peak_mb_before"]) < 42
