"""State machines and Processing jobs of the local cloud, asked as AWS's own are."""

from __future__ import annotations

import io
import json
import threading
import time
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cloud_clients import boto3_client

from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.jobs.definitions import problems_of
from loadproof.localcloud.controlplane.jobs.machines import MachineApi
from loadproof.localcloud.controlplane.jobs.tasks import error_prefix, is_provided
from loadproof.localcloud.local import LocalCloud
from loadproof.localcloud.wire import AwsError, Caller

Aws = Callable[[str], Any]
HOME = Caller(account="123456789012", region="us-east-1", access_key="")
ROLE = "arn:aws:iam::123456789012:role/machines"
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:f"


def invoked(value: Any) -> dict[str, Any]:
    return {"Payload": io.BytesIO(json.dumps(value).encode()), "StatusCode": 200}


def failed(error: str) -> dict[str, Any]:
    return invoked({"errorType": error, "errorMessage": "so"}) | {"FunctionError": "Unhandled"}


class Functions:
    """In the place of the cloud's clients: every function answers this in turn, after `seconds`."""

    def __init__(self, *answers: Any, seconds: float = 0) -> None:
        self.answers, self.seconds = list(answers), seconds

    def client(self, service: str, caller: Caller) -> Functions:
        return self

    def invoke(self, **request: Any) -> Any:
        time.sleep(self.seconds)
        return self.answers.pop(0)


class Jobs:
    """In the place of the cloud's clients: a job that is in this status."""

    def __init__(self, status: str) -> None:
        self.status = status
        self.asked: list[str] = []

    def client(self, service: str, caller: Caller) -> Jobs:
        return self

    def create_processing_job(self, **request: Any) -> Any:
        self.asked.append("create")
        return {"ProcessingJobArn": "arn"}

    def describe_processing_job(self, **request: Any) -> Any:
        return {**request, "ProcessingJobStatus": self.status, "CreationTime": datetime(2026, 1, 2, tzinfo=UTC)}

    def stop_processing_job(self, **request: Any) -> None:
        self.asked.append("stop")


class Machines:
    """Step Functions' API without a server, its clock `speed` times the wall's."""

    def __init__(self, speed: float = 1, *, functions: Any = None) -> None:
        self.clock = CloudClock(speed)
        self.api = MachineApi(functions, lambda *role: None, self.clock)

    def create(self, states: dict[str, Any], **top: Any) -> str:
        kind = {"type": top.pop("type")} if "type" in top else {}
        definition = json.dumps({"StartAt": next(iter(states)), "States": states, **top})
        request = {"name": f"m{time.monotonic_ns()}", "definition": definition, "roleArn": ROLE, **kind}
        return str(self.api.CreateStateMachine(HOME, request)["stateMachineArn"])

    def start(self, states: dict[str, Any], data: Any = None, **top: Any) -> str:
        request = {"stateMachineArn": self.create(states, **top), "input": json.dumps(data or {})}
        return str(self.api.StartExecution(HOME, request)["executionArn"])

    def ended(self, arn: str) -> dict[str, Any]:
        patience = time.monotonic() + 120
        while time.monotonic() < patience:
            found = self.api.DescribeExecution(HOME, {"executionArn": arn})
            if found["status"] != "RUNNING":
                return found
            time.sleep(0.01)
        raise AssertionError("it goes on and on")

    def output(self, states: dict[str, Any], data: Any = None, **top: Any) -> Any:
        found = self.ended(self.start(states, data, **top))
        assert found["status"] == "SUCCEEDED", found
        return json.loads(found["output"])

    def events(self, arn: str, **more: Any) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.api.GetExecutionHistory(HOME, {"executionArn": arn, **more})["events"]
        return events


def passing(value: Any) -> dict[str, Any]:
    return {"Type": "Pass", "Result": value, "End": True}


def test_a_history_tells_every_step_from_the_start_to_the_end() -> None:
    """Each event names the one before it; the input and the output are told."""
    machines = Machines()
    arn = machines.start({"One": {"Type": "Pass", "Next": "Two"}, "Two": {"Type": "Succeed"}}, {"a": 1})
    assert machines.ended(arn)["output"] == '{"a":1}'
    events = machines.events(arn)
    assert [(event["id"], event["previousEventId"], event["type"]) for event in events] == [
        (1, 0, "ExecutionStarted"),
        (2, 0, "PassStateEntered"),
        (3, 2, "PassStateExited"),
        (4, 3, "SucceedStateEntered"),
        (5, 4, "SucceedStateExited"),
        (6, 5, "ExecutionSucceeded"),
    ]
    assert events[0]["executionStartedEventDetails"]["roleArn"] == ROLE
    assert machines.events(arn, reverseOrder=True)[0]["type"] == "ExecutionSucceeded"


