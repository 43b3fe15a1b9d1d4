"""`loadproof plan` on terminals of every kind."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from loadproof.capacity import make_plan
from loadproof.cli import plan_text
from loadproof.cli.main import run
from loadproof.errors import InputError
from loadproof.profiles import load_profile

PROFILES = Path(__file__).parents[2] / "deploy_profiles"


def printed(profile: str, *, width: int, ascii_only: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    for part in plan_text.render(make_plan(load_profile(PROFILES / profile)), ascii_only=ascii_only):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_no_figure_is_cut_in_80_columns() -> None:
    """Headings fold at their spaces; every row keeps its ten columns, the knee's mark among them."""
    said = printed("local-vllm/tiny-llama.yaml", width=80)
    rows = [line for line in said.splitlines() if re.match(r" +\d+│", line)]
    assert [int(row.split("│")[0]) for row in rows] == [1, 2, 4, 8, 16]
    assert all(len(row.split("│")) == 10 for row in rows)
    assert "…" not in said
    assert "knee" in said


def test_a_terminal_without_box_characters_still_sees_the_memory() -> None:
    """60 characters of four kinds: weights, server, KV cache, unused."""
    said = printed("dev/qwen3-32b.yaml", width=120, ascii_only=True)
    (bar,) = re.findall(r"\[(#+\++-+\.+)\]", said)
    assert len(bar) == plan_text.BAR_CHARACTERS


def test_an_environment_is_no_profile(capsys: pytest.CaptureFixture[str]) -> None:
    """`plan environment.yaml` exits 2 and says what the file is."""
    environment = PROFILES / "dev" / "environment.yaml"
    with pytest.raises(InputError, match="this is an environment, not a profile"):
        load_profile(environment)
    assert run(["plan", str(environment)]) == 2
    assert "this is an environment, not a profile; name a profile beside it" in capsys.readouterr().err
