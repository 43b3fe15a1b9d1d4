"""State machines and Processing jobs of the local cloud, asked as AWS's own are."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from emulator.controlplane.jobs.executor import Executor, StoppedError, Tasks, problems_of
from emulator.controlplane.jobs.paths import NotProvidedError, StateError, computed, filled, written

Aws = Callable[[str], Any]
CONTEXT = {"Execution": {"Name": "run-1"}}
ROLE = "arn:aws:iam::123456789012:role/machines"


class Scripted(Tasks):
    """Each resource's results in turn; an error is raised."""

    def __init__(self, **results: list[Any]) -> None:
        self.results = results
        self.asked: list[Any] = []

    def knows(self, resource: str) -> str | None:
        return None if resource in self.results else f"the local cloud does not provide the task {resource}"

    def run(self, resource: str, request: Any, until_s: float | None, stopped: threading.Event) -> Any:
        self.asked.append(request)
        result = self.results[resource].pop(0)
        if isinstance(result, Exception):
            raise result
        return result


def run(states: dict[str, Any], data: Any, tasks: Tasks | None = None, stopped: threading.Event | None = None) -> Any:
    executor = Executor(tasks or Scripted(), CONTEXT, lambda *told: None, stopped or threading.Event())
    return executor.run({"StartAt": next(iter(states)), "States": states}, data)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("$", {"a": {"b": [1, 2]}}),
        ("$.a.b[1]", 2),
        ("$$.Execution.Name", "run-1"),
        ("States.Format('runs/{}/{}', $$.Execution.Name, $.a.b[0])", "runs/run-1/1"),
        (r"States.Format('it\'s {}', 'so')", "it's so"),
        ("States.Array(1, 'two', States.Format('{}', 3))", [1, "two", "3"]),
        ("States.StringToJson('{\"x\": true}')", {"x": True}),
        ("States.JsonToString($.a)", '{"b": [1, 2]}'),
    ],
)
def test_paths_and_functions(expression: str, value: Any) -> None:
    """Values by hand, from the language's own definition."""
    assert computed(expression, {"a": {"b": [1, 2]}}, CONTEXT) == value


def test_templates_and_result_paths() -> None:
    """Keys that end in .$ are computed, at any depth; a result goes where its path says, or nowhere."""
    template = {"plain": "$.a", "deep": [{"name.$": "$.a"}]}
    assert filled(template, {"a": 5}, CONTEXT) == {"plain": "$.a", "deep": [{"name": 5}]}
    assert written("$.x.y", {"a": 1}, 2) == {"a": 1, "x": {"y": 2}}
    assert written(None, {"a": 1}, 2) == {"a": 1}
    assert written("$", {"a": 1}, 2) == 2


@pytest.mark.parametrize("expression", ["States.MathAdd(1, 2)", "$.a[?(@.b)]", "States.Format('{}'", "1 2"])
def test_what_is_not_provided_is_refused_by_name(expression: str) -> None:
    """Never computed to something else than AWS would."""
    with pytest.raises((NotProvidedError, StateError)):
        computed(expression, {"a": []}, CONTEXT)


def test_a_failure_goes_to_the_catcher_that_names_it_with_its_cause() -> None:
    """The input stays, the error lies where ResultPath says; the first catcher that matches wins."""
    task = {
        "Type": "Task",
        "Resource": "ask",
        "Catch": [
            {"ErrorEquals": ["Other"], "Next": "Wrong"},
            {"ErrorEquals": ["States.TaskFailed"], "ResultPath": "$.failure", "Next": "Told"},
        ],
        "Next": "Wrong",
    }
    states = {"Ask": task, "Told": {"Type": "Succeed"}, "Wrong": {"Type": "Fail", "Error": "Wrong"}}
    output = run(states, {"a": 1}, Scripted(ask=[StateError("S3.NoSuchKey", "gone")]))
    assert output == {"a": 1, "failure": {"Error": "S3.NoSuchKey", "Cause": "gone"}}
    with pytest.raises(StateError, match=r"States\.Timeout"):  # not among States.TaskFailed
        run(states, {}, Scripted(ask=[StateError("States.Timeout", "")]))


