"""Step Functions' API over our executor: standard workflows only."""

from __future__ import annotations

import json
import logging
import re
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from emulator.controlplane.clients import Clients
from emulator.controlplane.jobs.executor import Executor, StoppedError, problems_of
from emulator.controlplane.jobs.paths import StateError
from emulator.controlplane.jobs.tasks import ServiceTasks
from emulator.controlplane.wire import AwsError, Caller, Params

log = logging.getLogger(__name__)
RoleCheck = Callable[[str, str, str], str | None]  # account, role's ARN, service: why it cannot be assumed
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_MOST_INPUT_BYTES = 256 * 1024


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Execution:
    """One run of a state machine; status as the API says it."""

    name: str
    arn: str
    machine_arn: str
    given: str
    status: str = "RUNNING"
    started: datetime = field(default_factory=_now)
    stopped_at: datetime | None = None
    output: str | None = None
    error: str | None = None
    cause: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Machine:
    name: str
    arn: str
    caller: Caller
    role_arn: str
    definition: str
    more: dict[str, Any]
    created: datetime = field(default_factory=_now)
    executions: dict[str, Execution] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


class MachineApi:
    """State machines of all accounts and regions of one local cloud."""

    def __init__(self, clients: Clients, roles: RoleCheck) -> None:
        self._clients, self._roles = clients, roles
        self._lock = threading.RLock()
        self._machines: dict[str, Machine] = {}

    def CreateStateMachine(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        if params.get("type", "STANDARD") != "STANDARD":
            raise AwsError("UnsupportedOperation", "The local cloud runs STANDARD state machines only.")
        name = params["name"]
        if not _NAME.fullmatch(name):
            raise AwsError("InvalidName", f"Invalid Name: '{name}'")
        self._check(caller, params["definition"], params["roleArn"])
        arn = caller.arn("states", f"stateMachine:{name}")
        more: dict[str, Any] = {
            key: params[key] for key in ("loggingConfiguration", "tracingConfiguration") if key in params
        }
        with self._lock:
            if arn in self._machines:
                raise AwsError("StateMachineAlreadyExists", f"State Machine Already Exists: '{arn}'")
            machine = Machine(name, arn, caller, params["roleArn"], params["definition"], more)
            machine.tags = {tag["key"]: tag["value"] for tag in params.get("tags", [])}
            self._machines[arn] = machine
        return {"stateMachineArn": arn, "creationDate": machine.created}

    def UpdateStateMachine(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        machine = self._machine(params["stateMachineArn"])
        definition = params.get("definition", machine.definition)
        role_arn = params.get("roleArn", machine.role_arn)
        self._check(caller, definition, role_arn)
        machine.definition, machine.role_arn = definition, role_arn
        machine.more |= {key: params[key] for key in ("loggingConfiguration", "tracingConfiguration") if key in params}
        return {"updateDate": _now()}

    def DescribeStateMachine(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        machine = self._machine(params["stateMachineArn"])
        return {
            "stateMachineArn": machine.arn,
            "name": machine.name,
            "status": "ACTIVE",
            "definition": machine.definition,
            "roleArn": machine.role_arn,
            "type": "STANDARD",
            "creationDate": machine.created,
            **machine.more,
        }

    def ListStateMachines(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        rows = [
            {"stateMachineArn": one.arn, "name": one.name, "type": "STANDARD", "creationDate": one.created}
            for one in self._machines.values()
            if (one.caller.account, one.caller.region) == (caller.account, caller.region)
        ]
        return {"stateMachines": rows}

    def DeleteStateMachine(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        with self._lock:
            machine = self._machines.pop(params["stateMachineArn"], None)
        for execution in machine.executions.values() if machine else ():
            execution.stop.set()
        return {}

    def TagResource(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        self._machine(params["resourceArn"]).tags |= {tag["key"]: tag["value"] for tag in params["tags"]}
        return {}

    def ListTagsForResource(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        tags = self._machine(params["resourceArn"]).tags
        return {"tags": [{"key": key, "value": value} for key, value in tags.items()]}

    def StartExecution(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        machine = self._machine(params["stateMachineArn"])
        name, given = params.get("name") or str(uuid.uuid4()), params.get("input", "{}")
        if not _NAME.fullmatch(name):
            raise AwsError("InvalidName", f"Invalid Name: '{name}'")
        try:
            data = json.loads(given)
        except ValueError:
            raise AwsError("InvalidExecutionInput", "Invalid State Machine Execution Input: no JSON") from None
        if len(given.encode()) > _MOST_INPUT_BYTES:
            raise AwsError("InvalidExecutionInput", "Invalid State Machine Execution Input: more than 256 KiB")
        arn = machine.arn.replace(":stateMachine:", ":execution:") + f":{name}"
        with self._lock:
            known = machine.executions.get(name)
            if known is not None:
                if known.status == "RUNNING" and known.given == given:
                    return {"executionArn": arn, "startDate": known.started}
                raise AwsError("ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'")
            execution = machine.executions[name] = Execution(name, arn, machine.arn, given)
        threading.Thread(target=self._run, args=(machine, execution, data), name=f"run-{name}", daemon=True).start()
        return {"executionArn": arn, "startDate": execution.started}

    def DescribeExecution(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        execution = self._execution(params["executionArn"])
        found = {**_row(execution), "input": execution.given}
        more = {"output": execution.output, "error": execution.error, "cause": execution.cause}
        return found | {name: value for name, value in more.items() if value is not None}

    def ListExecutions(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        machine, wanted = self._machine(params["stateMachineArn"]), params.get("statusFilter")
        rows = [_row(one) for one in machine.executions.values() if wanted in (None, one.status)]
        return {"executions": sorted(rows, key=lambda row: row["startDate"], reverse=True)}

    def StopExecution(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        execution = self._execution(params["executionArn"])
        with self._lock:
            if execution.status == "RUNNING":
                execution.status, execution.stopped_at = "ABORTED", _now()
                execution.error, execution.cause = params.get("error"), params.get("cause")
        execution.stop.set()
        return {"stopDate": execution.stopped_at}

    def GetExecutionHistory(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        return {"events": self._execution(params["executionArn"]).events}

    def stop(self) -> None:
        """Every execution ends with the local cloud."""
        for machine in list(self._machines.values()):
            for execution in machine.executions.values():
                execution.stop.set()

    def _run(self, machine: Machine, execution: Execution, data: Any) -> None:
        def tell(kind: str, state: str, details: dict[str, Any]) -> None:
            side = "stateEnteredEventDetails" if kind.endswith("Entered") else "stateExitedEventDetails"
            number = len(execution.events) + 1
            execution.events.append(
                {"timestamp": _now(), "type": kind, "id": number, "previousEventId": number - 1, side: details}
            )

        context = {
            "Execution": {
                "Id": execution.arn,
                "Input": data,
                "Name": execution.name,
                "RoleArn": machine.role_arn,
                "StartTime": execution.started.isoformat(),
            },
            "StateMachine": {"Id": machine.arn, "Name": machine.name},
        }
        tasks = ServiceTasks(self._clients, machine.caller)
        try:
            output = Executor(tasks, context, tell, execution.stop).run(json.loads(machine.definition), data)
            self._end(execution, "SUCCEEDED", output=json.dumps(output))
        except StoppedError:
            self._end(execution, "ABORTED")
        except StateError as error:
            self._end(execution, "FAILED", error=error.name, cause=error.cause)
        except Exception as error:
            log.exception("execution %s broke", execution.arn)
            self._end(execution, "FAILED", error="States.Runtime", cause=f"{type(error).__name__}: {error}")

    def _end(self, execution: Execution, status: str, **more: str) -> None:
        with self._lock:
            if execution.status == "RUNNING":
                execution.status, execution.stopped_at = status, _now()
                for name, value in more.items():
                    setattr(execution, name, value)

    def _check(self, caller: Caller, definition: str, role_arn: str) -> None:
        try:
            parsed = json.loads(definition)
        except ValueError as error:
            message = f"Invalid State Machine Definition: 'INVALID_JSON_DESCRIPTION: {error}'"
            raise AwsError("InvalidDefinition", message) from None
        problems = list(problems_of(parsed, ServiceTasks(self._clients, caller)))
        if problems:
            raise AwsError("InvalidDefinition", f"Invalid State Machine Definition: '{'; '.join(problems)}'")
        why = self._roles(caller.account, role_arn, "states.amazonaws.com")
        if why:
            message = (
                "Neither the global service principal states.amazonaws.com, nor the regional one is authorized to "
                f"assume the provided role: {why}."
            )
            raise AwsError("AccessDeniedException", message)

    def _machine(self, arn: str) -> Machine:
        with self._lock:
            if arn not in self._machines:
                raise AwsError("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")
            return self._machines[arn]

    def _execution(self, arn: str) -> Execution:
        with self._lock:
            for machine in self._machines.values():
                for execution in machine.executions.values():
                    if execution.arn == arn:
                        return execution
        raise AwsError("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")


def _row(execution: Execution) -> dict[str, Any]:
    row = {
        "executionArn": execution.arn,
        "stateMachineArn": execution.machine_arn,
        "name": execution.name,
        "status": execution.status,
        "startDate": execution.started,
    }
    return row | ({"stopDate": execution.stopped_at} if execution.stopped_at else {})