def test_a_history_comes_in_pages() -> None:
    """A token leads on; the last page has none."""
    machines = Machines()
    arn = machines.start({"One": passing(1)})
    machines.ended(arn)
    first = machines.api.GetExecutionHistory(HOME, {"executionArn": arn, "maxResults": 3})
    rest = machines.api.GetExecutionHistory(HOME, {"executionArn": arn, "nextToken": first["nextToken"]})
    assert [event["id"] for event in (*first["events"], *rest["events"])] == [1, 2, 3, 4]
    assert "nextToken" not in rest


def test_branches_and_items_give_their_outputs_in_order_and_a_choice_takes_the_first_that_holds() -> None:
    """Both branches see the input; every item runs through its states with its own number."""
    doubled = {"Type": "Pass", "Parameters": {"n.$": "States.MathAdd($.item, $.item)", "at.$": "$.at"}, "End": True}
    states = {
        "Both": {
            "Type": "Parallel",
            "Branches": [
                {"StartAt": "A", "States": {"A": {"Type": "Pass", "InputPath": "$.items", "End": True}}},
                {"StartAt": "B", "States": {"B": passing("b")}},
            ],
            "Next": "Which",
        },
        "Which": {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$[1]", "StringEquals": "a", "Next": "Wrong"},
                {"Variable": "$[0][0]", "NumericLessThanEquals": 2, "Next": "Each"},
            ],
            "Default": "Wrong",
        },
        "Wrong": {"Type": "Fail"},
        "Each": {
            "Type": "Map",
            "ItemsPath": "$[0]",
            "ItemSelector": {"item.$": "$$.Map.Item.Value", "at.$": "$$.Map.Item.Index"},
            "MaxConcurrency": 2,
            "ItemProcessor": {"StartAt": "Twice", "States": {"Twice": doubled}},
            "End": True,
        },
    }
    assert Machines().output(states, {"items": [2, 3, 4]}) == [{"n": 4, "at": 0}, {"n": 6, "at": 1}, {"n": 8, "at": 2}]


def test_jsonata_computes_outputs_and_variables() -> None:
    """Texts keep their quotes, null stays null, and the functions that AWS adds are there: MD5 of nothing is known."""
    states = {
        "One": {
            "Type": "Pass",
            "Output": "{% {'twice': $states.input.n * 2, 'none': null, 'id': $length($uuid()), "
            "'md5': $hash('', 'MD5')} %}",
            "Assign": {"said": "{% $states.input.said %}"},
            "Next": "Two",
        },
        "Two": {"Type": "Pass", "Output": {"from": "{% $states.input %}", "said": "{% $said & '!' %}"}, "End": True},
    }
    output = Machines().output(states, {"n": 1.5, "said": 'so "quoted"'}, QueryLanguage="JSONata")
    computed = {"twice": 3, "none": None, "id": 36, "md5": "d41d8cd98f00b204e9800998ecf8427e"}
    assert output == {"from": computed, "said": 'so "quoted"!'}


def test_a_jsonata_expression_that_fails_is_the_states_error() -> None:
    """By the name that AWS gives it."""
    machines = Machines()
    states = {"One": {"Type": "Pass", "Output": "{% $nothing %}", "End": True}}
    found = machines.ended(machines.start(states, QueryLanguage="JSONata"))
    assert (found["status"], found["error"]) == ("FAILED", "States.QueryEvaluationError")


def test_a_wait_lasts_as_long_as_the_clouds_clock_says() -> None:
    """15 s at speed 30 are half a second of the wall."""
    machines, began_s = Machines(30), time.monotonic()
    machines.output({"Wait": {"Type": "Wait", "Seconds": 15, "End": True}})
    assert 0.5 <= time.monotonic() - began_s < 14


def test_a_wait_for_a_moment_goes_by_the_clouds_calendar() -> None:
    """The moment 30 s from now on that calendar comes within a second of the wall."""
    machines, began_s = Machines(30), time.monotonic()
    moment = machines.clock.calendar(machines.clock.now_s() + 30).strftime("%Y-%m-%dT%H:%M:%SZ")
    machines.output({"Wait": {"Type": "Wait", "Timestamp": moment, "End": True}})
    assert 0.9 < time.monotonic() - began_s < 28


