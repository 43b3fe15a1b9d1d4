"""What a process under load asks of its system, it gives back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadproof.bench.load import process


@pytest.mark.parametrize(("before", "after"), [("0", "0"), ("5", "5"), ("-10", "0")])
def test_priority_is_asked_for_and_given_back(
    before: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process and session run at -10 meanwhile; a session that a killed run left there comes back to 0."""
    session, asked = tmp_path / "autogroup", []
    session.write_text(f"/autogroup-7 nice {before}\n")
    monkeypatch.setattr(process, "_SESSION", session)
    monkeypatch.setattr(os, "getpriority", lambda *_: 0)
    monkeypatch.setattr(os, "setpriority", lambda which, who, value: asked.append(value))
    with process.raised_priority():
        assert session.read_text() == "-10"
    assert (asked, session.read_text()) == ([-10, 0], after)


def test_without_the_right_to_it_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The load runs all the same; its lag will tell."""
    session = tmp_path / "autogroup"
    session.write_text("/autogroup-7 nice 0\n")
    monkeypatch.setattr(process, "_SESSION", session)

    def refuse(*_: int) -> None:
        raise PermissionError(13, "not privileged")

    monkeypatch.setattr(os, "setpriority", refuse)
    with process.raised_priority():
        assert session.read_text() == "/autogroup-7 nice 0\n"


def test_sending_requests_loads_nothing_that_only_judging_needs() -> None:
    """A run's process and its workers come up without numpy, pydantic, boto3, botocore or YAML."""
    heavy = ("numpy", "pydantic", "boto3", "botocore", "yaml")
    for module in (
        "loadproof.bench.job",
        "loadproof.bench.output.console",
        "loadproof.bench.load.worker",
        "loadproof.cli.bench.spec",
    ):
        program = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert (module, done.stdout.strip()) == (module, "[]")


def test_the_command_loads_nothing_that_only_profiles_and_signatures_need() -> None:
    """`loadproof bench --target` sends without boto3, YAML, and the models of profiles and reviews."""
    heavy = ("boto3", "botocore", "yaml", "loadproof.profiles", "loadproof.capacity", "loadproof.review")
    program = f"import sys, loadproof.cli.bench.command; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
