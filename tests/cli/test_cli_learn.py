"""`loadproof learn`: a diff of a profile, and how close it comes."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from bench_recorded import SECRET, capture

from loadproof.cli.main import run
from loadproof.errors import ExitCode
from loadproof.profiles import load_profile, profile_hash
from loadproof.profiles.mixture import mixture_of

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
    assert "9,000 tokens exceed max_input_tokens 4,096" in " ".join(capsys.readouterr().err.split())


def logged_conversations(folder: Path, most_prompt_tokens: int, most_tokens: int) -> Path:
    """LiteLLM's log of conversations that all go on, 30 s apart, until the server would not take the next turn."""
    draw, rows = Random(3), list[tuple[float, str]]()
    for number in range(400):
        now, history = number * 40.0, 0
        while True:
            new, answer = (max(1, min(3000, round(draw.lognormvariate(mu, 0.7)))) for mu in (6, 5))
            if history + new > most_prompt_tokens or history + new + answer > most_tokens:
                break
            row = {"request_id": "r", "session_id": f"s{number}", "prompt_tokens": history + new}
            times = {name: f"{datetime.fromtimestamp(now + s, UTC):%Y-%m-%dT%H:%M:%S}Z" for name, s in TIMES.items()}
            rows.append((now, json.dumps(row | {"completion_tokens": answer} | times)))
            now, history = now + 32, history + new + answer
    file = folder / "log.jsonl"
    file.write_text("".join(f"{line}\n" for _, line in sorted(rows)))
    return file


TIMES = {"startTime": 0, "endTime": 2}


def test_conversations_end_where_recorded_ones_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No recorded request was longer than the server takes, though the longest turn times their number is: the change
    says so, `check` takes it, and a conversation has as many turns in the mean as were recorded."""
    monkeypatch.chdir(tmp_path)
    profile, log = copied(tmp_path, "base").relative_to(tmp_path), logged_conversations(tmp_path, 4096, 5120)
    assert run(["learn", str(log), "--profile", str(profile), "--out", "w.diff"]) == 0
    capsys.readouterr()
    subprocess.run(["git", "apply", "w.diff"], check=True)
    workload = load_profile(profile).workload
    assert 4096 - 100 < (workload.max_context_tokens or 0) < 4096 + 100  # its TGI takes prompts of 4,096
    recorded = len(log.read_text().splitlines()) / 400
    assert mixture_of(workload).requests == pytest.approx(recorded, rel=0.03)


def test_single_requests_are_no_longer_than_recorded_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prompts of 4,000 had answers of 20, answers of 2,000 prompts of 100; by themselves both would meet at 6,000."""
    monkeypatch.chdir(tmp_path)
    profile = copied(tmp_path, "base").relative_to(tmp_path)
    pairs = [(4000, 20), (100, 2000), (100, 20), (100, 20), (4000, 20), (100, 20)] * 60
    rows = "".join(f"{at * 9},{prompt},{answer}\n" for at, (prompt, answer) in enumerate(pairs))
    Path("t.csv").write_text("timestamp_s,input_tokens,output_tokens\n" + rows)
    assert run(["learn", "t.csv", "--profile", str(profile), "--out", "w.diff"]) == 0
    subprocess.run(["git", "apply", "w.diff"], check=True)
    assert load_profile(profile).workload.max_context_tokens in (4020, None)


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


def played(folder: Path, rate: float, longer: float) -> Path:
    """Six hours of the proven workload below, or of longer prompts."""
    draw, now = Random(2), 0.0
    lines = ["timestamp_s,input_tokens,output_tokens"]
    while (now := now + draw.expovariate(rate)) < 6 * 3600:
        prompt = min(2000, max(16, round(draw.gauss(400 * longer, 80))))
        lines.append(f"{now:.3f},{prompt},{min(500, max(1, round(draw.gauss(100, 20))))}")
    file = folder / f"{rate}-{longer}.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


WORKLOAD = """\
workload:
  input_tokens: {distribution: normal, mean: 400, stddev: 80, min: 16, max: 2000}
  output_tokens: {distribution: normal, mean: 100, stddev: 20, min: 1, max: 500}
  arrivals: {process: poisson, requests_per_s: 0.2}
"""


@pytest.fixture
def proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    profile = copied(tmp_path, "base").relative_to(tmp_path)
    text = profile.read_text()
    start = text.index("workload:")
    end = next((at for at in range(start + 9, len(text)) if text[at - 1] == "\n" and text[at].isalpha()), len(text))
    profile.write_text(text[:start] + WORKLOAD + text[end:])
    return profile


