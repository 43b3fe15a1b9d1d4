"""Gates on a local cloud: the deployment waits for the benchmark, and a missed objective rolls it back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App
from stacks_cloud import Cloud, local_cloud
from stacks_support import ENVIRONMENT, FEATURE_FLAGS, profile

from loadproof.constructs.deployment import Deployment
from loadproof.profiles.schema import BenchmarkJob
from stacks.application import add_stacks

IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/loadproof-bench:1.0"
MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": []})
TOPIC = "arn:aws:sns:us-east-1:123456789012:alarms"
STACK = "loadproof-test-chat"
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:loadproof-test-benchmark"
SIZE = {"requests_per_level": 8, "requests_at_objectives": 8, "warmup_requests": 1}
SMALL = {"gate": "rollback", "concurrency": [2], **SIZE}
EASY = {"at_concurrency": 2, "e2e_p50_ms": 30000, "e2e_p95_ms": None, "error_rate_max": 0.5}
IMPOSSIBLE = EASY | {"e2e_p50_ms": 2}


def deployment(folder: Path, image: str = IMAGE, **changes: Any) -> Deployment:
    wanted = {"benchmark": SMALL, "objectives": EASY, "workload": {"input_tokens": 32, "output_tokens": 8}} | changes
    environment = ENVIRONMENT.model_copy(update={"benchmark": BenchmarkJob(image=image), "alarm_topic_arn": TOPIC})
    return Deployment("test", environment, profile(folder, wanted), file=folder / "chat.yaml")


def deploy(cloud: Cloud, wanted: Deployment) -> str:
    """The benchmark stack and the profile's, as the CDK CLI deploys them; the status of the profile's."""
    app = App(builtin_cloud_formation_validation=False, context=FEATURE_FLAGS)
    add_stacks(app, [wanted])
    assembly = app.synth()
    status = ""
    for stack in assembly.stacks:  # dependencies first
        cloud.upload(Path(assembly.directory), stack.stack_name)
        try:
            status = cloud.apply(stack.stack_name, stack.template)
        except Exception as error:
            if "No updates are to be performed" not in str(error):
                raise
    return status


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, patient_jobs: None) -> Iterator[Cloud]:
    """With the image in ECR, and queues that keep what the verdict's event and topic say."""
    with local_cloud(tmp_path_factory.mktemp("state"), "gate") as made:
        made.client("ecr").create_repository(repositoryName="loadproof-bench")
        made.client("ecr").put_image(repositoryName="loadproof-bench", imageManifest=MANIFEST, imageTag="1.0")
        made.client("sns").create_topic(Name="alarms")
        arns = {}
        for name in ("events", "alarms"):
            url = made.client("sqs").create_queue(QueueName=name)["QueueUrl"]
            found = made.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
            arns[name] = found["Attributes"]["QueueArn"]
        made.client("sns").subscribe(TopicArn=TOPIC, Protocol="sqs", Endpoint=arns["alarms"])
        pattern = {"source": ["loadproof"], "detail-type": ["Loadproof Benchmark Verdict"]}
        made.client("events").put_rule(Name="verdicts", EventPattern=json.dumps(pattern))
        made.client("events").put_targets(Rule="verdicts", Targets=[{"Id": "queue", "Arn": arns["events"]}])
        yield made


def received(cloud: Cloud, queue: str) -> list[dict[str, Any]]:
    """Everything in a queue, taken out."""
    sqs, bodies = cloud.client("sqs"), []
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
        for message in messages:
            bodies.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return bodies


def executions(cloud: Cloud) -> list[dict[str, Any]]:
    """Of the benchmark's state machine, newest first, all at their end."""
    machines, patience = cloud.client("stepfunctions"), time.monotonic() + 180
    while time.monotonic() < patience:
        found: list[dict[str, Any]] = machines.list_executions(stateMachineArn=MACHINE)["executions"]
        if all(one["status"] != "RUNNING" for one in found):
            return found
        time.sleep(0.1)
    raise AssertionError("a benchmark goes on and on")


def image(cloud: Cloud) -> str:
    component = cloud.client("sagemaker").describe_inference_component(InferenceComponentName=f"{STACK}-main")
    found: str = component["Specification"]["Container"]["DeployedImage"]["SpecifiedImage"]
    return found


