"""A stranger's pull request is data: whatever it holds, `loadproof review --trust base` runs none of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
import pytest
from hostile_heads import CANARY, MEMORY_MIB, Attack, Traps, attacks, bombs, configured
from review_repository import Project

from loadproof.cli.main import run

ATTACKS = list(attacks())
BOMBS = list(bombs())
LIE_HERE = {name for name, _ in configured()}  # need git to look at a working tree
MORE = {"min": 2, "max": 2, "memory_mib_per_copy": 16384}
_FORMATS = ("review.json", "review.md", "review.html", "review.sarif", "review.txt")
_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What became of a review: all that it wrote, its document, and the most memory that its processes had at once."""

    code: int
    said: str
    document: dict[str, Any] | None
    memory_mib: int = 0


@pytest.fixture
def traps(tmp_path: Path) -> Traps:
    secret = tmp_path / "elsewhere" / "secret.yaml"
    secret.parent.mkdir()
    secret.write_text(f"name: {CANARY}\nprompt: {CANARY}\n")
    return Traps(tmp_path / "ran", secret)


@pytest.fixture
def head(tmp_path: Path) -> Project:
    """On a branch that strangers push to, one honest change."""
    project = Project(tmp_path / "repository", dev=("chat", "search"))
    project.git("checkout", "-q", "-b", "head")
    project.profile("dev/search", copies=MORE)
    project.commit("the honest change")
    return project


def in_this_process(project: Project, traps: Traps, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> Reviewed:
    """Most attacks need no process of their own to be measured in."""
    for name, value in _variables(project, traps).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project.root)
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = run([*arguments, *_outputs(project)])
    return _outcome(project, code, said.getvalue())


def measured(project: Project, traps: Traps, arguments: list[str]) -> Reviewed:
    """Memory is the sum over the process and all below it, pages that they share counted once (PSS)."""
    most_bytes = 0
    with (project.root.parent / "said").open("w+", errors="replace") as said:
        process = psutil.Popen(
            [sys.executable, "-P", "-m", "loadproof", *arguments, *_outputs(project)],
            cwd=project.root,
            env={**os.environ, **_variables(project, traps)},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            while process.poll() is None:
                most_bytes = max(most_bytes, _memory_bytes(process))
                time.sleep(_EVERY_S)
        finally:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        said.seek(0)
        found = _outcome(project, process.returncode, said.read())
    return replace(found, memory_mib=most_bytes // 2**20)


def _memory_bytes(process: psutil.Process) -> int:
    total = 0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            try:
                total += one.memory_full_info().pss
            except psutil.AccessDenied:
                total += one.memory_info().rss
    return total


def _outputs(project: Project) -> list[str]:
    out = project.root.parent / "out"
    out.mkdir()
    return [f"--output={out / name}" for name in _FORMATS]


def _outcome(project: Project, code: int, said: str) -> Reviewed:
    out = project.root.parent / "out"
    written = [file.read_text(errors="replace") for file in sorted(out.iterdir())]
    file = out / "review.json"
    return Reviewed(code, "\n".join([said, *written]), json.loads(file.read_text()) if file.exists() else None)


def _variables(project: Project, traps: Traps) -> dict[str, str]:
    return {
        "HOME": str(traps.secret.parent),
        "LOADPROOF_CACHE": str(project.root.parent / "cache"),
        "CDK_RUNS_FILE": str(project.runs_file),
        "DEPLOY_TOKEN": CANARY,
        "PROMPT_CANARY": CANARY,
    }


def attacked(project: Project, traps: Traps, attack: Attack) -> None:
    before = project.git("rev-parse", "HEAD")
    attack(project, traps)
    if project.git("rev-parse", "HEAD") == before:  # else it committed itself, past what `git add` takes
        project.commit("the attack")
    traps.ran.unlink(missing_ok=True)  # what git ran for the attacker himself


def check_harmless(found: Reviewed, traps: Traps) -> None:
    """No trap sprung, no byte of a secret told, no traceback, and the honest change still reviewed, or a clear no."""
    assert not traps.ran.exists()
    assert CANARY not in found.said
    assert "Traceback" not in found.said
    if found.document is None:
        assert found.code == 2
        assert "loadproof: " in found.said
    else:
        assert found.code in (0, 1)
        assert "dev/search" in {f"{one['environment']}/{one['profile']}" for one in found.document["profiles"]}


@pytest.mark.parametrize(("name", "attack"), ATTACKS, ids=[ascii(name) for name, _ in ATTACKS])
def test_nothing_of_a_stranger_runs_or_leaks(
    name: str, attack: Attack, head: Project, traps: Traps, monkeypatch: pytest.MonkeyPatch
) -> None:
    attacked(head, traps, attack)
    sides = ["main"] if name in LIE_HERE else ["main", "head"]
    found = in_this_process(head, traps, ["review", *sides, "--trust=base"], monkeypatch)
    check_harmless(found, traps)
    assert (found.document is None) == (name == "environment's folder is a link")  # which an app would deploy unseen


@pytest.mark.parametrize(
    "name",
    [
        "many huge plans",
        "more links than are followed",
        "huge attributes",
        "huge attributes at the top",
        "huge files of git's own",
    ],
)
def test_what_is_too_much_to_read_leaves_the_review(
    name: str, head: Project, traps: Traps, monkeypatch: pytest.MonkeyPatch
) -> None:
    attacked(head, traps, dict(BOMBS)[name])
    assert in_this_process(head, traps, ["review", "main", "head", "--trust=base"], monkeypatch).document is not None


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux counts it")
@pytest.mark.parametrize(("name", "attack"), BOMBS, ids=[ascii(name) for name, _ in BOMBS])
def test_a_bomb_takes_at_most_a_gibibyte(name: str, attack: Attack, head: Project, traps: Traps) -> None:
    attacked(head, traps, attack)
    found = measured(head, traps, ["review", "main", "head", "--trust=base"])
    check_harmless(found, traps)
    assert found.memory_mib < MEMORY_MIB


def test_there_are_a_hundred_attacks() -> None:
    """None twice."""
    names = [name for name, _ in (*ATTACKS, *BOMBS)]
    assert len(set(names)) == len(names) >= 100
