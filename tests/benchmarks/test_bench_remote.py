"""Several hosts share one run over S3: what is sent is one schedule, and no host is silently absent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from bench_fakes import FakeEndpoint, serving
from moto.server import ThreadedMotoServer

from benchmarks.connect import parse_target
from benchmarks.records import read_records
from benchmarks.remote.job import RemoteRun, drive, upload
from benchmarks.remote.launchers import LocalHosts, host_names
from benchmarks.remote.settings import Patience
from benchmarks.remote.store import S3Store, s3_client
from benchmarks.spec import BenchmarkSpec, WorkloadSpec, fixed_tokens
from benchmarks.sweep import Progress
from loadproof.loads import Load

BUCKET = "results"
QUICK = Patience(poll_s=0.1, lost_s=6.0, start_s=60.0)
pytestmark = pytest.mark.xdist_group("remote")


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    """S3 on loopback, as the local cloud has it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def cloud(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "remote",
        "AWS_SECRET_ACCESS_KEY": "remote",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": s3_url,
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    yield s3_url
    for row in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        client.delete_object(Bucket=BUCKET, Key=row["Key"])
    client.delete_bucket(Bucket=BUCKET)


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


def quiet(progress: Progress) -> None:
    """No display."""


def uri(run: RemoteRun) -> str:
    assert isinstance(run.store, S3Store)
    return run.store.uri


def test_three_hosts_send_one_schedule(tmp_path: Path, cloud: str) -> None:
    """Every planned request of two levels is sent once, by the host whose turn it is, and one summary judges them."""
    with serving(FakeEndpoint()) as endpoint:
        run = uploaded(
            spec_for(endpoint, Load(concurrency=3, requests=12), Load("constant", requests_per_s=40, requests=20)),
            tmp_path / "run",
        )
        shown: list[Progress] = []
        result = drive(run, LocalHosts(host_names(3)), uri(run), QUICK, shown.append)
    records = read_records(result.folder / "requests.jsonl").records
    measured = [record for record in records if record.phase == "measured"]
    assert Counter((record.level, record.index) for record in measured) == Counter(
        [(0, index) for index in range(12)] + [(1, index) for index in range(20)]
    )
    assert Counter(record.outcome for record in measured) == {"ok": 32}
    assert len({served.prompt for served in endpoint.served}) == len(endpoint.served) == 32 + 2 * 3
    due = sorted((record.index, record.intended_ns) for record in measured if record.level == 1)
    steps_ms = {round((after[1] - before[1]) / 1e6) for before, after in zip(due, due[1:], strict=False)}
    assert steps_ms == {25}, "40 a second, whoever sends them"
    accounts = result.summary["conditions"]["hosts"]
    assert [(row["host"], row["requests"], row["missing"], row["lost"]) for row in accounts] == [
        ("algo-1", 11, 0, None), ("algo-2", 11, 0, None), ("algo-3", 10, 0, None),
    ]  # fmt: skip
    assert [level["requests"] for level in result.summary["levels"]] == [12, 20]
    assert shown and shown[-1].level == 1
    kept = json.loads(
        boto3.client("s3").get_object(Bucket=BUCKET, Key=f"runs/{run.plan.run_id}/summary.json")["Body"].read()
    )
    assert kept["levels"] == json.loads((result.folder / "summary.json").read_text())["levels"]
