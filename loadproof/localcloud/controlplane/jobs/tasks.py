"""Tasks of state machines: which are provided, the job that moto's interpreter lacks, AWS's names of errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from botocore import xform_name
from botocore.exceptions import UnknownServiceError
from botocore.model import OperationModel
from moto.core.utils import get_service_model
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import FailureEventException
from moto.stepfunctions.parser.asl.component.state.exec.state_task.credentials import StateCredentials
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service,
    state_task_service_aws_sdk,
    state_task_service_factory,
    state_task_service_lambda,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import (
    ResourceCondition,
    ResourceRuntimePart,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_callback import (
    StateTaskServiceCallback,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.state_task_lambda import StateTaskLambda
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.utils import boto_client

from loadproof.wire.documents import Document

_FUNCTION = re.compile(r"arn:[^:]+:lambda:[^:]+:\d{12}:function:\S+\Z")
_INTEGRATION = re.compile(
    r"arn:[^:]+:states:::(?P<name>(aws-sdk:)?(?P<service>[a-z0-9\-]+):(?P<action>\w+)(\.[\w:]+)?)\Z"
)
_PROVIDED: Final = {
    "dynamodb:deleteItem", "dynamodb:getItem", "dynamodb:putItem", "dynamodb:updateItem", "events:putEvents",
    "lambda:invoke", "sagemaker:createProcessingJob", "sagemaker:createProcessingJob.sync", "sns:publish",
    "sqs:sendMessage", "states:startExecution", "states:startExecution.sync", "states:startExecution.sync:2",
}  # fmt: skip
# Where AWS's SDK for Java, by which the integrations go, calls a service otherwise than botocore.
_SDK_NAMES: Final = {
    "applicationautoscaling": "application-autoscaling",
    "bedrockruntime": "bedrock-runtime",
    "cloudwatchlogs": "logs",
    "eventbridge": "events",
    "sagemakerruntime": "sagemaker-runtime",
    "servicequotas": "service-quotas",
    "sfn": "stepfunctions",
}
Task = state_task_service.StateTaskService
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def is_provided(resource: str) -> bool:
    """Whether a task may name this resource here. Nothing answers task tokens, so nothing may wait for one."""
    match = _INTEGRATION.match(resource)
    if match is None:
        return _FUNCTION.match(resource) is not None
    if not match["name"].startswith("aws-sdk:"):
        return match["name"] in _PROVIDED
    service, action = match["service"], match["action"]
    if service in _SDK_NAMES.values() or "." in match["name"] or not action[0].islower():
        return False
    try:
        model = get_service_model(_SDK_NAMES.get(service, service))
    except UnknownServiceError:
        return False
    return action[0].upper() + action[1:] in model.operation_names


def error_prefix(service: str) -> str:
    """`DynamoDb` of dynamodb: how the errors of an SDK integration begin."""
    service_id = get_service_model(_SDK_NAMES.get(service, service)).service_id
    return "".join(word.capitalize() for word in _WORDS.findall(service_id))


class SageMakerJob(state_task_service_aws_sdk.StateTaskServiceAwsSdk):
    """createProcessingJob. With `.sync` it is followed to its end; stopped with the execution, not by a time-out."""

    def __init__(self) -> None:
        patterns: Any = {ResourceCondition.Sync, ResourceCondition.WaitForTaskToken}  # moto asks for both
        StateTaskServiceCallback.__init__(self, patterns)

    def _get_sfn_resource_type(self) -> str:
        return "sagemaker"

    def _eval_service_task(
        self,
        env: Environment,
        resource_runtime_part: ResourceRuntimePart,
        normalised_parameters: Document,
        state_credentials: StateCredentials,
    ) -> None:
        super()._eval_service_task(env, resource_runtime_part, normalised_parameters, state_credentials)
        if self.resource.condition:
            client = boto_client.boto_client_for(resource_runtime_part.region, "sagemaker")
            named = {"ProcessingJobName": normalised_parameters["ProcessingJobName"]}
            run: Any = env.aws_execution_details.run  # type: ignore[attr-defined]  # `interpreter.Run` says so of itself
            run.if_aborted(lambda: client.stop_processing_job(**named))

    def _build_sync_resolver(
        self,
        env: Environment,
        resource_runtime_part: ResourceRuntimePart,
        normalised_parameters: Document,
        state_credentials: StateCredentials,
    ) -> Callable[[], Document | None]:
        env.stack.pop()
        client = boto_client.boto_client_for(resource_runtime_part.region, "sagemaker")
        named = {"ProcessingJobName": normalised_parameters["ProcessingJobName"]}

        def resolve() -> Document | None:
            job = client.describe_processing_job(**named)
            job.pop("ResponseMetadata", None)
            if job["ProcessingJobStatus"] in ("InProgress", "Stopping"):
                return None
            if job["ProcessingJobStatus"] == "Completed":
                return dict(job)
            failed = self._get_task_failure_event(env, "States.TaskFailed", json.dumps(job))
            raise FailureEventException(failed)

        return resolve


# Functions and jobs take the wall's time, whatever the cloud's clock does.
AT_WORK: Final = (StateTaskLambda, state_task_service_lambda.StateTaskServiceLambda, SageMakerJob)
_usual_service_for = state_task_service_factory.state_task_service_for


def service_for(service_name: str) -> Task:
    return SageMakerJob() if service_name == "sagemaker" else _usual_service_for(service_name)


def install() -> None:
    """AWS's names of services and their errors, and the integrations' own case of names, which moto leaves out."""
    service: Any = Task
    service._SERVICE_NAME_SFN_TO_BOTO_OVERRIDES.update(_SDK_NAMES)
    service._get_boto_service_action = lambda task, action=None: xform_name(action or task.resource.api_action)
    service._normalise_parameters = _normalise_parameters
    service._normalise_response = _normalise_response
    by_sdk: Any = state_task_service_aws_sdk.StateTaskServiceAwsSdk
    by_sdk._normalise_service_error_name = staticmethod(error_prefix)


def _operation(task: Task, service: str | None, action: str | None) -> OperationModel:
    model, wanted = get_service_model(task._get_boto_service_name(service)), task._get_boto_service_action(action)
    return next(model.operation_model(name) for name in model.operation_names if xform_name(name) == wanted)


def _normalise_parameters(
    self: Task, parameters: Document, boto_service_name: str | None = None, service_action_name: str | None = None
) -> None:
    shape = _operation(self, boto_service_name, service_action_name).input_shape
    if shape is not None:
        self._to_boto_request(parameters, shape)


def _normalise_response(
    self: Task, response: Document, boto_service_name: str | None = None, service_action_name: str | None = None
) -> None:
    shape = _operation(self, boto_service_name, service_action_name).output_shape
    if shape is not None:
        self._from_boto_response(response, shape)
