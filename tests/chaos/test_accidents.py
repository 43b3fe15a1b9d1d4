"""A sample of `make accidents`: killed runs are gone on with, and what is scarce is said in a line."""

from __future__ import annotations

from pathlib import Path

import accidents


def test_a_killed_benchmark_is_gone_on_with(tmp_path: Path) -> None:
    """Every request of it once, verified, and no planted secret in a file."""
    came = accidents.kills(2, 3, tmp_path)
    assert all(words.endswith(": whole, verified") for words in came), came


def test_a_killed_run_answers_each_item_once(tmp_path: Path) -> None:
    """What was in flight may be asked again, nothing else."""
    came = accidents.run_kills(2, 5, tmp_path)
    assert all(words.endswith(": each answered once") for words in came), came


def test_what_is_scarce_is_said_without_a_traceback(tmp_path: Path) -> None:
    """File descriptors, room on the disk, memory."""
    for name, done, found in accidents.little(tmp_path):
        assert not found, name
        assert done.code in (0, 3), (name, done.said)
        if done.code:
            assert done.said.strip().splitlines()[-1].startswith("loadproof: ")