def test_a_program_sees_the_clouds_calendar_and_a_client_the_walls_time() -> None:
    """As every answer of this cloud does."""
    machines = Machines(100)
    time.sleep(0.1)  # 10 s
    state = {"Type": "Pass", "Parameters": {"at.$": "$$.Execution.StartTime"}, "End": True}
    arn = machines.start({"One": state})
    found = machines.ended(arn)
    seen = datetime.fromisoformat(json.loads(found["output"])["at"])
    assert (seen - found["startDate"]).total_seconds() > 9
    assert abs((datetime.now(UTC) - machines.events(arn)[0]["timestamp"]).total_seconds()) < 9


def test_a_failure_is_tried_again_at_intervals_of_the_clouds_clock() -> None:
    """10 s and then 20 s, at speed 30 one second; the attempts are counted."""
    machines = Machines(30, functions=Functions(failed("Busy"), failed("Busy"), invoked("done")))
    retry = {"ErrorEquals": ["Busy"], "MaxAttempts": 2, "IntervalSeconds": 10, "BackoffRate": 2}
    began_s = time.monotonic()
    assert machines.output({"Ask": {"Type": "Task", "Resource": FUNCTION, "Retry": [retry], "End": True}}) == "done"
    assert 1 <= time.monotonic() - began_s < 28


def test_a_failure_that_no_attempt_mends_is_the_executions() -> None:
    """One attempt more, then its error and cause."""
    machines = Machines(100, functions=Functions(failed("Busy"), failed("Busy"), invoked("done")))
    retry = {"ErrorEquals": ["Busy"], "MaxAttempts": 1}
    arn = machines.start({"Ask": {"Type": "Task", "Resource": FUNCTION, "Retry": [retry], "End": True}})
    found = machines.ended(arn)
    assert (found["status"], found["error"]) == ("FAILED", "Busy")
    assert json.loads(found["cause"]) == {"errorType": "Busy", "errorMessage": "so"}
    assert [event["type"] for event in machines.events(arn)].count("LambdaFunctionFailed") == 2


def test_a_failure_goes_to_the_catcher_that_names_it_with_its_cause() -> None:
    """The input stays, the error lies where ResultPath says; the first catcher that matches wins."""
    task = {
        "Type": "Task",
        "Resource": FUNCTION,
        "Catch": [
            {"ErrorEquals": ["Other"], "Next": "Wrong"},
            {"ErrorEquals": ["States.TaskFailed"], "ResultPath": "$.failure", "Next": "Told"},
        ],
        "Next": "Wrong",
    }
    states = {"Ask": task, "Told": {"Type": "Succeed"}, "Wrong": {"Type": "Fail", "Error": "Wrong"}}
    output = Machines(functions=Functions(failed("Busy"))).output(states, {"a": 1})
    assert (output["a"], output["failure"]["Error"]) == (1, "Busy")


def test_a_functions_time_out_counts_the_walls_seconds() -> None:
    """As its work does: 0.2 s are not 20 s of the clock that runs a hundred times as fast."""
    machines = Machines(100, functions=Functions(invoked("done"), seconds=0.2))
    assert machines.output({"Ask": {"Type": "Task", "Resource": FUNCTION, "TimeoutSeconds": 2, "End": True}}) == "done"


def test_a_task_past_its_time_out_fails_with_the_languages_error() -> None:
    """States.Timeout, while the function still works."""
    machines = Machines(functions=Functions(invoked("late"), seconds=1.5))
    states = {"Ask": {"Type": "Task", "Resource": FUNCTION, "TimeoutSeconds": 1, "End": True}}
    assert machines.ended(machines.start(states))["error"] == "States.Timeout"


