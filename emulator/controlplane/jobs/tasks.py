"""The service integrations that Task states may use here: each asks this cloud's own services, as AWS's do."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from emulator.controlplane.clients import Clients
from emulator.controlplane.jobs.executor import Tasks
from emulator.controlplane.jobs.paths import StateError
from emulator.controlplane.wire import Caller

_FUNCTION = re.compile(r"arn:[^:]+:lambda:[^:]+:\d{12}:function:\S+\Z")
_INTEGRATION = re.compile(r"arn:[^:]+:states:::(?P<service>[a-z0-9:\-]+):(?P<action>\w+)(?P<pattern>\.\w+)?\Z")
_SDK = "aws-sdk:"
_JOB_POLL_S = 0.2
_JOB_OVER = ("Completed", "Failed", "Stopped")


class ServiceTasks(Tasks):
    """Asks in the name of one account and region."""

    def __init__(self, clients: Clients, caller: Caller) -> None:
        self._clients, self._caller = clients, caller
        self._integrations: dict[str, Callable[..., Any]] = {
            "lambda:invoke": self._invoke,
            "sagemaker:createProcessingJob.sync": self._processing_job,
            "events:putEvents": self._put_events,
            "sns:publish": self._publish,
        }

    def knows(self, resource: str) -> str | None:
        if _FUNCTION.match(resource):
            return None
        name = _name(resource)
        if name in self._integrations or (name.startswith(_SDK) and "." not in name):
            return None
        return f"the local cloud does not provide the task {resource}"

    def run(self, resource: str, request: Any, until_s: float | None, stopped: threading.Event) -> Any:
        if _FUNCTION.match(resource):
            return self._invoke({"FunctionName": resource, "Payload": request}, until_s, stopped)["Payload"]
        name = _name(resource)
        if name.startswith(_SDK):
            _, service, action = name.split(":")
            return _plain(self._ask(service, action, request))
        return self._integrations[name](request, until_s, stopped)

    def _invoke(self, request: Any, until_s: float | None, stopped: threading.Event) -> Any:
        answer = self._ask("lambda", "invoke", {**request, "Payload": json.dumps(request.get("Payload")).encode()})
        payload = json.loads(answer["Payload"].read() or b"null")
        if answer.get("FunctionError"):
            raise StateError(str(payload.get("errorType", "Lambda.Unknown")), json.dumps(payload))
        return {"ExecutedVersion": "$LATEST", "Payload": payload, "StatusCode": answer["StatusCode"]}

    def _processing_job(self, request: Any, until_s: float | None, stopped: threading.Event) -> Any:
        """Started, and followed to its end; stopped with the execution, but not by a time-out, as on AWS."""
        self._ask("sagemaker", "createProcessingJob", request)
        named = {"ProcessingJobName": request["ProcessingJobName"]}
        while True:
            job = _plain(self._ask("sagemaker", "describeProcessingJob", named))
            if job["ProcessingJobStatus"] in _JOB_OVER:
                break
            if until_s is not None and time.monotonic() > until_s:
                raise StateError("States.Timeout", "")
            if stopped.wait(_JOB_POLL_S):
                self._ask("sagemaker", "stopProcessingJob", named)
                return None
        if job["ProcessingJobStatus"] != "Completed":
            raise StateError("States.TaskFailed", json.dumps(job))
        return job

    def _put_events(self, request: Any, until_s: float | None, stopped: threading.Event) -> Any:
        entries = [
            {**entry, "Detail": entry["Detail"] if isinstance(entry["Detail"], str) else json.dumps(entry["Detail"])}
            for entry in request["Entries"]
        ]
        answer = _plain(self._ask("events", "putEvents", {"Entries": entries}))
        if answer.get("FailedEntryCount"):
            raise StateError("EventBridge.FailedEntry", json.dumps(answer))
        return answer

    def _publish(self, request: Any, until_s: float | None, stopped: threading.Event) -> Any:
        message = request.get("Message")
        text = message if isinstance(message, str) else json.dumps(message)
        return _plain(self._ask("sns", "publish", {**request, "Message": text}))

    def _ask(self, service: str, action: str, request: Any) -> Any:
        from botocore import xform_name
        from botocore.exceptions import BotoCoreError, ClientError

        client = self._clients.client(service, self._caller)
        operation = getattr(client, xform_name(action), None)
        if operation is None:
            raise StateError("States.Runtime", f"{service} has no operation {action}")
        try:
            return operation(**request)
        except ClientError as error:
            said = error.response["Error"]
            name = said["Code"] if said["Code"].endswith("Exception") else f"{said['Code']}Exception"
            raise StateError(f"{_SHOWN.get(service, service.capitalize())}.{name}", said["Message"]) from None
        except BotoCoreError as error:
            raise StateError("States.Runtime", f"{service}:{action}: {error}") from None


_SHOWN = {"s3": "S3", "sagemaker": "SageMaker", "sns": "SNS", "events": "EventBridge", "lambda": "Lambda"}


def _name(resource: str) -> str:
    """`sagemaker:createProcessingJob.sync` of an integration's ARN."""
    match = _INTEGRATION.match(resource)
    return f"{match['service']}:{match['action']}{match['pattern'] or ''}" if match else ""


def _plain(value: Any) -> Any:
    """An answer as JSON: times as text, bodies read."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if name != "ResponseMetadata"}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "read"):
        return value.read().decode("utf-8", "replace")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
