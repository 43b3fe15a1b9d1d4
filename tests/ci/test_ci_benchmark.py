"""What benchmarks of an environment cost and say: only what is not proven is sent; the worst decides."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from processes import run_process

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "scripts" / "ci" / "benchmark_environment.py"
# Answers as `loadproof` does, by the exit codes in answers.json: "evidence check chat", "bench chat", …
STAND_IN = """\
#!{python}
import json, pathlib, sys
verb = " ".join(sys.argv[1:3]) if sys.argv[1] == "evidence" else sys.argv[1]
named = sys.argv[2 if verb == "bench" else 3]
name = pathlib.Path(named).stem.rpartition("-")[2]
with open("asked", "a") as asked: asked.write(verb + " " + name + "\\n")
answer = json.load(open("answers.json")).get(verb + " " + name, 0)
if verb == "bench" and isinstance(answer, list):
    folder = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({{"verdict": {{"outcome": answer[1]}}}}))
    (folder / "plan.json").write_text(json.dumps({{"run_id": "r1"}}))
    answer = answer[0]
sys.exit(answer)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Environment prod with the profiles chat and search, one of them .yml, and a calibration beside them."""
    folder = tmp_path / "deploy_profiles" / "prod"
    folder.mkdir(parents=True)
    for name in ("environment.yaml", "chat.yaml", "search.yml", "chat.calibration.yaml"):
        (folder / name).write_text("", encoding="utf-8")
    program = tmp_path / ".venv" / "bin" / "loadproof"
    program.parent.mkdir(parents=True)
    program.write_text(STAND_IN.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    python = program.with_name("python")
    python.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return tmp_path


def run(checkout: Path, answers: dict[str, object], place: str = "s3://kept/evidence") -> tuple[int, list[str], str]:
    """(exit code, what was asked of loadproof, the summary)."""
    (checkout / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    done = run_process(
        [sys.executable, str(PROGRAM), "prod", place],
        cwd=checkout,
        env={"GITHUB_STEP_SUMMARY": str(checkout / "summary.md")},
    )
    asked = (checkout / "asked").read_text(encoding="utf-8").splitlines()
    return done.returncode, asked, (checkout / "summary.md").read_text(encoding="utf-8")


def test_what_is_proven_is_not_sent_again(checkout: Path) -> None:
    """Current evidence costs one question a profile."""
    code, asked, summary = run(checkout, {})
    assert (code, asked) == (0, ["evidence check chat", "evidence check search"])
    assert "| chat | current, nothing sent |" in summary


def test_what_is_not_proven_is_measured_and_kept(checkout: Path) -> None:
    """A merge that changes one profile benchmarks one."""
    code, asked, summary = run(checkout, {"evidence check chat": 1, "bench chat": [0, "PASS"]})
    assert code == 0
    assert asked == ["evidence check chat", "bench chat", "evidence add chat", "evidence check search"]
    link = "https://console.aws.amazon.com/s3/buckets/kept?prefix=evidence/prod/chat/r1/"
    assert f"| chat | **PASS** | [`s3://kept/evidence/prod/chat/r1`]({link}) |" in summary


def test_a_missed_objective_is_kept_and_fails_the_job(checkout: Path) -> None:
    """The next profile is measured all the same."""
    answers = {"evidence check chat": 1, "bench chat": [1, "FAIL"], "evidence check search": 1}
    code, asked, summary = run(checkout, {**answers, "bench search": [0, "PASS"]})
    assert code == 1
    assert asked[-1] == "evidence add search"
    assert "| chat | **FAIL** |" in summary


def test_the_worst_decides(checkout: Path) -> None:
    """An endpoint that could not be reached outweighs an objective that was missed, whichever came first."""
    answers = {"evidence check chat": 1, "bench chat": 3, "evidence check search": 1, "bench search": [1, "FAIL"]}
    code, _, summary = run(checkout, answers)
    assert code == 3
    assert "| chat | could not run (exit code 3) | none |" in summary


def test_evidence_that_cannot_be_read_sends_nothing(checkout: Path) -> None:
    """A place out of reach is no missing evidence: hours of load would go nowhere."""
    code, asked, _ = run(checkout, {"evidence check chat": 3, "evidence check search": 3})
    assert (code, asked) == (3, ["evidence check chat", "evidence check search"])


def test_a_run_that_was_not_kept_fails_the_job(checkout: Path) -> None:
    """PASS without evidence proves nothing tomorrow."""
    code, _, summary = run(checkout, {"evidence check chat": 1, "bench chat": [0, "PASS"], "evidence add chat": 2})
    assert code == 2
    assert "| chat | **PASS** | **not kept** |" in summary


def test_an_environment_that_is_none_is_bad_input(checkout: Path) -> None:
    """Nothing is asked of loadproof."""
    (checkout / "deploy_profiles" / "prod").rename(checkout / "deploy_profiles" / "elsewhere")
    command = [sys.executable, str(PROGRAM), "prod", "s3://kept/evidence"]
    done = run_process(command, cwd=checkout)
    assert done.returncode == 2
    assert "no environment `prod` in deploy_profiles; known: elsewhere" in done.stderr
    assert not (checkout / "asked").exists()
