"""Several hosts share one run over S3: what is sent is one schedule, and no host is silently absent."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import boto3
import psutil
import pytest
from bench_fakes import FakeEndpoint, serving
from moto_server import moto_server

from loadproof.bench.connect import parse_target
from loadproof.bench.document import as_json
from loadproof.bench.judge import verdict
from loadproof.bench.live.lines import Line, Progress
from loadproof.bench.measure.records import MISSING, read_records
from loadproof.bench.remote.job import RemoteRun, drive, upload
from loadproof.bench.remote.launchers import LocalHosts, host_names
from loadproof.bench.remote.settings import Terms
from loadproof.bench.s3_store import S3Store, s3_client
from loadproof.bench.spec import BenchmarkSpec, Search, WorkloadSpec, fixed_tokens
from loadproof.cli.main import run as loadproof
from loadproof.errors import ExitCode
from loadproof.loads import Load

BUCKET = "results"
QUICK = Terms(poll_s=0.3, lost_s=5.0, start_s=60.0, observe=False)
# Tests share their machine: being late is no matter here.
PATIENT_HOST = (
    sys.executable,
    "-c",
    "import sys; from loadproof.bench.judge import verdict; verdict.OFFERED_AT_LEAST = 0; "
    "from loadproof.bench.remote.host import main; sys.exit(main())",
)


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    """S3 on loopback, as the local cloud has it."""
    with moto_server() as url:
        yield url


@pytest.fixture
def cloud(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "remote",
        "AWS_SECRET_ACCESS_KEY": "remote",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": s3_url,
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    return s3_url


def spec_for(endpoint: FakeEndpoint, *loads: Load) -> BenchmarkSpec:
    return BenchmarkSpec(
        target=parse_target("sagemaker://demo/demo-main", "tgi", streaming=True, endpoint_url=endpoint.url),
        workload=WorkloadSpec(fixed_tokens(16), fixed_tokens(6)),
        concurrency=(1,),
        requests_per_level=6,
        warmup_requests=3,
        loads=loads,
    )


def uploaded(spec: BenchmarkSpec, folder: Path) -> RemoteRun:
    def store(run_id: str) -> S3Store:
        return S3Store(f"s3://{BUCKET}/runs/{run_id}", s3_client())

    return upload(spec, store, folder, QUICK, "demo")


def quiet(line: Line) -> None:
    """No display."""


def uri(run: RemoteRun) -> str:
    assert isinstance(run.store, S3Store)
    return run.store.uri


def test_hosts_send_one_schedule(tmp_path: Path, cloud: str) -> None:
    """Every planned request of two levels is sent once, by the host whose turn it is, and one summary judges them."""
    with serving(FakeEndpoint()) as endpoint:
        run = uploaded(
            spec_for(endpoint, Load(concurrency=3, requests=12), Load("constant", requests_per_s=40, requests=20)),
            tmp_path / "run",
        )
        shown: list[Line] = []
        result = drive(run, LocalHosts(host_names(2), PATIENT_HOST), uri(run), QUICK, shown.append)
    records = read_records(result.folder / "requests.jsonl").records
    measured = [record for record in records if record.phase == "measured"]
    assert Counter((record.level, record.index) for record in measured) == Counter(
        [(0, index) for index in range(12)] + [(1, index) for index in range(20)]
    )
    assert Counter(record.outcome for record in measured) == {"ok": 32}
    assert len({served.prompt for served in endpoint.served}) == len(endpoint.served) == 32 + 2 * 3
    due = sorted((record.index, record.intended_ns) for record in measured if record.level == 1)
    steps_ms = {round((after[1] - before[1]) / 1e6) for before, after in itertools.pairwise(due)}
    assert steps_ms == {25}, "40 a second, whoever sends them"
    assert result.summary.conditions.hosts == {
        "algo-1": "sent its 18 requests, a share of 0.5",  # two of three slots with 8 requests, and 10 due times
        "algo-2": "sent its 14 requests, a share of 0.5",
    }
    assert [level.requests for level in result.summary.levels] == [12, 20]
    assert [line.level for line in shown if isinstance(line, Progress)][-1] == 1
    kept = json.loads(
        boto3.client("s3").get_object(Bucket=BUCKET, Key=f"runs/{run.plan.run_id}/summary.json")["Body"].read()
    )
    figures, ours = (
        [[level[name] for name in ("requests", "ttft_ms", "e2e_ms")] for level in levels]
        for levels in (kept["levels"], map(as_json, result.summary.levels))
    )
    assert figures == ours


def kill(launcher: LocalHosts, host: str) -> None:
    """The whole machine at once: the host's program and its worker processes."""
    for process in [*psutil.Process(launcher.processes[host].pid).children(recursive=True), launcher.processes[host]]:
        os.kill(process.pid, signal.SIGKILL)


class KillsMidway:
    """A display that kills a host once so many requests of the load have ended."""

    def __init__(self, launcher: LocalHosts, host: str, after: int) -> None:
        self._launcher, self._host, self._after = launcher, host, after
        self.done = False

    def __call__(self, line: Line) -> None:
        if self.done or not isinstance(line, Progress):
            return
        if line.phase == "measured" and line.done >= self._after:
            self.done = True
            kill(self._launcher, self._host)


