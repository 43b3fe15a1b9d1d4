"""What is asked of AWS for a run elsewhere: by the services' own models, and refused in words where it cannot be."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
from test_bench_regression import run_of

from loadproof.bench.connect import parse_target
from loadproof.bench.imports.run import ImportRequest, import_run
from loadproof.bench.judge.verdict import Verdict
from loadproof.bench.objectives import Objective
from loadproof.bench.plan import read_plan, write_plan
from loadproof.bench.remote.aiperf import managed_levels, run_managed
from loadproof.bench.remote.launchers import JobSettings, ProcessingJob, host_names, processing_job_request
from loadproof.bench.remote.settings import Hosts, read_hosts
from loadproof.bench.spec import BenchmarkSpec, TokenCounts, WorkloadSpec, fixed_tokens
from loadproof.cli.main import run as loadproof
from loadproof.errors import CouldNotRunError, InputError
from loadproof.loads import Load

ROLE = "arn:aws:iam::123456789012:role/benchmark"
TARGET = parse_target("sagemaker://chat/chat-main", "openai", streaming=True)
SPEC = BenchmarkSpec(TARGET, WorkloadSpec(TokenCounts("normal", 550.0, 150.0), fixed_tokens(64)), (4, 8), 100)


def assert_accepted(operation: str, request: dict[str, Any]) -> None:
    """The service's model, as botocore has it, takes the request."""
    model = botocore.session.get_session().get_service_model("sagemaker").operation_model(operation)
    report = ParamValidator().validate(request, model.input_shape)
    assert not report.has_errors(), report.generate_report()


def managed(spec: BenchmarkSpec = SPEC) -> list[Any]:
    return managed_levels(spec, name="20261121-chat", results="s3://bucket/runs", role_arn=ROLE)


def test_a_managed_job_is_asked_for_what_the_spec_says() -> None:
    """One workload and one job a level; AIPerf's parameters in the configuration's inline text."""
    first, second = managed()
    for level in (first, second):
        assert_accepted("CreateAIWorkloadConfig", level.workload_config)
        assert_accepted("CreateAIBenchmarkJob", level.benchmark_job)
        assert level.benchmark_job["AIWorkloadConfigIdentifier"] == level.workload_config["AIWorkloadConfigName"]
    assert json.loads(first.workload_config["AIWorkloadConfigs"]["WorkloadSpec"]["Inline"]) == {
        "benchmark": {"type": "aiperf"},
        "parameters": {
            "prompt_input_tokens_mean": 550.0,
            "prompt_input_tokens_stddev": 150.0,
            "output_tokens_mean": 64.0,
            "concurrency": 4,
            "request_count": 100,
            "warmup_request_count": 4,
            "random_seed": 0,
            "streaming": True,
            "extra_inputs": "ignore_eos:true temperature:0",
        },
        "tooling": {"api_standard": "openai"},
    }
    endpoint = {"Identifier": "chat", "InferenceComponents": [{"Identifier": "chat-main"}]}
    assert second.benchmark_job["BenchmarkTarget"] == {"Endpoint": endpoint}


def test_an_open_loop_asks_for_its_rate() -> None:
    """Rate, arrivals and duration, and no concurrency."""
    (level,) = managed(replace(SPEC, loads=(Load("poisson", requests_per_s=2.5, duration_s=60),)))
    parameters = json.loads(level.workload_config["AIWorkloadConfigs"]["WorkloadSpec"]["Inline"])["parameters"]
    assert (parameters["request_rate"], parameters["arrival_pattern"], parameters["benchmark_duration"]) == (
        2.5,
        "poisson",
        60,
    )
    assert "concurrency" not in parameters


def test_another_workload_has_another_name() -> None:
    """A configuration cannot be changed, so its name holds what it says; names fit the service's 63 characters."""
    longer = replace(SPEC, workload=replace(SPEC.workload, output_tokens=fixed_tokens(65)))
    names = {one[0].workload_config["AIWorkloadConfigName"] for one in (managed(), managed(longer))}
    assert len(names) == 2
    long = managed_levels(SPEC, name="x_" * 60, results="s3://bucket", role_arn=ROLE)[0]
    assert_accepted("CreateAIWorkloadConfig", long.workload_config)
    assert_accepted("CreateAIBenchmarkJob", long.benchmark_job)


def test_what_the_managed_job_cannot_send_is_refused_together() -> None:
    """Every reason in one message."""
    spec = replace(SPEC, target=replace(TARGET, protocol="tgi"), workload=replace(SPEC.workload, turns=3))
    with pytest.raises(InputError, match=r"protocol tgi .*, conversations; leave it out"):
        managed(spec)