def test_an_execution_past_its_time_out_is_timed_out() -> None:
    """20 s on the cloud's clock, while it waits for an hour."""
    machines = Machines(100)
    arn = machines.start({"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}}, TimeoutSeconds=20)
    assert machines.ended(arn)["status"] == "TIMED_OUT"
    assert machines.events(arn)[-1]["type"] == "ExecutionTimedOut"


def test_a_stopped_execution_ends_at_once_with_what_was_said() -> None:
    """Also while it waits; its last event says so, and stopping it again changes nothing."""
    machines = Machines()
    arn = machines.start({"Wait": {"Type": "Wait", "Seconds": 60, "End": True}})
    machines.api.StopExecution(HOME, {"executionArn": arn, "error": "Enough", "cause": "because"})
    machines.api.StopExecution(HOME, {"executionArn": arn, "error": "Again"})
    found = machines.ended(arn)
    assert (found["status"], found["error"], found["cause"]) == ("ABORTED", "Enough", "because")
    last = machines.events(arn)[-1]
    assert last["executionAbortedEventDetails"] == {"error": "Enough", "cause": "because"}


def test_no_thread_outlives_the_cloud() -> None:
    """Whatever its executions wait for, however deep."""
    machines, before = Machines(), set(threading.enumerate())
    waiting = {"Type": "Wait", "Seconds": 600, "End": True}
    first, second = ({"StartAt": name, "States": {name: waiting}} for name in ("W", "V"))
    machines.start({"Both": {"Type": "Parallel", "Branches": [first, second], "End": True}})
    machines.start({"Each": {"Type": "Map", "ItemsPath": "$.n", "ItemProcessor": first, "End": True}}, {"n": [1, 2]})
    time.sleep(0.3)
    machines.api.stop()
    assert set(threading.enumerate()) - before == set()


JOB = {
    "Type": "Task",
    "Resource": "arn:aws:states:::sagemaker:createProcessingJob.sync",
    "Parameters": {"ProcessingJobName": "job"},
    "End": True,
}


def test_a_job_that_completes_is_its_tasks_result() -> None:
    """As SageMaker describes it, times as text."""
    assert Machines(functions=Jobs("Completed")).output({"Run": JOB}) == {
        "ProcessingJobName": "job",
        "ProcessingJobStatus": "Completed",
        "CreationTime": "2026-01-02T00:00:00Z",
    }


def test_a_job_ends_with_the_execution_that_somebody_stops() -> None:
    """Its task would have waited on."""
    jobs = Jobs("InProgress")
    machines = Machines(functions=jobs)
    arn = machines.start({"Run": JOB})
    patience = time.monotonic() + 120
    while "TaskSubmitted" not in [event["type"] for event in machines.events(arn)] and time.monotonic() < patience:
        time.sleep(0.01)
    machines.api.StopExecution(HOME, {"executionArn": arn})
    assert (machines.ended(arn)["status"], jobs.asked) == ("ABORTED", ["create", "stop"])


def test_an_output_over_256_kib_fails_by_name() -> None:
    """Two halves are within the limit, the whole is not."""
    machines = Machines()
    twice = {"Type": "Pass", "Parameters": {"both.$": "States.Format('{}{}', $.half, $.half)"}, "End": True}
    found = machines.ended(machines.start({"Twice": twice}, {"half": "x" * 140_000}))
    assert (found["status"], found["error"]) == ("FAILED", "States.DataLimitExceeded")


def test_an_executions_name_is_good_for_one_input() -> None:
    """The same again while it runs is the same execution; another input is refused."""
    machines = Machines()
    arn = machines.create({"Wait": {"Type": "Wait", "Seconds": 60, "End": True}})
    request = {"stateMachineArn": arn, "name": "once", "input": "{}"}
    first = machines.api.StartExecution(HOME, request)
    assert machines.api.StartExecution(HOME, request) == first
    with pytest.raises(AwsError, match="Execution Already Exists"):
        machines.api.StartExecution(HOME, {**request, "input": "[]"})
    machines.api.stop()


def test_an_update_is_for_later_executions() -> None:
    """The one that runs keeps the definition that it began with."""
    machines = Machines()
    arn = machines.create({"Wait": {"Type": "Wait", "Seconds": 60, "End": True}})
    begun = machines.api.StartExecution(HOME, {"stateMachineArn": arn})["executionArn"]
    new = json.dumps({"StartAt": "One", "States": {"One": passing(1)}})
    machines.api.UpdateStateMachine(HOME, {"stateMachineArn": arn, "definition": new})
    kept = machines.api.DescribeStateMachineForExecution(HOME, {"executionArn": begun})["definition"]
    assert list(json.loads(kept)["States"]) == ["Wait"]
    later = machines.api.StartExecution(HOME, {"stateMachineArn": arn})["executionArn"]
    assert machines.ended(later)["output"] == "1"
    machines.api.stop()


def test_an_express_machine_answers_whom_it_was_started_by() -> None:
    """And has no executions to ask for; a standard one does not answer so."""
    machines = Machines()
    arn = machines.create({"One": passing(1)}, type="EXPRESS")
    found = machines.api.StartSyncExecution(HOME, {"stateMachineArn": arn})
    assert (found["status"], found["output"]) == ("SUCCEEDED", "1")
    with pytest.raises(AwsError, match="Resource type not valid in this context: express"):
        machines.api.DescribeExecution(HOME, {"executionArn": found["executionArn"]})
    with pytest.raises(AwsError, match="not supported by this type of state machine"):
        machines.api.StartSyncExecution(HOME, {"stateMachineArn": machines.create({"One": passing(1)})})


def test_the_same_machine_again_is_the_same_and_another_of_its_name_is_refused() -> None:
    """As AWS, which looks at the definition's text."""
    api = Machines().api
    request = {
        "name": "twice",
        "roleArn": ROLE,
        "definition": json.dumps({"StartAt": "A", "States": {"A": passing(1)}}),
    }
    assert api.CreateStateMachine(HOME, request) == api.CreateStateMachine(HOME, request)
    with pytest.raises(AwsError, match="State Machine Already Exists"):
        api.CreateStateMachine(HOME, {**request, "definition": request["definition"] + " "})


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"A": {"Type": "Pass", "Next": "B"}}, "MISSING_TRANSITION_TARGET: Missing 'Next' target: B at /States/A/Next"),
        ({"A": passing(1), "B": passing(2)}, 'State "B" is not reachable. at /States/B'),
        ({"A": {"Type": "Pass"}}, "Pass needs either Next or End at /States/A"),
        ({"A": {"Type": "Pass", "Seconds": 1, "End": True}}, "Pass has no Seconds"),
        ({"A": {"Type": "Dance", "End": True}}, "Dance is no type of state"),
        ({"A": {"Type": "Pass", "InputPath": "a.b", "End": True}}, "'a.b' of InputPath is not a valid JSONPath"),
        ({"A": {"Type": "Pass", "Parameters": {"x.$": "$.a["}, "End": True}}, "'$.a[' of x.$ is not a valid JSONPath"),
        ({"A": {"Type": "Pass", "Parameters": {"x.$": "States.Nothing(1)"}, "End": True}}, "SCHEMA_VALIDATION_FAILED"),
        ({"A": {"Type": "Choice", "Choices": [{"Variable": "$.a", "Is": 1, "Next": "A"}]}}, "SCHEMA_VALIDATION_FAILED"),
        (
            {"A": {"Type": "Map", "ItemProcessor": {"StartAt": "X", "States": {"Y": passing(1)}}, "End": True}},
            "Missing 'Next' target: X at /States/A[0]/StartAt",
        ),
        ({"A": {"Type": "Task", "Resource": "arn:aws:states:::glue:startJobRun", "End": True}}, "does not provide it"),
    ],
)
def test_definitions_that_cannot_run_are_refused(states: dict[str, Any], said: str) -> None:
    """When they are created, as AWS does."""
    definition = json.dumps({"StartAt": "A", "States": states})
    assert said in next(problems_of(definition, express=False))