def test_traffic_as_proven_is_no_drift(proven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, and no change is proposed."""
    assert run(["learn", str(played(tmp_path, 0.2, 1)), "--against", str(proven), "--out", "w.diff"]) == 0
    assert "as proven, as far as this shows" in capsys.readouterr().out
    assert Path("w.diff").read_text() == ""


def test_traffic_that_moved_is_told_with_what_follows(
    proven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1; since when, what it does to each objective, and the workload as a diff that the checks accept."""
    moved = str(played(tmp_path, 0.2, 2))
    code = run(["learn", moved, "--against", str(proven), "--out", "w.diff", "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    assert (code, document["moved"]) == (ExitCode.MISSED, True)
    assert document["against"] == {"name": load_profile(proven).name, "sha256": profile_hash(load_profile(proven))}
    assert {one["quantity"]: one["moved"] for one in document["drift"]} == {
        "prompt tokens": True,
        "answer tokens": False,
        "prompts with answers": False,
        "requests/s": False,
    }
    assert document["drift"][0]["since"] is None  # nothing tells the date, and 1970 it was not
    assert document["drift"][0]["found"] == pytest.approx(800, rel=0.02)
    objectives = {one["name"]: one for one in document["objectives"]}
    assert objectives
    assert all(one["recorded_ms"] > one["proven_ms"] for name, one in objectives.items() if name.startswith("ttft"))
    subprocess.run(["git", "apply", "w.diff"], check=True)
    assert load_profile(proven).workload.input_tokens.mean == pytest.approx(800, rel=0.02)  # type: ignore[union-attr]
    assert run(["learn", moved, "--against", str(proven)]) == 0  # what was learned is what it is held against now
    assert "as proven" in capsys.readouterr().out


def rewritten(proven: Path, workload: str) -> None:
    proven.write_text(proven.read_text().replace(WORKLOAD, workload))


def test_what_is_not_quite_lognormal_is_not_learned_as_if_it_were(proven: Path, tmp_path: Path) -> None:
    """Gamma lengths of shape 4 lie 4 points off a lognormal: every night would say that they moved."""
    draw, now = Random(3), 0.0
    lines = ["timestamp_s,input_tokens,output_tokens"]
    for _ in range(20_000):
        now += draw.expovariate(2)
        lines.append(f"{now:.3f},{1 + round(draw.gammavariate(4, 130))},{1 + round(draw.gammavariate(4, 20))}")
    (tmp_path / "gamma.csv").write_text("\n".join(lines) + "\n")
    assert run(["learn", "gamma.csv", "--profile", str(proven), "--out", "w.diff"]) == 0
    subprocess.run(["git", "apply", "w.diff"], check=True)
    assert run(["learn", "gamma.csv", "--against", str(proven)]) == 0


def test_a_trace_that_a_profile_names_is_what_was_proven(
    proven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same requests are no drift, longer ones are; a trace has no steady rate, which is said; and it goes."""
    same = Path(shutil.copy(played(tmp_path, 0.2, 1), proven.parent))
    arrivals = f"arrivals: {{process: trace, trace: {same.name}}}"
    rewritten(proven, WORKLOAD.replace("arrivals: {process: poisson, requests_per_s: 0.2}", arrivals))
    assert run(["learn", str(same), "--against", str(proven)]) == 0
    assert "rate is not tested: the profile was proven with no steady one" in " ".join(capsys.readouterr().out.split())
    assert run(["learn", str(played(tmp_path, 0.2, 2)), "--against", str(proven), "--out", "w.diff"]) == 1
    subprocess.run(["git", "apply", "w.diff"], check=True)
    assert load_profile(proven).workload.arrivals.trace is None


def test_traffic_that_moved_is_told_where_its_workload_is_refused(
    proven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prompts beyond the server's limit: the drift, what follows, and why there is no change."""
    (tmp_path / "t.csv").write_text(
        "timestamp_s,input_tokens,output_tokens\n" + "".join(f"{at},9000,5\n" for at in range(99))
    )
    assert run(["learn", "t.csv", "--against", str(proven), "--out", "w.diff"]) == ExitCode.MISSED
    said = " ".join(capsys.readouterr().out.split())
    assert "MOVED" in said and "ttft_p95_ms" in said and "LP252" in said
    assert Path("w.diff").read_text() == ""


def test_a_shape_that_stays_is_counted_once(proven: Path, tmp_path: Path) -> None:
    """Nine tenths of all requests in the day's second half, as the shape says: Poisson, at the mean of the day."""
    shape = f"hours: {[1] * 12 + [9] * 12}"
    rewritten(proven, WORKLOAD.replace("requests_per_s: 0.2", f"requests_per_s: 0.2, {shape}"))
    draw, now, lines = Random(4), 1_767_571_200.0, ["timestamp_s,input_tokens,output_tokens"]
    for half in range(2):
        end = 1_767_571_200 + 43_200 * (half + 1)
        while (now := now + draw.expovariate(0.18 if half else 0.02)) < end:
            lines.append(f"{now:.3f},{round(draw.gauss(400, 80))},{round(draw.gauss(100, 20))}")
        now = end
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert run(["learn", str(tmp_path / "t.csv"), "--profile", str(proven), "--out", "w.diff"]) == 0
    subprocess.run(["git", "apply", "w.diff"], check=True)
    arrivals = load_profile(proven).workload.arrivals
    assert (arrivals.process, arrivals.burstiness, len(arrivals.hours)) == ("poisson", None, 24)
    assert arrivals.requests_per_s == pytest.approx(0.1, rel=0.05)


def test_a_shape_that_no_time_tells_goes(proven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace that counts from 0 has no hours: the rate is its own, and a note says so."""
    rewritten(proven, WORKLOAD.replace("requests_per_s: 0.2", f"requests_per_s: 0.1, hours: {[1] * 12 + [9] * 12}"))
    assert run(["learn", str(played(tmp_path, 0.2, 1)), "--profile", str(proven), "--out", "w.diff"]) == 0
    assert "the shape of a day or week is gone from the change" in " ".join(capsys.readouterr().out.split())
    subprocess.run(["git", "apply", "w.diff"], check=True)
    assert load_profile(proven).workload.arrivals.hours == ()


def test_classes_and_what_goes_with_turns_are_gone(
    proven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was recorded is one kind of single requests: no class beside it, nobody who thinks between turns."""
    more = (
        "  turns: 4\n  continues: 0.5\n  think_time_s: 9\n  classes: [{name: long, share: 0.5, output_tokens: 300}]\n"
    )
    rewritten(proven, WORKLOAD.replace("max: 2000", "max: 600").replace("max: 500", "max: 120") + more)
    assert run(["learn", str(played(tmp_path, 0.2, 1)), "--profile", str(proven), "--out", "w.diff"]) == 0
    assert "workload.classes: not learned and gone from the change" in " ".join(capsys.readouterr().out.split())
    subprocess.run(["git", "apply", "w.diff"], check=True)
    workload = load_profile(proven).workload
    assert (workload.classes, workload.turns, workload.continues, workload.think_time_s) == ((), 1, 1.0, 0.0)


def test_think_time_is_learned_where_the_ends_of_answers_are_told(
    proven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Forty conversations of two turns: answers of 5 s, the next prompt after 20 or 40 s more."""
    lines = ["startTime,endTime,prompt_tokens,completion_tokens,session_id"]
    for number in range(40):
        for turn, second in enumerate((0, 25 if number % 2 else 45)):
            minute = f"2026-01-05 10:{number:02d}"
            lines.append(f"{minute}:{second:02d},{minute}:{second + 5:02d},{100 + 200 * turn},50,s{number}")
    (tmp_path / "l.csv").write_text("\n".join(lines))
    assert run(["learn", "l.csv", "--profile", str(proven), "--out", "w.diff"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Think time mean 30 s, stddev 10" in said and "think time is not learned" not in said
    subprocess.run(["git", "apply", "w.diff"], check=True)
    workload = load_profile(proven).workload
    assert (workload.turns, workload.think_time_s, workload.think_time_stddev_s) == (2, 30, 10)


def test_the_endpoints_own_capture_is_where_it_is_looked_for(
    proven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By bucket, endpoint, variant and hour, as SageMaker lays it out; a profile without one says what to give."""
    assert run(["learn", "--against", str(proven)]) == ExitCode.BAD_INPUT
    assert "has no endpoint.data_capture; give SOURCES" in capsys.readouterr().err
    assert run(["learn"]) == ExitCode.BAD_INPUT
    assert "give SOURCES: files, folders or s3:// prefixes" in capsys.readouterr().err


def test_a_day_without_a_request_is_no_other_traffic(
    proven: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was named oneself has to be there; what an endpoint captured on a day may be nothing."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr("loadproof.cli.learn.command._captured", lambda *_: str(tmp_path / "empty"))
    assert run(["learn", "--against", str(proven), "--out", "w.diff", "--format", "json"]) == ExitCode.OK
    said = json.loads(capsys.readouterr().out)
    assert (said["requests"], said["moved"], Path("w.diff").read_text()) == (0, None, "")
    assert "nothing to hold against what was proven" in said["notes"][0]
    assert run(["learn", "--against", str(proven), str(tmp_path / "empty")]) == ExitCode.BAD_INPUT