def test_a_failure_is_tried_again_as_often_as_the_retrier_says() -> None:
    """Two attempts more, then it is nobody's."""
    retry = {"ErrorEquals": ["Busy"], "MaxAttempts": 2, "IntervalSeconds": 0}
    states = {"Ask": {"Type": "Task", "Resource": "ask", "Retry": [retry], "End": True}}
    busy = StateError("Busy", "")
    assert run(states, {}, Scripted(ask=[busy, busy, "done"])) == "done"
    with pytest.raises(StateError, match="Busy"):
        run(states, {}, Scripted(ask=[busy, busy, busy, "done"]))


def test_choices_take_the_first_that_holds_else_the_default() -> None:
    """Equality asks for the type, too; a path that is not there is no error for IsPresent."""
    choose = {
        "Type": "Choice",
        "Choices": [
            {"Variable": "$.answer", "IsPresent": True, "Next": "Answer"},
            {"And": [{"Variable": "$.n", "NumericGreaterThan": 1}, {"Variable": "$.ok", "BooleanEquals": True}],
             "Next": "Many"},
        ],
        "Default": "None",
    }  # fmt: skip
    ends = {name: {"Type": "Pass", "Result": name, "End": True} for name in ("Answer", "Many", "None")}
    outputs = [
        run({"Choose": choose, **ends}, data) for data in ({"answer": 0}, {"n": 2, "ok": True}, {"n": 2, "ok": 1})
    ]
    assert outputs == ["Answer", "Many", "None"]


def test_a_map_runs_its_states_for_each_item() -> None:
    """In order of the items, each with its own number and value."""
    one = {"Type": "Pass", "Parameters": {"twice.$": "States.Array($.item, $.item)"}, "End": True}
    states = {
        "Each": {
            "Type": "Map",
            "ItemsPath": "$.items",
            "ItemSelector": {"item.$": "$$.Map.Item.Value"},
            "ItemProcessor": {"ProcessorConfig": {"Mode": "INLINE"}, "StartAt": "One", "States": {"One": one}},
            "End": True,
        }
    }
    assert run(states, {"items": [1, 2]}) == [{"twice": [1, 1]}, {"twice": [2, 2]}]


def test_a_stopped_execution_ends_at_once() -> None:
    """Also while it waits."""
    stopped = threading.Event()
    threading.Timer(0.05, stopped.set).start()
    began_s = time.monotonic()
    with pytest.raises(StoppedError):
        run({"Wait": {"Type": "Wait", "Seconds": 60, "End": True}}, {}, stopped=stopped)
    assert time.monotonic() - began_s < 10


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"A": {"Type": "Pass", "Next": "B"}}, "'B', which is no state"),
        ({"A": {"Type": "Pass"}}, "needs either Next or End"),
        ({"A": {"Type": "Parallel", "Branches": [], "End": True}}, "does not provide states of type Parallel"),
        ({"A": {"Type": "Pass", "Assign": {}, "End": True}}, "does not provide Assign of Pass"),
        ({"A": {"Type": "Task", "Resource": "other", "End": True}}, "does not provide the task other"),
    ],
)
def test_definitions_that_cannot_run_are_refused(states: dict[str, Any], said: str) -> None:
    """When they are created, as AWS does; what only this cloud lacks says so."""
    (problem,) = problems_of({"StartAt": "A", "States": states}, Scripted(ask=[]))
    assert said in problem


@pytest.fixture(scope="module")
def role(aws: Aws) -> str:
    trust = {"Statement": [{"Principal": {"Service": ["states.amazonaws.com", "sagemaker.amazonaws.com"]}}]}
    aws("iam").create_role(RoleName="machines", AssumeRolePolicyDocument=json.dumps(trust))
    return ROLE


def ended(aws: Aws, arn: str) -> dict[str, Any]:
    patience = time.monotonic() + 30
    while time.monotonic() < patience:
        found: dict[str, Any] = aws("stepfunctions").describe_execution(executionArn=arn)
        if found["status"] != "RUNNING":
            return found
        time.sleep(0.02)
    raise AssertionError("it goes on and on")


