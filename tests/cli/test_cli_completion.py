"""What the shell offers: profiles and environments by name, as the verbs take them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from processes import run_process


@pytest.fixture
def team(tmp_path: Path) -> Path:
    for environment, name in (("dev", "chat"), ("prod", "chat"), ("prod", "mail")):
        folder = tmp_path / "deploy_profiles" / environment
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "environment.yaml").touch()
        (folder / f"{name}.yaml").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("plan prod/", {"prod/chat", "prod/mail"}),
        ("plan ma", {"mail"}),
        ("bench dev/chat --env p", {"prod"}),
        ("check d", {"dev", "dev/chat"}),
        ("preflight prod", {"prod", "prod/chat", "prod/mail"}),
        ("evidence check prod/m", {"prod/mail"}),
        ("demo --environment d", {"dev"}),
    ],
)
def test_a_name_is_completed(typed: str, offered: set[str], team: Path) -> None:
    words = f"loadproof {typed}"
    variables = {"_LOADPROOF_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    command = [sys.executable, "-c", "from loadproof.cli.main import app; app(prog_name='loadproof')"]
    done = run_process(command, cwd=team, env={**os.environ, **variables})
    assert set(done.stdout.split()) == offered, done.stderr