def test_a_host_killed_midway_is_missing_by_name_and_number(tmp_path: Path, cloud: str) -> None:
    """kill -9 of one of two: its unsent share is missing, the other's is whole, and the verdict cannot be PASS."""
    launcher = LocalHosts(host_names(2))
    with serving(FakeEndpoint(itl_s=0.02)) as endpoint:
        run = uploaded(spec_for(endpoint, Load("constant", requests_per_s=20, requests=80)), tmp_path / "run")
        killer = KillsMidway(launcher, "algo-2", after=5)
        result = drive(run, launcher, uri(run), QUICK, killer)
    assert killer.done
    records = read_records(result.folder / "requests.jsonl").records
    outcomes = Counter((record.index % 2, record.outcome) for record in records if record.phase == "measured")
    assert outcomes[0, "ok"] == 40
    assert outcomes[1, "ok"] + outcomes[1, MISSING] == 40
    assert outcomes[1, MISSING] > 0
    assert result.summary.conditions.hosts == {
        "algo-1": "sent its 40 requests, a share of 0.5",
        "algo-2": f"{outcomes[1, MISSING]} of 40 requests missing, its share being 0.5: it was not heard of for 5 s",
    }
    assert result.summary.verdict.outcome == "INVALID"
    assert result.exit_code == ExitCode.COULD_NOT_RUN
    why = {record.error_message for record in records if record.outcome == MISSING}
    assert why == {"host algo-2 of 2 was not heard of for 5 s"}


def test_a_lost_leader_leaves_results_to_be_merged(tmp_path: Path, cloud: str) -> None:
    """What both hosts had written by then is judged by whoever follows; the rest of the level is missing."""
    launcher = LocalHosts(host_names(2))
    with serving(FakeEndpoint(itl_s=0.02)) as endpoint:
        run = uploaded(spec_for(endpoint, Load("constant", requests_per_s=20, requests=80)), tmp_path / "run")
        result = drive(run, launcher, uri(run), QUICK, KillsMidway(launcher, "algo-1", after=5))
    records = [one for one in read_records(result.folder / "requests.jsonl").records if one.phase == "measured"]
    assert sorted(record.index for record in records) == [*range(80)]
    assert Counter(record.outcome for record in records).keys() == {"ok", MISSING}
    assert result.summary.verdict.outcome == "INVALID"
    hosts = result.summary.conditions.hosts.values()
    assert all("the leader, algo-1, ended with exit code -9" in words for words in hosts)
    assert not psutil.pid_exists(launcher.processes["algo-2"].pid)


def test_ctrl_c_stops_all_hosts_and_judges_what_there_is(tmp_path: Path, cloud: str) -> None:
    """The follower's Ctrl-C reaches every host through the store."""
    launcher = LocalHosts(host_names(2))

    def interrupt(line: Line) -> None:
        if isinstance(line, Progress) and line.phase == "measured" and line.done >= 5 and not interrupted:
            interrupted.append(time.monotonic())
            raise KeyboardInterrupt

    interrupted: list[float] = []
    with serving(FakeEndpoint(itl_s=0.02)) as endpoint:
        run = uploaded(spec_for(endpoint, Load("constant", requests_per_s=10, requests=600)), tmp_path / "run")
        result = drive(run, launcher, uri(run), QUICK, interrupt)
    assert result.exit_code == ExitCode.INTERRUPTED
    assert result.summary.conditions.interrupted is True
    assert 5 <= result.summary.levels[0].requests < 600
    assert time.monotonic() - interrupted[0] < 30, "60 s of load were left"


def test_a_search_over_hosts_finds_what_one_host_would(
    tmp_path: Path, cloud: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its levels follow from the records of all hosts together."""
    monkeypatch.setattr(
        verdict, "OFFERED_AT_LEAST", 0.0
    )  # the summary is made here, as patiently as the hosts measured
    with serving(FakeEndpoint(ttft_s=0.1, itl_s=0)) as endpoint:  # as fast for one as for many
        search = Search("sweep", Load(concurrency=1, requests=4), 1, 2)
        run = uploaded(replace(spec_for(endpoint), search=search), tmp_path / "run")
        result = drive(run, LocalHosts(host_names(2), PATIENT_HOST), uri(run), QUICK, quiet)
    assert [(level.concurrency, level.requests) for level in result.summary.levels] == [(1, 4), (2, 4)]
    assert result.summary.search.stop.rule == "limit"


def test_files_that_the_plan_names_travel_with_it(
    tmp_path: Path, cloud: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """On the command line: a trace of this machine is read on every host, under a name of the run's own."""
    monkeypatch.chdir(tmp_path)
    trace = tmp_path / "monday.csv"
    trace.write_text("timestamp_s,input_tokens,output_tokens\n" + "".join(f"{n * 0.05},16,6\n" for n in range(10)))
    with serving(FakeEndpoint(protocol="openai")) as endpoint:
        arguments = ["--target", endpoint.url, "--protocol", "openai", "--trace", str(trace)]
        code = loadproof(["bench", *arguments, "--hosts", "2", "--results", f"s3://{BUCKET}/by-hand"])
    said = capfd.readouterr()
    (folder,) = (tmp_path / "runs").iterdir()
    (level,) = json.loads((folder / "summary.json").read_text())["levels"]
    assert (level["requests"], level["errors"]) == (10, 0), said
    assert level["planned"]["trace"] == "files/0-monday.csv"
    assert code in (ExitCode.NOT_JUDGED, ExitCode.COULD_NOT_RUN), "unless this machine was too busy to measure"
    assert "algo-2: sent its 5 requests, a share of 0.5" in said.err
    keys = [row["Key"] for row in boto3.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="by-hand/")["Contents"]]
    assert f"by-hand/runs/{folder.name}/summary.json" in keys
    assert not (folder / "remote.json").exists()
