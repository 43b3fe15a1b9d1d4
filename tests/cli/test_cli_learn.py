"""`loadproof learn`: a diff of a profile, and how close it comes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from loadproof.cli.main import run
from loadproof.errors import ExitCode
from loadproof.profiles import load_profile
from tests.bench.test_bench_learn import SECRET, capture

PROFILES = Path(__file__).resolve().parents[2] / "deploy_profiles"


def traced(folder: Path) -> Path:
    """Poisson at 2/s; lognormal prompts, answers of two kinds."""
    draw, now = Random(1), 0.0
    lines = ["timestamp_s,input_tokens,output_tokens"]
    for _ in range(1500):
        now += draw.expovariate(2)
        prompt = min(4000, max(1, round(draw.lognormvariate(6, 0.8))))
        lines.append(f"{now:.4f},{prompt},{draw.choice([20, 300])}")
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return folder / "t.csv"


def copied(folder: Path, environment: str) -> Path:
    shutil.copytree(PROFILES, folder / "deploy_profiles")
    return folder / "deploy_profiles" / environment / "llama-3-1-8b.yaml"


def test_the_diff_makes_the_profile_say_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`git apply` makes the change; the profile itself is left as it was; the twin says how close both are."""
    monkeypatch.chdir(tmp_path)
    profile = copied(tmp_path, "base").relative_to(tmp_path)
    before = profile.read_text()
    trace = str(traced(tmp_path))
    assert run(["learn", trace, "--profile", str(profile), "--out", "w.diff", "--format", "json"]) == 0
    assert profile.read_text() == before
    document = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in document["predicted"]} == {"ttft_p95_ms", "e2e_p95_ms"}
    subprocess.run(["git", "apply", "w.diff"], check=True)
    workload = load_profile(profile).workload
    assert workload.arrivals.process == "poisson"
    assert workload.arrivals.requests_per_s == pytest.approx(2, rel=0.1)
    assert set(workload.output_tokens.values) == {20, 300}


def test_a_child_that_cannot_take_a_parents_bounds_back_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sample of counts would need the parent's mean gone: a lognormal is learned, and how far off it is."""
    assert run(["learn", str(traced(tmp_path)), "--profile", str(copied(tmp_path, "prod"))]) == 0
    said = capsys.readouterr().out
    assert "output_tokens: a lognormal, though" in said
    assert "distribution: lognormal" in said


def test_a_workload_that_check_refuses_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prompts beyond the server's limit: which, and where the limit stands."""
    (tmp_path / "t.csv").write_text("timestamp_s,input_tokens,output_tokens\n0,9000,5\n1,9000,5\n3,9000,5\n")
    code = run(["learn", str(tmp_path / "t.csv"), "--profile", str(copied(tmp_path, "prod"))])
    assert code == ExitCode.BAD_INPUT
    assert "9000 tokens exceed max_input_tokens 4096" in " ".join(capsys.readouterr().err.split())


def test_nothing_of_a_prompt_or_an_answer_is_in_any_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Secrets planted in both, and in names and ids: not in words, data, notes or diff."""
    answer = json.dumps({"choices": [{"message": {"content": SECRET}}], "id": SECRET})
    prompt = {"messages": [{"role": "user", "content": f"{SECRET} {SECRET}"}], "user": SECRET}
    (tmp_path / "a.jsonl").write_text("".join(capture(at, prompt, answer) for at in range(0, 50, 3)))
    profile = copied(tmp_path, "base")
    for format in ("text", "json"):
        out = tmp_path / f"{format}.diff"
        arguments = ["learn", str(tmp_path / "a.jsonl"), "--profile", str(profile), "--out", str(out)]
        assert run([*arguments, "--format", format]) == 0
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err + out.read_text()
