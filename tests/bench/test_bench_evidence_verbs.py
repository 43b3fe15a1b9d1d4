"""`loadproof evidence` as a user and a pipeline meet it: what is printed, what is written, which exit code."""

from __future__ import annotations

import json
import shutil
from contextlib import chdir
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bench_evidence import profile_tree, run_of_profile
from bench_fakes import FakeEndpoint, serving

from loadproof.cli.main import run as loadproof
from loadproof.profiles import load_profile, profile_hash

BEGUN = datetime.now(UTC) - timedelta(days=3, hours=1)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One profile, and three runs of it: one, one like it, one twice as slow."""
    root = tmp_path_factory.mktemp("repository")
    with chdir(root):
        chat = profile_tree(Path())
        for name, seed, slower, days in (("main", 1, 1.0, 0), ("again", 2, 1.0, 1), ("slow", 3, 2.0, 2)):
            run_of_profile(Path("runs") / name, chat, seed=seed, slower=slower, created=BEGUN + timedelta(days=days))
    return root


@pytest.fixture
def chat(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a copy of the repository: its profile."""
    shutil.copytree(repository, tmp_path / "repository")
    monkeypatch.chdir(tmp_path / "repository")
    return Path("deploy_profiles/dev/chat.yaml")


def words(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


def document(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


def raised(chat: Path) -> None:
    chat.write_text(chat.read_text().replace("max_instances: 2", "max_instances: 3"))


def test_runs_are_listed_newest_first_with_what_changed_since(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verdict, age and state; once the profile has another maximum, each is stale for that very field."""
    assert loadproof(["evidence", "list"]) == 0
    said = words(capsys)
    assert said.index("slow dev/chat") < said.index("again dev/chat") < said.index("main dev/chat")
    assert "PASS claimed 3 days current runs/main" in said
    raised(chat)
    assert loadproof(["evidence", "list", "--format", "json"]) == 0
    rows = document(capsys)["runs"]
    assert [row["run_id"] for row in rows] == ["slow", "again", "main"]
    assert {(row["state"], *row["changed_since"]) for row in rows} == {("stale", "endpoint.max_instances")}


def test_nothing_kept_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty list says how runs come about."""
    monkeypatch.chdir(tmp_path)
    assert loadproof(["evidence", "list"]) == 0
    assert words(capsys) == "no runs; loadproof bench makes one, loadproof evidence add keeps it"


@pytest.mark.parametrize("name", ["runs/slow", "slow", "sl", "dev/chat", "deploy_profiles/dev/chat.yaml"])
def test_a_run_is_meant_by_folder_id_beginning_or_profile(
    chat: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A profile means its newest run. What is shown: verdict, profile, objectives with intervals, hashes, place."""
    assert loadproof(["evidence", "show", name]) == 0
    said = words(capsys)
    assert said.startswith("PASS: slow ") and "Kept runs/slow" in said
    assert "dev/chat at" in said and ": current" in said and "Objectives at 4 in flight" in said
    assert "ttft_p95_ms" in said and "<= 500 95% interval" in said and "requests.jsonl" in said


def test_a_run_that_nobody_has_is_refused_with_those_there_are(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, and names to choose from."""
    assert loadproof(["evidence", "show", "nobody"]) == 2
    assert "nobody: no run or profile of that name in runs; there are slow, main, again" in words(capsys)


def test_a_regression_exits_1_and_the_way_back_0(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twice the TTFT: REGRESSION, by about ×2 with its interval, which allows for runs that differ by a tenth.

    The other way round IMPROVED. With a third run of the same profile it takes no single one of them for the rule.
    """
    shutil.rmtree("runs/again")
    assert loadproof(["evidence", "compare", "main", "slow", "--format", "json"]) == 1
    found = document(capsys)
    [deciding] = [row for row in found["comparison"]["changes"] if row["name"] == "ttft_p95_ms"]
    assert deciding["decides"] and 1.4 < deciding["low"] < deciding["change"] < deciding["high"] < 3.1
    assert found["intervals"] == {"method": "bootstrap over requests", "resamples": 2000, "confidence": 0.95}
    assert loadproof(["evidence", "compare", "slow", "main"]) == 0
    assert words(capsys).startswith("IMPROVED: main against slow at 4 in flight: ttft_p95_ms")


def test_what_fails_can_be_chosen(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """120 requests settle no change within 5%: INCONCLUSIVE, which fails only where asked to; never is never."""
    assert loadproof(["evidence", "compare", "main", "again", "--tolerance", "0.005"]) == 0
    assert loadproof(["evidence", "compare", "main", "again", "--tolerance", "0.005", "--fail-on", "inconclusive"]) == 1
    assert "INCONCLUSIVE: again against main" in words(capsys)
    assert loadproof(["evidence", "compare", "main", "slow", "--fail-on", "never"]) == 0


def test_a_client_too_slow_to_measure_exits_3(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """9 ms of lag are the client's, whichever run has them: nothing is said of the endpoint."""
    run_of_profile(Path("runs/late"), chat, lag_ms=9)
    assert loadproof(["evidence", "compare", "main", "late"]) == 3
    assert "INCONCLUSIVE: late against main" in words(capsys)


def test_a_comparison_breaks_no_figures_name_at_80_columns(
    chat: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What decides is marked behind its name."""
    monkeypatch.setenv("COLUMNS", "80")
    assert loadproof(["evidence", "compare", "main", "slow"]) == 1
    said = capsys.readouterr().out
    assert "output_tokens_per_s_min " in said and "ttft_p95_ms* " in said and "REGRESSION" in said
    assert max(map(len, said.splitlines())) <= 80


def test_runs_break_no_word_at_80_columns(
    chat: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one of them: each line goes on below its beginning."""
    long = Path("runs", "20261127-101500-llama-3-1-8b-instruct-of-the-search")
    Path("runs/main").rename(long)
    raised(chat)
    monkeypatch.setenv("COLUMNS", "80")
    assert loadproof(["evidence", "list"]) == 0
    listed = capsys.readouterr().out
    for words_of_it in (
        "profile hash: ",
        "signed by: claimed",
        "stale: changed since: endpoint.max_instances",
        f"{long}",
    ):
        assert words_of_it in listed
    assert loadproof(["evidence", "show", str(long)]) == 0
    shown = capsys.readouterr().out
    assert "\nMeasured     " in shown
    assert [line for line in [*listed.splitlines(), *shown.splitlines()] if len(line) > 80] == []


def test_a_comparison_as_markdown_names_what_decides(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Outcome first, a table of figures, how it was told at the end."""
    assert loadproof(["evidence", "compare", "main", "slow", "--format", "markdown"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "## ❌ REGRESSION against main (slow)"
    assert any(line.startswith("| `ttft_p95_ms` | 4 in flight |") and "❌ REGRESSION" in line for line in lines)
    assert "bootstrap (2,000 resamples" in lines[-1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["compare", "main", "runs/main"], "both are runs/main; name another run to hold it to"),
        (["compare", "main", "kept/dev/chat/slow"], "kept without its requests, so it can only be shown"),
        (["compare", "a", "b"], "several runs begin so"),
        (["check", "--max-age", "yesterday"], "expected hours or days, for example 12h or 30d, or any"),
        (["check", "none.yaml"], "none.yaml: not found; name a profile or a folder of them"),
        (["add", "runs/main", "runs/cut"], "not judged: the run was cut off"),
        (["list", "nowhere"], "nowhere: no such folder"),
    ],
)
def test_bad_input_exits_2_with_what_would_do(
    chat: Path, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One message, no traceback."""
    assert loadproof(["evidence", "add", "runs/slow", "--without-requests", "--to", "kept"]) == 0
    run_of_profile(Path("runs/cut"), chat, requests=8, judged=False)
    run_of_profile(Path("runs/another"), chat, requests=8, judged=False)
    if "a" in arguments:
        arguments = ["compare", "a", "main"]
    if "kept/dev/chat/slow" in arguments:
        assert Path("kept/dev/chat/slow/summary.json").exists()
    assert loadproof(["evidence", *arguments]) == 2
    assert complaint in words(capsys)


def test_runs_that_fit_are_kept_though_another_is_refused(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 for the one that was cut off; the others are in place."""
    run_of_profile(Path("runs/cut"), chat, requests=8, judged=False)
    assert loadproof(["evidence", "add", "runs/cut", "runs/main"]) == 2
    assert sorted(path.name for path in Path("evidence/dev/chat/main").iterdir()) == [
        "evidence.json", "plan.json", "requests.jsonl.gz", "summary.json",
    ]  # fmt: skip
    capsys.readouterr()
    assert loadproof(["evidence", "add", "runs/main"]) == 0
    assert words(capsys) == "evidence/dev/chat/main: kept before"


def test_every_other_verb_reads_what_is_kept(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """verify, report and compare take a kept run like any other."""
    assert loadproof(["evidence", "add", "runs/main", "runs/slow"]) == 0
    kept = [f"evidence/dev/chat/{name}" for name in ("main", "slow")]
    assert loadproof(["verify", *kept]) == 0
    assert loadproof(["report", kept[1], "--against", kept[0]]) == 1
    assert "Against main: REGRESSION" in words(capsys)


def test_a_profile_is_proven_until_it_changes(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 by the newest PASS; 1 once the profile is another, naming what changed; 1 once it is too old for the gate."""
    assert loadproof(["evidence", "check"]) == 0
    said = words(capsys)
    assert "deploy_profiles/dev/chat.yaml: proven by runs/slow, 25 hours old, claimed deploy_profiles" in said
    assert said.endswith("in which account was measured is not known: the run does not say 1 of 1 profiles proven")
    assert loadproof(["evidence", "check", "deploy_profiles/dev", "--max-age", "12h"]) == 1
    assert "not proven: 25 hours old, at most 12 hours are wanted (runs/slow)" in words(capsys)
    raised(chat)
    assert loadproof(["evidence", "check", str(chat), "--format", "json"]) == 1
    found = document(capsys)
    assert (found["ok"], found["profiles"][0]["problems"]) == (
        False, ["stale: changed since the run: endpoint.max_instances"],
    )  # fmt: skip


def test_a_profile_whose_traffic_moved_is_proven_no_more(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By what `learn --against` printed of this very profile; another profile's, or no alarm, changes nothing."""
    row = {"quantity": "prompt tokens", "proven": 400.0, "found": 500.0, "moved": True, "since": "2026-01-05T08:30:00"}
    own, file = profile_hash(load_profile(chat)), chat.parent / "traffic.json"
    for sha256, moved, code in ((own, True, 1), (own, False, 0), ("0" * 64, True, 0)):
        file.write_text(json.dumps({"against": {"sha256": sha256}, "drift": [row | {"moved": moved}]}))
        assert loadproof(["evidence", "check", "--traffic", str(file)]) == code
        said = words(capsys)
        assert ("its traffic moved: prompt tokens +25% since 2026-01-05T08:30" in said) is bool(code)
    file.write_text("{}")
    assert loadproof(["evidence", "check", "--traffic", str(file)]) == 2
    assert "expected what `loadproof learn --against PROFILE --format json` prints" in capsys.readouterr().err


def test_before_the_first_run_nothing_is_proven(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A place that is not there yet is no bad usage: the pipeline's first benchmark will make it."""
    assert loadproof(["evidence", "check", "--place", "not-yet"]) == 1
    assert "deploy_profiles/dev/chat.yaml: not proven: no run 0 of 1 profiles proven" in words(capsys)


def test_a_profile_the_checks_refuse_is_not_proven(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is told with the others."""
    (chat.parent / "broken.yaml").write_text("name: broken\n")
    assert loadproof(["evidence", "check"]) == 1
    said = words(capsys)
    assert "broken.yaml: not proven: refused by the checks: loadproof check says why" in said
    assert said.endswith("1 of 2 profiles proven")


def test_from_a_benchmark_to_evidence(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that really sent its requests: kept, listed as current, compared with itself sent again."""
    with serving(FakeEndpoint()) as endpoint:
        for name in ("first", "second"):
            loadproof(["bench", str(chat), "--endpoint-url", endpoint.url, "--out", f"new/{name}"])
    assert loadproof(["evidence", "add", "new/first", "new/second", "--to", "new-evidence"]) == 0
    capsys.readouterr()
    assert loadproof(["evidence", "list", "new-evidence", "--format", "json"]) == 0
    rows = document(capsys)["runs"]
    assert [(row["environment"], row["profile"], row["state"], row["misfits"]) for row in rows] == [
        ("dev", "chat", "current", [])
    ] * 2
    code = loadproof(["evidence", "compare", rows[1]["where"], rows[0]["where"], "--tolerance", "9"])
    assert code in (0, 3)  # a busy machine's client may be too slow to measure; worse than ten times it is not