def test_executions_by_the_api(aws: Aws, role: str) -> None:
    """A service integration's answer comes back; a name is good for one input; an unknown machine is AWS's error."""
    machines = aws("stepfunctions")
    aws("s3").create_bucket(Bucket="machines")
    aws("s3").put_object(Bucket="machines", Key="word", Body=b'{"said": "hello"}')
    read = {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:s3:getObject",
        "Parameters": {"Bucket": "machines", "Key.$": "$.key"},
        "ResultSelector": {"word.$": "States.StringToJson($.Body)"},
        "End": True,
    }
    definition = json.dumps({"StartAt": "Read", "States": {"Read": read}})
    arn = machines.create_state_machine(name="reads", definition=definition, roleArn=role)["stateMachineArn"]
    begun = machines.start_execution(stateMachineArn=arn, name="one", input='{"key": "word"}')["executionArn"]
    assert json.loads(ended(aws, begun)["output"]) == {"word": {"said": "hello"}}
    with pytest.raises(ClientError, match="ExecutionAlreadyExists"):
        machines.start_execution(stateMachineArn=arn, name="one", input='{"key": "other"}')
    missing = machines.start_execution(stateMachineArn=arn, input='{"key": "other"}')["executionArn"]
    assert ended(aws, missing)["status"] == "FAILED"
    assert ended(aws, missing)["error"].startswith("S3.NoSuchKey")
    history = machines.get_execution_history(executionArn=begun)["events"]
    assert [event["type"] for event in history] == ["TaskStateEntered", "TaskStateExited"]
    with pytest.raises(ClientError, match="StateMachineDoesNotExist"):
        machines.start_execution(stateMachineArn=f"{arn}-not")
    with pytest.raises(ClientError, match="is authorized to assume the provided role: no such role"):
        machines.create_state_machine(name="other", definition=definition, roleArn=f"{role}-not")


def job(name: str, role: str, **changes: Any) -> dict[str, Any]:
    specification = {
        "ImageUri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/nowhere:1",
        "ContainerEntrypoint": ["python", "-m", "benchmarks.remote.host"],
        "ContainerArguments": ["s3://machines/runs/none"],
    } | changes
    cluster = {"InstanceCount": 1, "InstanceType": "ml.c7i.2xlarge", "VolumeSizeInGB": 30}
    return {
        "ProcessingJobName": name,
        "RoleArn": role,
        "AppSpecification": specification,
        "ProcessingResources": {"ClusterConfig": cluster},
    }


def over(aws: Aws, name: str) -> dict[str, Any]:
    patience = time.monotonic() + 60
    while time.monotonic() < patience:
        found: dict[str, Any] = aws("sagemaker").describe_processing_job(ProcessingJobName=name)
        if found["ProcessingJobStatus"] in ("Completed", "Failed", "Stopped"):
            return found
        time.sleep(0.05)
    raise AssertionError("it goes on and on")


def test_a_job_is_never_greener_than_its_image_its_role_and_its_program(aws: Aws, role: str) -> None:
    """No image in ECR: Failed. No role, another program: refused. A run that is not there: Failed with its reason."""
    sagemaker = aws("sagemaker")
    sagemaker.create_processing_job(**job("no-image", role))
    assert "Failed to pull image" in over(aws, "no-image")["FailureReason"]
    with pytest.raises(ClientError, match="no such role"):
        sagemaker.create_processing_job(**job("no-role", f"{role}-not"))
    with pytest.raises(ClientError, match=r"runs python -m benchmarks\.remote\.host only, found bash"):
        sagemaker.create_processing_job(**job("shell", role, ContainerEntrypoint=["bash"]))
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": []}
    aws("ecr").create_repository(repositoryName="somewhere")
    aws("ecr").put_image(repositoryName="somewhere", imageManifest=json.dumps(manifest), imageTag="1")
    here = "123456789012.dkr.ecr.us-east-1.amazonaws.com/somewhere:1"
    sagemaker.create_processing_job(**job("no-run", role, ImageUri=here))
    found = over(aws, "no-run")
    assert (found["ProcessingJobStatus"], found["FailureReason"]) == ("Failed", "AlgorithmError: , exit code: 3")
    assert "no remote.json under the run's prefix" in found["ExitMessage"]
    streams = aws("logs").describe_log_streams(logGroupName="/aws/sagemaker/ProcessingJobs")["logStreams"]
    assert any(stream["logStreamName"].startswith("no-run/algo-1-") for stream in streams)