def test_what_is_no_definition_is_refused_in_awss_words() -> None:
    """Recorded from AWS: LocalStack's test_create_delete_invalid_sm."""
    (problem,) = problems_of('{"StartAt": "A"}', express=False)
    assert problem == "SCHEMA_VALIDATION_FAILED: These fields are required: [States] at /"


def test_a_templates_own_words_are_not_taken_for_paths() -> None:
    """A parameter may be called anything."""
    state = {"Type": "Pass", "Parameters": {"ModelPath": "s3://x", "Variable": 1, "a.$": "$var.b"}, "End": True}
    assert list(problems_of(json.dumps({"StartAt": "A", "States": {"A": state}}), express=False)) == []


@pytest.mark.parametrize(
    ("resource", "provided"),
    [
        (FUNCTION, True),
        ("arn:aws:states:::lambda:invoke", True),
        ("arn:aws:states:::lambda:invoke.waitForTaskToken", False),
        ("arn:aws-us-gov:states:::sagemaker:createProcessingJob.sync", True),
        ("arn:aws:states:::sagemaker:createTrainingJob.sync", False),
        ("arn:aws:states:::states:startExecution.sync:2", True),
        ("arn:aws:states:::aws-sdk:sfn:startExecution", True),
        ("arn:aws:states:::aws-sdk:stepfunctions:startExecution", False),
        ("arn:aws:states:::aws-sdk:s3:GetObject", False),
        ("arn:aws:states:::aws-sdk:s3:getObjects", False),
        ("arn:aws:states:us-east-1:123456789012:activity:a", False),
    ],
)
def test_a_task_names_what_is_there(resource: str, provided: bool) -> None:
    """By the names of AWS's SDK; what nothing here would end is not provided."""
    assert is_provided(resource) is provided