def test_gate_lets_pass_what_meets_its_objectives_and_turns_back_what_does_not(cloud: Cloud, tmp_path: Path) -> None:
    """PASS deploys and tells nobody's topic; the same again runs nothing; FAIL brings the old image back, and the way
    back runs no benchmark; gate alarm leaves the deployment alone and tells event and topic."""
    assert deploy(cloud, deployment(tmp_path)) == "CREATE_COMPLETE", cloud.reasons(STACK)
    (stack,) = cloud.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    assert "BenchmarkInput" in {output["OutputKey"] for output in stack["Outputs"]}
    (verdict,) = received(cloud, "events")
    detail = verdict["detail"]
    assert (detail["outcome"], detail["profile"], detail["environment"]) == ("PASS", "chat", "test")
    assert received(cloud, "alarms") == []
    bucket, _, run = detail["report"].removeprefix("s3://").removesuffix("/report.html").partition("/")
    summary = json.loads(cloud.client("s3").get_object(Bucket=bucket, Key=f"{run}/summary.json")["Body"].read())
    assert summary["profile"]["sha256"] == detail["profile_sha256"]
    assert summary["conditions"]["backend"] == "twin"  # so that its latencies are called simulated
    assert summary["levels"][0]["requests"] == 8

    assert deploy(cloud, deployment(tmp_path)) == ""
    assert len(executions(cloud)) == 1

    before = image(cloud)
    worse = {"container": {"version": "3.3.4"}, "objectives": IMPOSSIBLE}
    assert deploy(cloud, deployment(tmp_path, **worse)) == "UPDATE_ROLLBACK_COMPLETE"
    reason = next(reason for reason in cloud.reasons(STACK) if reason.startswith("Gate"))
    assert "Benchmark FAIL of chat in test: e2e_p50_ms: observed" in reason
    assert "bound <= 2" in reason and "report.html" in reason
    assert image(cloud) == before and "3.3.6" in before
    assert len(executions(cloud)) == 2
    (told,) = received(cloud, "alarms")
    assert told["Subject"] == "Benchmark FAIL: chat"
    assert [event["detail"]["outcome"] for event in received(cloud, "events")] == ["FAIL"]

    alarming = worse | {"benchmark": SMALL | {"gate": "alarm", "hosts": 2}}
    assert deploy(cloud, deployment(tmp_path, **alarming)) == "UPDATE_COMPLETE"
    assert len(executions(cloud)) == 3 and "3.3.4" in image(cloud)
    assert [told["Subject"] for told in received(cloud, "alarms")] == ["Benchmark FAIL: chat"]
    (verdict,) = received(cloud, "events")
    assert verdict["detail"]["outcome"] == "FAIL"
    bucket, _, key = verdict["detail"]["report"].removeprefix("s3://").partition("/")
    summary = cloud.client("s3").get_object(Bucket=bucket, Key=key.replace("report.html", "summary.json"))
    hosts = json.loads(summary["Body"].read())["conditions"]["hosts"]
    assert hosts == {f"algo-{number}": "sent its 4 requests, a share of 0.5" for number in (1, 2)}
    jobs = cloud.client("sagemaker").list_processing_jobs()["ProcessingJobSummaries"]
    assert [job["ProcessingJobStatus"] for job in jobs] == ["Completed"] * 3  # a FAIL is a verdict, no broken job
    assert {one["status"] for one in executions(cloud)} == {"SUCCEEDED"}  # a missed objective is no broken machine
    assert cloud.destroy(STACK) == "DELETE_COMPLETE"


def test_what_proves_nothing_stops_a_deployment_unless_the_profile_says_otherwise(cloud: Cloud, tmp_path: Path) -> None:
    """An image that is not there makes no benchmark: INVALID, told with the job's reason, refused by default."""
    gone = IMAGE.replace(":1.0", ":2.0")
    assert deploy(cloud, deployment(tmp_path, image=gone)) == "ROLLBACK_COMPLETE"
    reason = next(reason for reason in cloud.reasons(STACK) if reason.startswith("Gate"))
    assert (
        "Benchmark INVALID of chat in test: the benchmark did not finish: ClientError: Failed to pull image" in reason
    )
    assert cloud.client("sagemaker").list_endpoints()["Endpoints"] == []
    cloud.destroy(STACK)
    received(cloud, "alarms")
    lenient = {"benchmark": SMALL | {"gate_unproven": "alarm"}}
    assert deploy(cloud, deployment(tmp_path, image=gone, **lenient)) == "CREATE_COMPLETE"
    executions(cloud)
    assert [told["Subject"] for told in received(cloud, "alarms")] == ["Benchmark INVALID: chat"]
    assert cloud.destroy(STACK) == "DELETE_COMPLETE"
