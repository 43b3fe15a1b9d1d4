"""Standard streams that are closed, full or unread: cron jobs, `| head -1`, a disk that is full."""

from __future__ import annotations

import functools
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from run_server import ModelServer, serving

from loadproof.bench.measure.records import each_record, latest

ROOT = Path(__file__).parents[2]
SHAPE = ["--input-tokens", "8", "--output-tokens", "3", "--answer-length", "at_most", "--warmup", "0"]
LOAD = ["--concurrency", "1", "--requests-per-level", "4", "--protocol", "openai"]
VERBS = {
    "run": ["run", "--protocol", "openai", "--input", "in.jsonl", "--output", "out.jsonl"],
    "bench": ["bench", *SHAPE, *LOAD, "--out", "r"],
    "bench of two processes": ["bench", *SHAPE, *LOAD, "--workers", "2", "--out", "r"],
}
WRITTEN = {"evidence.json", "plan.json", "report.html", "requests.jsonl", "summary.json"}


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that answers; the working directory holds an input of three lines."""
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text("".join(json.dumps({"prompt": f"p{n}"}) + "\n" for n in range(3)))
    with serving(ModelServer()) as server:
        yield server.completions


def ended(verb: list[str], before: Callable[[], object], **streams: object) -> subprocess.CompletedProcess[str]:
    """After `before` in the new process."""
    return subprocess.run(
        [sys.executable, "-m", "loadproof", *verb],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=before,
        text=True,
        timeout=120,
        check=False,
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )


def expect_whole(name: str, code: int) -> None:
    """All was answered and every file is there; of a benchmark the exit code is its verdict's."""
    if name == "run":
        assert code == 0
        assert len(Path("out.jsonl").read_text().splitlines()) == 3
        return
    assert {file.name for file in Path("r").iterdir()} >= WRITTEN
    outcome = json.loads(Path("r/summary.json").read_text())["verdict"]["outcome"]
    assert (outcome, code) in {("NOT JUDGED", 4), ("INVALID", 3)}  # the latter by a busy machine


def closing(*numbers: int) -> Callable[[], None]:
    def close() -> None:
        for number in numbers:
            os.close(number)

    return close


def unread(number: int) -> Callable[[], None]:
    """Make it a pipe whose reader went away."""

    def put() -> None:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, number)

    return put


@pytest.mark.parametrize("closed", [(1,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", VERBS)
def test_closed_streams_change_nothing_but_what_is_seen(url: str, name: str, closed: tuple[int, ...]) -> None:
    """As in a shell `>&- 2>&-`: no file and no socket gets their numbers."""
    expect_whole(name, ended([*VERBS[name], "--target", url], closing(*closed)).returncode)


@pytest.mark.parametrize("gone", [1, 2])
@pytest.mark.parametrize("name", VERBS)
def test_a_reader_that_went_away_changes_nothing(url: str, name: str, gone: int) -> None:
    """As of `| head -1`: neither the exit code nor the files, and nobody is told."""
    done = ended([*VERBS[name], "--target", url], unread(gone))
    expect_whole(name, done.returncode)
    assert "Broken pipe" not in done.stderr + done.stdout


@pytest.mark.parametrize("verb", [["--help"], ["--version"], ["check", str(ROOT / "deploy_profiles")], ["schema"]])
def test_help_and_lists_whose_reader_went_away_end_well(verb: list[str]) -> None:
    """Exit code 0 and not a word."""
    done = ended(verb, unread(1))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["run", "bench"])
def test_a_full_standard_output_is_told_by_its_name(url: str, name: str) -> None:
    """Exit code 3, with what could not be written and what mends it; the files are whole."""
    with Path("/dev/full").open("w") as full:
        done = ended([*VERBS[name], "--target", url], lambda: None, stdout=full)
    assert done.returncode == 3
    assert "standard output: cannot be written (No space left on device)" in done.stderr
    assert "make room" in done.stderr
    assert Path("out.jsonl" if name == "run" else "r/report.html").exists()


@pytest.mark.parametrize("most", [8, 12, 14, 16])
@pytest.mark.parametrize("name", ["run", "bench"])
def test_too_few_descriptors_are_told_with_what_mends_it(url: str, name: str, most: int) -> None:
    """Where it cannot end as ever: exit code 3, never a traceback."""
    done = ended([*VERBS[name], "--target", url], lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 4) or (done.returncode == 3 and "ulimit -n 1024" in done.stderr), done.stderr


def test_a_run_short_of_descriptors_answers_every_item(url: str) -> None:
    """64 at once with room for a few: fewer go, none is a failure. 69 of 120 failed for good."""
    Path("in.jsonl").write_text("".join(json.dumps({"prompt": f"p{n}"}) + "\n" for n in range(120)))
    few = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (20, 20))
    done = ended([*VERBS["run"], "--target", url, "--concurrency", "64"], few)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["error"] for line in Path("out.jsonl").read_text().splitlines()] == [None] * 120


def test_a_benchmark_short_of_descriptors_ends_and_goes_on(url: str) -> None:
    """What could not be sent is no result of the endpoint: exit code 3, and --resume sends it."""
    few = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (24, 24))
    load = ["--concurrency", "40", "--requests-per-level", "80", "--protocol", "openai"]
    done = ended(["bench", *SHAPE, *load, "--out", "r", "--target", url], few)
    assert done.returncode == 3 and "Too many open files" in done.stderr, done.stderr
    assert "connection" not in {record.outcome for record in each_record(Path("r/requests.jsonl"))}
    ended(["bench", "--resume", "r"], lambda: None)
    records = latest(each_record(Path("r/requests.jsonl")))
    assert [record.outcome for record in records] == ["ok"] * 80
