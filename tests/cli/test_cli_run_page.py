"""docs/run.md: its commands and its program run as they stand against a local cloud."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import run_process
from run_cloud import cloud_with

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "run.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADPROOF_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        with cloud_with(ROOT / "deploy_profiles/dev/llama-3-1-8b.yaml", name="run-page") as cloud:
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            yield {**os.environ, **cloud.environment(), "PATH": path, "PYTHONPATH": str(ROOT)}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_the_pages_commands_give_what_it_says(environment: dict[str, str], tmp_path: Path) -> None:
    """Three answers by key, a resumed run that has nothing to do, and two sessions in order."""
    (tmp_path / "deploy_profiles").symlink_to(ROOT / "deploy_profiles")
    first, again, sessions = blocks("bash")

    def shell(script: str) -> str:
        done = run_process(["bash", "-e", "-c", script], cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "3 answered · 0 failed" in shell(first)
    answers = {row["key"]: row for row in rows(tmp_path / "results.jsonl")}
    assert {key: row["usage"]["output_tokens"] for key, row in answers.items()} == {"rivers": 64, "2": 40, "3": 64}
    assert all(len(row["text"].split()) == row["usage"]["output_tokens"] for row in answers.values())

    assert "0 answered · 0 failed · 3 stored before" in shell(again)
    assert {row["key"]: row for row in rows(tmp_path / "results.jsonl")} == answers

    shell(sessions)
    turns = rows(tmp_path / "turns-results.jsonl")
    assert [row["session"] for row in turns] == ["ann", "bob", "ann", "bob"]
    # The twin counts words: a second turn holds the first prompt, its 32-token answer and the new prompt.
    assert [row["usage"]["input_tokens"] for row in turns] == [4, 4, 4 + 32 + 4, 4 + 32 + 4]


def test_the_pages_program_runs(environment: dict[str, str], tmp_path: Path) -> None:
    """Twenty answers, each in one attempt."""
    [program] = blocks("python")
    done = run_process([sys.executable, "-c", program], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sorted(int(line.split()[0]) for line in lines) == list(range(20))
    assert all(line.split()[1:3] == ["ok", "1"] for line in lines)


def test_the_pages_line_of_results_has_the_fields_that_are_written() -> None:
    """Field by field, at both levels."""
    [sample] = blocks("jsonc")
    names = set(re.findall(r'"(\w+)":', sample))
    assert names == {
        "key", "text", "finish_reason", "usage", "input_tokens", "output_tokens", "counted_by", "timings", "ttft_ms",
        "tpot_ms", "e2e_ms", "attempts", "error", "kind", "code", "http_status", "message", "gave_up", "target",
        "reasoning", "request_sha256",
    }  # fmt: skip


def test_options_on_the_page_exist() -> None:
    """No option of another name."""
    done = subprocess.run(
        [sys.executable, "-m", "loadproof", "run", "--help"],
        capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    mentioned = set(re.findall(r"--[a-z][a-z-]+", TEXT))
    assert mentioned and mentioned <= set(re.findall(r"--[a-z][a-z-]+", done.stdout))
