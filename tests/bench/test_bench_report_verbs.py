"""`loadproof report` and `loadproof verify` on runs that are there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from test_bench_regression import latencies, run_of

from loadproof.bench.judging import judge_run
from loadproof.cli.main import run as loadproof


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run, and one three times as slow that still meets its objective of 500 ms."""
    folder = tmp_path_factory.mktemp("judged")
    for run in (run_of(folder / "fast", latencies(1)), run_of(folder / "slow", latencies(2, 3.0))):
        judge_run(run)
    return folder


@pytest.fixture
def runs(judged: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Copies of both, for a test to change."""
    shutil.copytree(judged, tmp_path, dirs_exist_ok=True)
    return tmp_path / "fast", tmp_path / "slow"


def test_a_run_is_shown_again(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict's exit code, the table, and no file but the page touched."""
    before = {path.name: path.read_bytes() for path in runs[0].iterdir() if path.name != "report.html"}
    assert loadproof(["report", str(runs[0])]) == 0
    said = capsys.readouterr().out
    assert "PASS" in said and "ttft_p95_ms" in said
    assert before == {path.name: path.read_bytes() for path in runs[0].iterdir() if path.name != "report.html"}


def test_the_next_command_names_the_folder_that_is_there(
    runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the terminal, on the page and in markdown: not runs/<run id>, where nobody put it."""
    monkeypatch.chdir(tmp_path)
    assert loadproof(["report", "fast", "--markdown", "said.md"]) == 0
    assert "`loadproof evidence add fast`" in " ".join(capsys.readouterr().out.split())
    assert "<code>loadproof evidence add fast</code>" in Path("fast", "report.html").read_text()
    assert "`loadproof evidence add fast`" in Path("said.md").read_text()


def test_a_regression_exits_1_though_the_objectives_hold(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other way round it exits 0; the files are there, and JSON carries the comparison."""
    fast, slow = map(str, runs)
    files = {kind: tmp_path / f"out.{kind}" for kind in ("junit", "csv", "markdown")}
    options = [part for kind, path in files.items() for part in (f"--{kind}", str(path))]
    assert loadproof(["report", slow, "--against", fast, *options]) == 1
    assert "Against fast: REGRESSION" in capsys.readouterr().out
    assert ElementTree.parse(files["junit"]).getroot().tag == "testsuites"
    assert files["csv"].read_text().startswith("run_id,") and "REGRESSION" in files["markdown"].read_text()
    assert loadproof(["report", fast, "--against", slow, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"]["outcome"] == "PASS" and document["regression"]["outcome"] == "IMPROVED"


def test_a_tolerance_may_allow_it(runs: tuple[Path, Path]) -> None:
    """Three times as slow is within a tolerance of ×6."""
    assert loadproof(["report", str(runs[1]), "--against", str(runs[0]), "--tolerance", "5"]) == 0


def test_a_step_summary_is_added_to(runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier step wrote stays; any other file is written anew."""
    page, other = tmp_path / "summary.md", tmp_path / "other.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    for path in (page, other):
        path.write_text("earlier\n")
        assert loadproof(["report", str(runs[0]), "--markdown", str(path)]) == 0
    assert page.read_text().startswith("earlier\n## ✅ PASS")
    assert other.read_text().startswith("## ✅ PASS")


def test_verify_tells_what_does_not_fit(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """0 for two untouched runs, 1 once a latency was rewritten."""
    assert loadproof(["verify", *map(str, runs)]) == 0
    path = runs[1] / "requests.jsonl"
    path.write_text(path.read_text().replace('"outcome":"ok"', '"outcome":"internal"', 1))
    assert loadproof(["verify", *map(str, runs)]) == 1
    said = capsys.readouterr().out
    assert f"{runs[0]}: its files fit together" in said and f"{runs[1]}: requests.jsonl: changed" in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["report", "{tmp}/none"], "not found; give the folder of a run"),
        (["report", "{run}", "--against", "{tmp}/none"], "not a run folder"),
        (["report", "{run}", "--junit", "{tmp}"], "is no place for a file"),
        (["report", "{run}", "--csv", "{tmp}/no/such/file"], "is no place for a file"),
        (["verify", "{tmp}/none"], "give a judged run that has its requests"),
    ],
)
def test_bad_places_exit_2(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    """The message says what to give instead."""
    assert loadproof([part.format(tmp=tmp_path, run=runs[0]) for part in arguments]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())


def test_where_the_picture_is_is_told(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside where the report is, by the name that was given; nothing of it in JSON."""
    picture = tmp_path / "page.html"  # as .png it would need a browser
    monkeypatch.setattr("loadproof.cli.outputs.ENDINGS", (".html",))
    assert loadproof(["report", str(runs[0]), "--picture", str(picture)]) == 0
    assert f"\nPicture: {picture}\n" in capsys.readouterr().out and picture.is_file()
    assert loadproof(["report", str(runs[0]), "--picture", str(picture), "--format", "json"]) == 0
    assert "verdict" in json.loads(capsys.readouterr().out)
