"""The state machine that runs one benchmark: job, verdict, who is told. Plain JSON, as the template holds it.

Its input is `execution.benchmark_input`. Whatever goes wrong on the way ends in a verdict INVALID, and a deployment
that waits is answered either way; the execution itself succeeds: a missed objective is no fault of the machine.
`${...}` are filled in by CloudFormation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from loadproof.profiles.names import jobs_prefix
from loadproof.profiles.schema import BenchmarkJob, Environment
from loadproof.wire.documents import Document
from loadproof.wire.job import PROGRAM, SIGNING_KEY

EVENT_SOURCE: Final = "loadproof"
EVENT_TYPE: Final = "Loadproof Benchmark Verdict"
_VOLUME_GIB: Final = 30

State = Document
States = dict[str, State]
Task = Callable[..., State]  # `_task_of` with its partition


def definition(
    environment_name: str, environment: Environment, job: BenchmarkJob, *, partition: str, tells_topic: bool
) -> State:
    """`tells_topic`: there is a topic to be told of what is not PASS."""
    task = partial(_task_of, partition)
    states = {
        **_running(task, environment_name, environment, job),
        **_judging(task),
        **_telling(task, environment_name, not_passed="Notify" if tells_topic else "Waiting"),
        **_answering(task),
        **(_notifying(task) if tells_topic else {}),
    }
    return {"Comment": f"Benchmarks of {environment_name}", "StartAt": "Prepare", "States": states}


def _running(task: Task, environment_name: str, environment: Environment, job: BenchmarkJob) -> States:
    return {
        "Prepare": {
            "Comment": "The profile as deployed goes where the job may read it",
            **task("aws-sdk:s3:copyObject", next_state="Run", on_failure="Judge"),
            "Parameters": {
                "Bucket": "${Results}",
                "Key.$": "States.Format('runs/{}/input.zip', $$.Execution.Name)",
                "CopySource.$": "States.Format('{}/{}', $.bundle.bucket, $.bundle.key)",
            },
            "ResultPath": None,
        },
        "Run": {
            **task("sagemaker:createProcessingJob.sync", next_state="Judge", on_failure="Judge"),
            "Parameters": _job(environment_name, environment, job),
            "TimeoutSecondsPath": "$.wait_s",
            "ResultPath": None,
        },
    }


def _judging(task: Task) -> States:
    return {
        "Judge": {
            **task("lambda:invoke", next_state="Tell", on_failure="Unjudged"),
            "Parameters": {
                "FunctionName": "${Function}",
                "Payload": {"do": "judge", "run.$": "$$.Execution.Name", "input.$": "$"},
            },
            "ResultSelector": {"verdict.$": "$.Payload"},
            "ResultPath": "$.judged",
            "Retry": [_LAMBDA_RETRY],
        },
        "Unjudged": {
            "Type": "Pass",
            "Result": {
                "verdict": {
                    "outcome": "INVALID",
                    "reasons": ["the run's verdict could not be read"],
                    "words": "Benchmark INVALID: the run's verdict could not be read.",
                    "report": "none",
                }
            },
            "ResultPath": "$.judged",
            "Next": "Tell",
        },
    }


def _telling(task: Task, environment_name: str, *, not_passed: str) -> States:
    return {
        "Tell": {
            **task("events:putEvents", next_state="Passed", on_failure="Passed"),
            "Parameters": {
                "Entries": [
                    {
                        "Source": EVENT_SOURCE,
                        "DetailType": EVENT_TYPE,
                        "Detail": {
                            "environment": environment_name,
                            "profile.$": "$.profile",
                            "profile_sha256.$": "$.profile_sha256",
                            "endpoint.$": "$.endpoint",
                            "run.$": "$$.Execution.Name",
                            "outcome.$": "$.judged.verdict.outcome",
                            "reasons.$": "$.judged.verdict.reasons",
                            "report.$": "$.judged.verdict.report",
                        },
                    }
                ]
            },
            "ResultPath": None,
        },
        "Passed": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.judged.verdict.outcome", "StringEquals": "PASS", "Next": "Waiting"}],
            "Default": not_passed,
        },
    }


def _answering(task: Task) -> States:
    return {
        "Waiting": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.answer", "IsPresent": True, "Next": "Answer"}],
            "Default": "Done",
        },
        "Answer": {
            "Comment": "CloudFormation waits for this; it fails the deployment where the verdict is not accepted",
            **task("lambda:invoke", next_state="Done"),
            "Parameters": {"FunctionName": "${Function}", "Payload": {"do": "answer", "input.$": "$"}},
            "ResultPath": None,
            "Retry": [_ANSWER_RETRY],
        },
        "Done": {"Type": "Pass", "Parameters": {"verdict.$": "$.judged.verdict"}, "End": True},
    }


def _notifying(task: Task) -> States:
    return {
        "Notify": {
            **task("sns:publish", next_state="Waiting", on_failure="Waiting"),
            "Parameters": {
                "TopicArn": "${Topic}",
                "Subject.$": "States.Format('Benchmark {}: {}', $.judged.verdict.outcome, $.profile)",
                "Message.$": "$.judged.verdict.words",
            },
            "ResultPath": None,
        }
    }


def _task_of(partition: str, service: str, *, next_state: str, on_failure: str | None = None) -> State:
    task: State = {"Type": "Task", "Resource": f"arn:{partition}:states:::{service}", "Next": next_state}
    if on_failure:
        task["Catch"] = [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.failure", "Next": on_failure}]
    return task


_LAMBDA_RETRY: Final = {
    "ErrorEquals": [
        "Lambda.ServiceException",
        "Lambda.AWSLambdaException",
        "Lambda.SdkClientException",
        "Lambda.TooManyRequestsException",
    ],
    "IntervalSeconds": 2,
    "MaxAttempts": 4,
    "BackoffRate": 2,
}
_ANSWER_RETRY: Final = {"ErrorEquals": ["States.ALL"], "IntervalSeconds": 5, "MaxAttempts": 4, "BackoffRate": 2}


def _job(environment_name: str, environment: Environment, job: BenchmarkJob) -> State:
    """CreateProcessingJob, as `loadproof.bench.remote.launchers` asks for it from a laptop."""
    cluster: State = {
        "InstanceCount.$": "$.hosts",
        "InstanceType": job.instance_type,
        "VolumeSizeInGB": _VOLUME_GIB,
    }
    if environment.kms_key_arn:
        cluster["VolumeKmsKeyId"] = environment.kms_key_arn
    request: State = {
        "ProcessingJobName.$": f"States.Format('{jobs_prefix(environment_name)}{{}}', States.UUID())",
        "RoleArn": "${JobRole}",
        "AppSpecification": {
            "ImageUri": job.image,
            "ContainerEntrypoint": list(PROGRAM),
            "ContainerArguments.$": "States.Array(States.Format('s3://${Results}/runs/{}', $$.Execution.Name))",
        },
        "ProcessingResources": {"ClusterConfig": cluster},
        "StoppingCondition": {"MaxRuntimeInSeconds.$": "$.most_s"},
        "Environment": {"AWS_REGION": environment.region},
    }
    if job.signing_kms_key_arn:
        request["Environment"][SIGNING_KEY] = f"awskms:///{job.signing_kms_key_arn}"
    network = environment.network
    if network is not None:
        request["NetworkConfig"] = {
            "VpcConfig": {
                "SecurityGroupIds": list(network.security_group_ids),
                "Subnets": list(network.subnet_ids),
            }
        }
    return request
