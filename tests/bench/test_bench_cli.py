"""`loadproof bench` as a shell sees it: exit codes, what is on stdout, killed and interrupted runs."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench_fakes import FakeEndpoint, serving
from bench_recompute import recompute

from loadproof.bench.evidence.document import mismatches
from loadproof.bench.judging import shown_again
from loadproof.cli import main

pytestmark = pytest.mark.usefixtures("patient")
PATIENT = "from loadproof.bench.judge import verdict; verdict.OFFERED_AT_LEAST = 0; "
ENTRY = [sys.executable, "-c", f"{PATIENT}from loadproof.cli.main import main; main()", "bench"]


DEMO = ["--target", "sagemaker://demo", "--protocol", "tgi"]


def arguments(endpoint: FakeEndpoint, *more: str, component: str = "/demo-main") -> list[str]:
    """Without a component nobody observes copies, which costs a process, and a second of it."""
    target = ["--target", f"sagemaker://demo{component}", "--endpoint-url", endpoint.url, "--protocol", "tgi"]
    return [*ENTRY, *target, "--input-tokens", "16", "--output-tokens", "6", "--warmup", "1", *more]


def bench(cwd: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def bench_here(cwd: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The same in this process, which costs a second less."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main.run(["bench", *command[len(ENTRY) :]])
    return subprocess.CompletedProcess(command, code, out.getvalue(), errors.getvalue())


def wait_for_lines(path: Path, count: int) -> None:
    deadline_s = time.monotonic() + 120
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert time.monotonic() < deadline_s, "the run wrote no records"
        time.sleep(0.02)


def test_json_on_stdout_is_the_summary_file_and_nothing_else(tmp_path: Path) -> None:
    """From another working directory, with progress on stderr only; no ANSI escapes where there is no terminal."""
    with serving(FakeEndpoint()) as endpoint:
        done = bench(
            tmp_path,
            arguments(endpoint, "--concurrency", "1,2", "--requests-per-level", "4", "--out", "r", "--format", "json"),
        )
    summary = json.loads(done.stdout)
    assert done.stdout == (tmp_path / "r" / "summary.json").read_text()
    assert [level["concurrency"] for level in summary["levels"]] == [1, 2]
    assert summary["target"]["endpoint"] == "demo" and summary["target"]["component"] == "demo-main"
    assert (done.returncode, summary["verdict"]["outcome"]) == (4, "NOT JUDGED")
    assert "level 2/2 · 2 in flight" in done.stderr and "\x1b" not in done.stderr


def test_text_shows_levels_verdict_and_report(tmp_path: Path) -> None:
    """Without --out the run lies in runs/<run-id>, and the last line says where the page is."""
    with serving(FakeEndpoint()) as endpoint:
        done = bench_here(tmp_path, arguments(endpoint, "--concurrency", "2", "--requests-per-level", "4"))
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-demo-main")
    assert done.stdout.splitlines()[-1] == f"Report: runs/{folder.name}/report.html"
    assert "TTFT" in done.stdout and "\x1b" not in done.stdout


def test_an_http_target_is_reached_by_its_own_url(tmp_path: Path) -> None:
    """A bare container at /invocations: the same payloads without AWS around them."""
    with serving(FakeEndpoint()) as endpoint:
        command = [*ENTRY, "--target", endpoint.url, "--protocol", "tgi", "--concurrency", "1", "--output-tokens", "4"]
        done = bench_here(tmp_path, [*command, "--requests-per-level", "3", "--format", "json"])
    summary = json.loads(done.stdout)
    assert summary["target"]["kind"] == "openai" and summary["target"]["endpoint"] == f"{endpoint.url}/invocations"
    assert summary["levels"][0]["requests"] == 3 and summary["levels"][0]["errors"] == 0


def test_errors_and_missed_objectives_exit_1(tmp_path: Path) -> None:
    """One refused request of four; and, in a run without errors, an objective no server could meet."""
    with serving(FakeEndpoint(fault_of={3: "refuse"}.get)) as endpoint:
        four = arguments(endpoint, "--concurrency", "1", "--requests-per-level", "4", component="")
        done = bench_here(tmp_path, four)
    assert done.returncode == 1, done.stderr
    assert "Errors at 1 in flight: 1 model_error" in done.stdout
    with serving(FakeEndpoint()) as endpoint:
        impossible = ["--requests-per-level", "6", "--objective", "requests_per_s_min=1000000"]
        done = bench_here(tmp_path, arguments(endpoint, "--concurrency", "1", *impossible, component=""))
    assert done.returncode == 1, done.stderr
    assert "FAIL" in done.stdout


def test_an_unreachable_endpoint_exits_3(tmp_path: Path) -> None:
    """One line, no traceback, no folder left behind."""
    with socket.socket() as held:  # bound but not listening: nobody else can take the port, connecting is refused
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        done = bench_here(tmp_path, [*ENTRY, "--target", url, "--protocol", "openai", "--out", "r", "--format", "json"])
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr.startswith("loadproof: the endpoint cannot be reached") and done.stderr.count("\n") == 1
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "give a PROFILE or a --target"),
        (["--target", "sagemaker://demo"], "--target needs --protocol"),
        (
            ["--target", "ftp://demo", "--protocol", "tgi"],
            "expected sagemaker://ENDPOINT[/COMPONENT], bedrock://MODEL or http(s)",
        ),
        (["--target", "sagemaker://demo", "--protocol", "tgi", "--concurrency", "1,x"], "expected numbers from 1"),
        (["--target", "sagemaker://demo", "--protocol", "tgi", "--concurrency", "2,2"], "a level is named twice"),
        (
            ["--target", "sagemaker://demo", "--protocol", "tgi", "--at-concurrency", "5"],
            "none of the levels 1, 2, 4, 8",
        ),
        (["--target", "sagemaker://demo", "--protocol", "tgi", "--objective", "ttft=1"], "unknown objective `ttft`"),
        (["--target", "sagemaker://demo", "--protocol", "tgi", "--env", "dev"], "goes with a PROFILE only"),
        (["missing.yaml", "--protocol", "tgi"], "goes with --target only"),
        (["missing.yaml"], "missing.yaml"),
        (["--resume", "nowhere"], "not a run folder"),
        (["--target", "sagemaker://demo", "--protocol", "grpc"], "grpc"),
        ([*DEMO, "--rate", "2", "--concurrency", "4"], "give one of them"),
        ([*DEMO, "--rate", "0"], "expected numbers above 0"),
        ([*DEMO, "--rate", "8..2"], "expected LOWEST..HIGHEST"),
        ([*DEMO, "--concurrency", "1.5..4"], "expected whole numbers LOWEST..HIGHEST"),
        ([*DEMO, "--concurrency", "1..8", "--at-concurrency", "9"], "9 in flight, which is not in 1..8; widen"),
        ([*DEMO, "--rate", "1..8", "--at-rate", "9"], "9 requests/s, which is not in 1..8; widen --rate"),
        ([*DEMO, "--concurrency", "1..8", "--at-rate", "2"], "--at-rate 2: goes with --rate"),
        ([*DEMO, "--rate", "2", "--at-concurrency", "4"], "--at-concurrency 4: goes with --concurrency"),
        ([*DEMO, "--phase", "concurrency=2,concurrency=3"], "`concurrency` is given twice"),
        ([*DEMO, "--arrivals", "gamma", "--burstiness", "2"], "--burstiness 2.0: goes with --rate"),
        ([*DEMO, "--rate", "2", "--arrivals", "gamma"], "gamma needs a burstiness"),
        ([*DEMO, "--rate", "2", "--ramp-from", "1"], "a ramp takes its time from duration_s"),
        ([*DEMO, "--rate", "2", "--at-rate", "3"], "none of the levels; name one of --rate"),
        ([*DEMO, "--find-max", "--rate", "1..8"], "--find-max needs objectives"),
        ([*DEMO, "--find-max", "--rate", "4", "--objective", "e2e_p50_ms=9"], "expected LOWEST..HIGHEST"),
        ([*DEMO, "--phase", "process=storm"], "unknown process 'storm'"),
        ([*DEMO, "--phase", "tempo=3"], "unknown `tempo`; use process, concurrency"),
        ([*DEMO, "--phase", "process=poisson,duration_s=9"], "no requests_per_s; poisson needs a rate"),
        ([*DEMO, "--trace", "missing.csv"], "missing.csv: cannot be read as a trace"),
        ([*DEMO, "--workload", "chat-256"], "did you mean chat-256-256?"),
        ([*DEMO, "--workload", "none.yaml"], "none.yaml: cannot be read"),
        ([*DEMO, "--input-tokens", "normal:5"], "expected 256, normal:MEAN:STDDEV"),
        ([*DEMO, "--output-tokens", "uniform:9:3"], "9 is above 3; write the lowest first"),
        ([*DEMO, "--input-tokens", "empirical:none.txt"], "none.txt: cannot be read"),
        ([*DEMO, "--dataset", "none.jsonl", "--image", "9x"], "none.jsonl: cannot be read"),
        ([*DEMO, "--dataset", "none.jsonl", "--image", "9x"], "--image '9x': expected WIDTHxHEIGHT"),
        ([*DEMO, "--rate", "0", "--turns", "2", "--image", "9x9"], "images need chat messages"),
        ([*DEMO, "--rate", "0", "--turns", "2", "--image", "9x9"], "expected numbers above 0"),
        ([*DEMO, "--image", "9x9"], "images need chat messages"),
        ([*DEMO, "--think-time-s", "2"], "give --turns 2 or more"),
        (["--requests-per-level", "0"], "greater than or equal to 1"),
        (
            [*DEMO, "--no-stream", "--objective", "tpot_p95_ms=9"],
            "tpot_p95_ms: without streaming an answer comes whole",
        ),
        ([*DEMO, "--seed", str(2**63)], "less than or equal to 9223372036854775807"),
        ([*DEMO, "--input-tokens", "100000000"], "no whole number from 1 to 10,000,000"),
        ([*DEMO, "--junit", "/dev/full/x.xml"], "is no place for a file"),
        ([*DEMO, "--csv", "/proc/new.csv"], "--csv /proc/new.csv: cannot be written"),
        ([*DEMO, "--workers", "64"], "--workers 64: at most one a core, and this machine has"),
    ],
)
def test_bad_usage_exits_2_and_says_what_would_do(tmp_path: Path, options: list[str], complaint: str) -> None:
    """Never a traceback; nothing is written."""
    done = bench_here(tmp_path, [*ENTRY, *options])
    assert done.returncode == 2
    assert complaint in " ".join(done.stderr.split()) and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_killed_run_is_readable_and_resumes_to_the_same_verdict(tmp_path: Path) -> None:
    """kill -9 in mid-sweep: `report` judges the lines that are there, and --resume with the same options completes all
    40 requests; objectives and levels are then judged as those of a run that nobody killed."""
    with serving(FakeEndpoint(ttft_s=0.02)) as endpoint:
        command = arguments(endpoint, "--concurrency", "1,2", "--requests-per-level", "20", "--format", "json")
        command += ["--objective", "e2e_p50_ms=5000", "--objective", "tpot_p50_ms=0.01"]
        process = subprocess.Popen(
            [*command, "--out", "r"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for_lines(tmp_path / "r" / "requests.jsonl", 8)
        process.kill()
        process.wait()
        kept = len((tmp_path / "r" / "requests.jsonl").read_bytes().splitlines())
        unjudged = mismatches(tmp_path / "r")
        for _ in range(50):  # until the observer, which outlives a kill, has said its last words
            read = shown_again(tmp_path / "r")
            if not (judged := mismatches(tmp_path / "r")):
                break
            time.sleep(0.2)
        page = (tmp_path / "r" / "report.html").read_text()
        done = bench_here(tmp_path, [*command, "--resume", "r"])
        undisturbed = bench_here(tmp_path, [*command, "--out", "u"])
    assert len(unjudged) == 1 and "loadproof report" in unjudged[0] and judged == []
    assert "Incomplete." in page
    assert read.exit_code == 130 and read.summary.verdict.outcome != "PASS"
    assert read.summary.levels[0].requests >= 7 and read.report is not None
    assert 8 <= kept < 40
    summary, other = json.loads(done.stdout), json.loads(undisturbed.stdout)
    for one in (summary, other):
        assert [level["requests"] for level in one["levels"]] == [20, 20]
        assert [(each["name"], each["verdict"]) for each in one["objectives"]] == [
            ("e2e_p50_ms", "PASS"),
            ("tpot_p50_ms", "FAIL"),
        ]
    assert (summary["conditions"]["sessions"], other["conditions"]["sessions"]) == (2, 1)
    assert summary["conditions"]["interrupted"] is False
    assert [level["requests"] for level in recompute(tmp_path / "r")] == [20, 20]


@pytest.mark.parametrize(
    "load",
    [
        ["--rate", "60", "--arrivals", "poisson", "--duration-s", "1"],
        ["--concurrency", "1..4", "--duration-s", "0.3", "--at-concurrency", "2"],
        ["--rate", "10..40", "--find-max", "--repeats", "1", "--objective", "e2e_p50_ms=5000"],
        [
            "--phase",
            "concurrency=2,requests=9",
            "--phase",
            "process=gamma,requests_per_s=50,burstiness=0.5,duration_s=1",
        ],
    ],
    ids=["rate", "sweep", "find-max", "phases"],
)
def test_a_killed_run_of_any_kind_resumes_to_the_end(tmp_path: Path, load: list[str]) -> None:
    """kill -9 in mid-level, then --resume alone: every planned level has its end, and the summary is whole."""
    with serving(FakeEndpoint(ttft_s=0.02)) as endpoint:
        command = arguments(endpoint, *load, "--requests-per-level", "20", "--format", "json", component="")
        if "--duration-s" in command:
            command = [word for word in command if word not in ("--requests-per-level", "20")]
        process = subprocess.Popen(
            [*command, "--out", "r"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for_lines(tmp_path / "r" / "requests.jsonl", 12)
        process.kill()
        process.wait()
        assert not (tmp_path / "r" / "summary.json").exists()
        done = bench_here(tmp_path, [*ENTRY, "--resume", "r", "--format", "json"])
    assert done.returncode in (0, 1, 4), done.stderr
    summary, plan = json.loads(done.stdout), json.loads((tmp_path / "r" / "plan.json").read_text())
    assert all(level["ended_utc"] for level in plan["levels"])
    assert len(summary["levels"]) == len(plan["levels"]) and not any(level["unfinished"] for level in summary["levels"])
    assert summary["search"] is None or summary["search"]["stop"] is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_reports_what_there_is(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C while requests hang and AWS does not answer either (both would take a minute): 130 long before that, a
    summary of the finished ones, the rest counted as unfinished."""
    stuck_from = 12  # one warm-up and eleven answered requests, then nothing
    with serving(FakeEndpoint(fault_of=lambda n: "stall" if n >= stuck_from else None)) as endpoint:
        command = arguments(endpoint, "--concurrency", "3", "--requests-per-level", "30", "--format", "json")
        process = subprocess.Popen(
            [*command, "--out", "r"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # nohup ignores SIGHUP, and children inherit that
        )
        wait_for_lines(tmp_path / "r" / "requests.jsonl", stuck_from)
        endpoint.describe_s = 60
        while len(endpoint.served) < stuck_from + 3:
            time.sleep(0.01)
        process.send_signal(number)
        stdout, _ = process.communicate(timeout=50)
    summary = json.loads(stdout)
    (level,) = summary["levels"]
    assert process.returncode == 130
    assert (level["requests"], level["unfinished"]) == (11, 3)
    assert summary["verdict"]["outcome"] != "PASS" and "interrupted" in summary["verdict"]["reasons"][0]
    assert (tmp_path / "r" / "report.html").exists()


@pytest.mark.parametrize(
    ("target", "found", "message"),
    [
        (["http://127.0.0.1:9", "--protocol", "openai"], "chat", "goes with an endpoint of SageMaker's only"),
        (["sagemaker://e", "--protocol", "tgi"], "x" * 65, "expected 1 to 64 printable ASCII characters"),
    ],
)
def test_a_prefix_aware_id_that_cannot_be_is_bad_usage(
    target: list[str], found: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said before anything is sent."""
    assert main.run(["bench", "--target", *target, "--prefix-aware-id", found]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