class Service:
    """SageMaker's jobs and S3 as far as they are asked: a job has ended at the second look."""

    def __init__(self, ends: str = "Completed", files: dict[str, bytes] | None = None) -> None:
        self.ends, self.files = ends, files or {}
        self.asked: list[str] = []

    def __getattr__(self, operation: str) -> Any:
        def answer(**request: Any) -> dict[str, Any]:
            self.asked.append(operation)
            return self.answer(operation, request)

        return answer

    def answer(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        second = self.asked.count(operation) % 2 == 0
        match operation:
            case "describe_ai_benchmark_job":
                status = {
                    "AIBenchmarkJobStatus": self.ends if second else "InProgress",
                    "FailureReason": "no tokenizer",
                }
                return status | {"OutputConfig": {"S3OutputLocation": "s3://bucket/runs/one/"}}
            case "describe_processing_job":
                return {"ProcessingJobStatus": self.ends if second else "InProgress", "FailureReason": "out of memory"}
            case "list_objects_v2":
                return {
                    "Contents": [
                        {"Key": key, "Size": len(self.files[key])}
                        for key in sorted(self.files)
                        if key > request["StartAfter"]
                    ]
                }
            case "get_object":
                return {"Body": io.BytesIO(self.files[request["Key"]])}
        return {}


def test_a_managed_job_is_followed_and_its_files_fetched(tmp_path: Path) -> None:
    """Created, looked at until it is over, its exports brought home under flat names."""
    service = Service(files={"runs/one/job/output/profile_export_aiperf.json": b"{}", "runs/one/log.txt": b"ok"})
    said: list[str] = []
    (folder,) = run_managed(managed()[:1], tmp_path, service, service, said.append, sleep=lambda s: None)
    assert {path.name for path in folder.iterdir()} == {"job--output--profile_export_aiperf.json", "log.txt"}
    assert said == ["20261121-chat-1-job (4 in flight): InProgress", "20261121-chat-1-job (4 in flight): Completed"]
    assert service.asked[:2] == ["create_ai_workload_config", "create_ai_benchmark_job"]


def test_what_a_managed_job_left_is_judged_by_the_specs_objectives(tmp_path: Path) -> None:
    """AIPerf's figures of 64 requests at 8 in flight, two more failed: the p90 bounds the median from above."""
    exported = (Path(__file__).parent / "imports" / "aiperf_0_13.json").read_bytes()
    service = Service(files={"runs/one/job/profile_export_aiperf.json": exported})
    spec = replace(SPEC, concurrency=(8,), objectives=(Objective("ttft_p50_ms", 55.0),), max_error_rate=0.05)
    folders = run_managed(managed(spec), tmp_path / "aiperf", service, service, lambda said: None, sleep=lambda s: None)
    result = import_run(ImportRequest(tuple(folders), tmp_path, "20261121-chat", 1_763_712_000_000_000_000, spec=spec))
    why = "all objectives hold, as far as the imported figures bound them"
    assert result.summary.verdict == Verdict("PASS", 8, "8 in flight", 0, (why,))
    assert result.exit_code == 0
    assert result.summary.target.endpoint == "chat"
    assert result.summary.created_utc.startswith("2025-11-21")


def test_a_managed_job_that_fails_says_why(tmp_path: Path) -> None:
    """In the service's own words."""
    with pytest.raises(CouldNotRunError, match="is Failed: no tokenizer"):
        run_managed(managed(), tmp_path, Service("Failed"), Service(), lambda said: None, sleep=lambda s: None)


def test_a_processing_job_is_followed_and_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at now and then; one that nobody follows any more is stopped."""
    monkeypatch.setattr("loadproof.bench.remote.launchers.STATUS_INTERVAL_S", 0.0)
    settings = JobSettings("loadproof-chat", ROLE, "repo/loadproof:1", "ml.c7i.2xlarge")
    service = Service("Failed")
    job = ProcessingJob(settings, host_names(2), service)
    job.start("s3://bucket/runs/x")
    assert job.ended() is None
    assert job.ended() == "the processing job loadproof-chat is Failed: out of memory"
    job.close(done=False)
    assert "stop_processing_job" not in service.asked
    left = Service()
    ProcessingJob(settings, host_names(2), left).close(done=False)
    assert left.asked == ["describe_processing_job", "stop_processing_job"]
    done = Service()
    ProcessingJob(settings, host_names(2), done).close(done=True)
    assert done.asked == []


def test_hosts_are_those_of_the_jobs_own_list(tmp_path: Path) -> None:
    """SageMaker's file; algo-2 comes before algo-10, and the first leads."""
    file = tmp_path / "resourceconfig.json"
    file.write_text(
        json.dumps(
            {"current_host": "algo-2", "hosts": ["algo-10", "algo-1", "algo-2"], "network_interface_name": "eth0"}
        )
    )
    hosts = read_hosts(file)
    assert hosts == Hosts("algo-2", ("algo-1", "algo-2", "algo-10"))
    assert (hosts.number, hosts.leads) == (1, False)
    file.write_text(json.dumps({"current_host": "algo-9", "hosts": ["algo-1"]}))
    with pytest.raises(InputError, match="'algo-9' is none of hosts algo-1"):
        read_hosts(file)


def test_a_processing_job_runs_the_host_program_on_every_instance() -> None:
    """Accepted by the service's model, with a network and without."""
    settings = JobSettings(
        "loadproof-chat", ROLE, "123456789012.dkr.ecr.us-east-1.amazonaws.com/loadproof:1", "ml.c7i.2xlarge"
    )
    request = processing_job_request(settings, 3, "s3://bucket/runs/x", "us-east-1")
    assert_accepted("CreateProcessingJob", request)
    assert request["AppSpecification"]["ContainerEntrypoint"] == ["python", "-m", "benchmarks.remote.host"]
    assert request["AppSpecification"]["ContainerArguments"] == ["s3://bucket/runs/x"]
    assert request["ProcessingResources"]["ClusterConfig"]["InstanceCount"] == 3
    inside = processing_job_request(
        replace(settings, subnets=("subnet-1",), security_groups=("sg-1",)), 1, "s3://b-b/x", None
    )
    assert_accepted("CreateProcessingJob", inside)
    with pytest.raises(InputError, match="go together"):
        processing_job_request(replace(settings, subnets=("subnet-1",)), 1, "s3://bucket/x", None)


def test_options_that_are_missing_are_named_together(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is asked of anybody."""
    assert loadproof(["bench", "--target", "sagemaker://e/c", "--protocol", "tgi", "--remote", "--hosts", "3"]) == 2
    assert "--results s3://BUCKET/PREFIX, --job-role ARN, --job-image URI" in capsys.readouterr().err
    assert loadproof(["bench", "--target", "sagemaker://e/c", "--protocol", "tgi", "--hosts", "2"]) == 2
    assert "needs --results" in capsys.readouterr().err
    assert loadproof(["bench", "--resume", "runs/x", "--hosts", "2", "--results", "s3://bucket"]) == 2
    assert loadproof(["bench", "--target", "sagemaker://e/c", "--protocol", "tgi", "--dry-run"]) == 2


def test_a_dry_run_prints_the_requests(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON on stdout for either engine; nothing is asked of AWS."""
    common = [
        "bench",
        "--target",
        "sagemaker://chat/chat-main",
        "--protocol",
        "openai",
        "--dry-run",
        "--results",
        "s3://bucket/x",
        "--job-role",
        ROLE,
    ]
    assert loadproof([*common, "--engine", "aiperf", "--concurrency", "2,4"]) == 0
    assert [row["level"] for row in json.loads(capsys.readouterr().out)] == ["2 in flight", "4 in flight"]
    assert loadproof([*common, "--remote", "--hosts", "5", "--job-image", "repo/loadproof:1"]) == 0
    request = json.loads(capsys.readouterr().out)["CreateProcessingJob"]
    assert request["ProcessingResources"]["ClusterConfig"]["InstanceCount"] == 5
    assert_accepted("CreateProcessingJob", request)


def test_resuming_a_run_of_several_hosts_says_who_sends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two hosts sent it; this machine goes on alone, and says so before it does."""
    folder = run_of(tmp_path / "run", [100.0] * 80)
    plan = read_plan(folder)
    hosts = {"algo-1": "sent 40 requests", "algo-2": "sent 40 requests"}
    write_plan(folder, replace(plan, conditions=plan.conditions | {"hosts": hosts}))
    assert loadproof(["bench", "--resume", str(folder)]) == 0
    assert capsys.readouterr().err.startswith(
        "2 hosts sent this run; what is missing of it goes out from this machine alone"
    )


def test_a_dry_run_of_a_profile_asks_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even what is deployed: nobody listens where AWS would be."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    profile = Path(__file__).parents[2] / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"
    job = ["--remote", "--dry-run", "--results", "s3://bucket/x", "--job-role", ROLE, "--job-image", "repo/loadproof:1"]
    assert loadproof(["bench", str(profile), *job]) == 0, capsys.readouterr()
    assert_accepted("CreateProcessingJob", json.loads(capsys.readouterr().out)["CreateProcessingJob"])