@pytest.mark.parametrize(
    ("service", "prefix"),
    [
        ("dynamodb", "DynamoDb"),
        ("s3", "S3"),
        ("sagemaker", "SageMaker"),
        ("sfn", "Sfn"),
        ("eventbridge", "EventBridge"),
    ],
)
def test_errors_of_the_sdk_begin_as_awss_do(service: str, prefix: str) -> None:
    """DynamoDb and Sfn as recorded from AWS, the others by the same rule of its SDK."""
    assert error_prefix(service) == prefix


@pytest.fixture(scope="module")
def role(aws: Aws) -> str:
    principal = {"Service": ["states.amazonaws.com", "sagemaker.amazonaws.com"]}
    trust = {"Statement": [{"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}]}
    aws("s3").create_bucket(Bucket="machines")
    aws("iam").create_role(RoleName="machines", AssumeRolePolicyDocument=json.dumps(trust))
    return ROLE


def ended(aws: Aws, arn: str) -> dict[str, Any]:
    patience = time.monotonic() + 120
    while time.monotonic() < patience:
        found: dict[str, Any] = aws("stepfunctions").describe_execution(executionArn=arn)
        if found["status"] != "RUNNING":
            return found
        time.sleep(0.02)
    raise AssertionError("it goes on and on")


def test_executions_by_the_api(aws: Aws, role: str) -> None:
    """A service integration's answer comes back; a name is good for one input; an unknown machine is AWS's error."""
    machines = aws("stepfunctions")
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
    assert [event["type"] for event in history] == [
        "ExecutionStarted",
        "TaskStateEntered",
        "TaskScheduled",
        "TaskStarted",
        "TaskSucceeded",
        "TaskStateExited",
        "ExecutionSucceeded",
    ]
    with pytest.raises(ClientError, match="StateMachineDoesNotExist"):
        machines.start_execution(stateMachineArn=f"{arn}-not")
    with pytest.raises(ClientError, match="is authorized to assume the provided role: no such role"):
        machines.create_state_machine(name="other", definition=definition, roleArn=f"{role}-not")


def execution(aws: Aws, role: str, task: dict[str, Any], data: Any = None) -> dict[str, Any]:
    """How an execution of one task ended."""
    machines = aws("stepfunctions")
    definition = json.dumps({"StartAt": "Ask", "States": {"Ask": {"Type": "Task", "End": True, **task}}})
    name = f"m{time.monotonic_ns()}"
    arn = machines.create_state_machine(name=name, definition=definition, roleArn=role)["stateMachineArn"]
    begun = machines.start_execution(stateMachineArn=arn, input=json.dumps(data or {}))["executionArn"]
    return ended(aws, begun)


def test_a_functions_exception_is_the_tasks_error_by_its_name(aws: Aws, role: str) -> None:
    """With the function's own message in the cause."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("main.py", "class Busy(Exception): pass\ndef handle(event, context): raise Busy(event['why'])")
    allowed = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    trust = {"Statement": [allowed]}
    function_role = aws("iam").create_role(RoleName="busy", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    aws("lambda").create_function(
        FunctionName="busy",
        Runtime="python3.11",
        Role=function_role,
        Handler="main.handle",
        Code={"ZipFile": packed.getvalue()},
    )
    by_invoke = {
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": "busy", "Payload": {"why": "full"}},
    }
    found = execution(aws, role, by_invoke)
    assert (found["error"], json.loads(found["cause"])["errorMessage"]) == ("Busy", "full")
    by_arn = {"Resource": "arn:aws:lambda:us-east-1:123456789012:function:busy"}
    assert execution(aws, role, by_arn, {"why": "full"})["error"] == "Busy"


def test_a_task_meets_the_refusals_that_a_client_meets(aws: Aws, role: str) -> None:
    """This cloud's own queue refuses the characters, its SageMaker the job, and S3 says which error it is."""
    queue = aws("sqs").create_queue(QueueName="machines")["QueueUrl"]
    told = {"Resource": "arn:aws:states:::sqs:sendMessage", "Parameters": {"QueueUrl": queue, "MessageBody": "\x00"}}
    with pytest.raises(ClientError) as direct:
        aws("sqs").send_message(QueueUrl=queue, MessageBody="\x00")
    assert direct.value.response["Error"]["Message"] in execution(aws, role, told)["cause"]
    shell = job("shell-task", role, ContainerEntrypoint=["bash"])
    made = {"Resource": "arn:aws:states:::sagemaker:createProcessingJob.sync", "Parameters": shell}
    assert "runs python -m benchmarks.remote.host only, found bash" in execution(aws, role, made)["cause"]


def test_times_in_a_services_answer_are_text(aws: Aws, role: str) -> None:
    """So a later state, and whoever describes the execution, can read them."""
    found = execution(aws, role, {"Resource": "arn:aws:states:::aws-sdk:s3:listBuckets", "Parameters": {}})
    (made,) = (one["CreationDate"] for one in json.loads(found["output"])["Buckets"] if one["Name"] == "machines")
    assert datetime.fromisoformat(made).tzinfo is not None


def test_a_condition_that_fails_has_the_prefix_of_awss_sdk(aws: Aws, role: str) -> None:
    """Of two words, as Java writes it."""
    found = execution(
        aws,
        role,
        {
            "Resource": "arn:aws:states:::aws-sdk:dynamodb:getItem",
            "Parameters": {"TableName": "nowhere", "Key": {"id": {"S": "1"}}},
        },
    )
    assert found["error"] == "DynamoDb.ResourceNotFoundException"


def test_a_job_that_fails_fails_its_task_with_the_jobs_own_reason(aws: Aws, role: str) -> None:
    """`.sync` waits for the end; the cause is the job as SageMaker describes it."""
    made = {"Resource": "arn:aws:states:::sagemaker:createProcessingJob.sync", "Parameters": job("no-image-task", role)}
    found = execution(aws, role, made)
    assert (found["status"], found["error"]) == ("FAILED", "States.TaskFailed")
    assert "Failed to pull image" in json.loads(found["cause"])["FailureReason"]


def test_a_machine_waits_for_the_machine_that_it_starts(aws: Aws, role: str) -> None:
    """`.sync:2` hands its output over as JSON."""
    machines = aws("stepfunctions")
    definition = json.dumps({"StartAt": "One", "States": {"One": {"Type": "Pass", "Result": {"n": 1}, "End": True}}})
    inner = machines.create_state_machine(name="inner", definition=definition, roleArn=role)["stateMachineArn"]
    task = {"Resource": "arn:aws:states:::states:startExecution.sync:2", "Parameters": {"StateMachineArn": inner}}
    assert json.loads(execution(aws, role, task)["output"])["Output"] == {"n": 1}


def test_an_express_machine_answers_over_http(cloud: LocalCloud, role: str) -> None:
    """AWS's address for it begins with sync-, which loopback has not: the client is told to leave that out."""
    machines = boto3_client(cloud, "stepfunctions", inject_host_prefix=False)
    definition = json.dumps({"StartAt": "One", "States": {"One": passing([1])}})
    arn = machines.create_state_machine(name="express", definition=definition, roleArn=role, type="EXPRESS")
    assert machines.start_sync_execution(stateMachineArn=arn["stateMachineArn"])["output"] == "[1]"


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
    patience = time.monotonic() + 120
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


def test_a_definition_that_moto_cannot_build_leaves_the_next_one_as_it_is() -> None:
    """Amazon States Language: Variable and Parameters are JSONPath's, so JSONata may not have them and JSONPath may."""
    rule = {"Variable": "$.a", "IsPresent": True, "Next": "E"}
    states = {"S": {"Type": "Choice", "Choices": [rule]}, "E": {"Type": "Succeed"}}
    refused = {"StartAt": "S", "QueryLanguage": "JSONata", "States": states}
    assert list(problems_of(json.dumps(refused), express=False))
    state = {"Type": "Pass", "Parameters": {"a": 1}, "End": True}
    assert not list(problems_of(json.dumps({"StartAt": "S", "States": {"S": state}}), express=False))
