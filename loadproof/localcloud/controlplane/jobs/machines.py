"""Step Functions' API over moto's interpreter. Loaded with the first request: moto takes a second of CPU to load."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from moto.stepfunctions.parser.api import StateMachineType
from moto.stepfunctions.parser.backend.state_machine import StateMachineRevision

from loadproof.localcloud.clients import Clients
from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.jobs.definitions import problems_of
from loadproof.localcloud.controlplane.jobs.interpreter import Run
from loadproof.localcloud.wire import AwsError, Caller, Params, add_tags, known, paged

RoleCheck = Callable[[str, str, str], str | None]  # account, role's ARN, service: why it cannot be assumed
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_MOST_INPUT_BYTES = 256 * 1024
_PAGE = 100
_PAGING = ("maxResults", "nextToken")
_NO_LOGS = {"level": "OFF", "includeExecutionData": False}
_STOP_S = 5.0
_TOO_MANY = "TooManyTags"


class MachineApi:
    """State machines of all accounts and regions of one local cloud."""

    def __init__(self, clients: Clients, roles: RoleCheck, clock: CloudClock) -> None:
        self._clients, self._roles, self._clock = clients, roles, clock
        self._lock = threading.RLock()
        self._machines: dict[str, StateMachineRevision] = {}
        self._runs: dict[str, Run] = {}

    def CreateStateMachine(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        _refuse_versions(params)
        name, kind = params["name"], StateMachineType(params.get("type", "STANDARD"))
        _check_name(name)
        _check_logging(params.get("loggingConfiguration"))
        add_tags({}, {tag["key"]: tag.get("value", "") for tag in params.get("tags") or []}, _TOO_MANY)
        self._check(caller, params["definition"], params["roleArn"], kind)
        arn = caller.arn("states", f"stateMachine:{name}")
        made = StateMachineRevision(
            name=name,
            arn=arn,
            definition=params["definition"],
            role_arn=params["roleArn"],
            logging_config=params.get("loggingConfiguration", _NO_LOGS),
            cloud_watch_logging_configuration=None,
            create_date=datetime.now(UTC),
            sm_type=kind,
            tags=params.get("tags"),
            tracing_config=params.get("tracingConfiguration", {"enabled": False}),
        )
        with self._lock:
            known = self._machines.setdefault(arn, made)
            if known is not made and _settings(known) != _settings(made):
                raise AwsError("StateMachineAlreadyExists", f"State Machine Already Exists: '{arn}'")
        return {"stateMachineArn": arn, "creationDate": known.create_date}

    def UpdateStateMachine(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        _refuse_versions(params)
        machine = self._machine(params["stateMachineArn"])
        if not params.keys() & {"definition", "roleArn", "loggingConfiguration", "tracingConfiguration"}:
            raise AwsError(
                "MissingRequiredParameter",
                "Either the definition, the role ARN, the LoggingConfiguration, or the TracingConfiguration must be "
                "specified",
            )
        _check_logging(params.get("loggingConfiguration"))
        definition = params.get("definition", machine.definition)
        role_arn = params.get("roleArn", machine.role_arn)
        self._check(caller, definition, role_arn, machine.sm_type)
        with self._lock:
            machine.definition, machine.role_arn, machine.revision_id = definition, role_arn, str(uuid.uuid4())
            machine.logging_config = params.get("loggingConfiguration", machine.logging_config)
            machine.tracing_config = params.get("tracingConfiguration", machine.tracing_config)
        return {"updateDate": datetime.now(UTC), "revisionId": machine.revision_id}

    def DescribeStateMachine(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        machine = self._machine(params["stateMachineArn"])
        return {
            **machine.describe(),
            "tracingConfiguration": machine.tracing_config,
            "encryptionConfiguration": {"type": "AWS_OWNED_KEY"},
        }

    def ValidateStateMachineDefinition(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        problems = problems_of(params["definition"], express=params.get("type") == "EXPRESS")
        found = [_diagnostic(problem) for problem in problems]
        return {"result": "FAIL" if found else "OK", "diagnostics": found, "truncated": False}

    def ListStateMachines(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        home = caller.arn("states", "stateMachine:")
        rows = [machine.itemise() for arn, machine in sorted(self._machines.items()) if arn.startswith(home)]
        return paged(rows, params, "stateMachines", _PAGE, *_PAGING)

    def DeleteStateMachine(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        with self._lock:
            self._machines.pop(params["stateMachineArn"], None)
            gone = [run for run in self._runs.values() if run.state_machine.arn == params["stateMachineArn"]]
            for run in gone:
                del self._runs[run.exec_arn]
        for run in gone:
            run.abort(None, None)
        return {}

    def TagResource(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        manager = self._tagged(params["resourceArn"]).tag_manager
        kept = {str(tag["key"]): str(tag["value"]) for tag in manager.to_tag_list()}
        add_tags(kept, {tag["key"]: tag.get("value", "") for tag in params["tags"]}, _TOO_MANY)
        manager.add_all(params["tags"])
        return {}

    def UntagResource(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        self._tagged(params["resourceArn"]).tag_manager.remove_all(params["tagKeys"])
        return {}

    def ListTagsForResource(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        return {"tags": self._tagged(params["resourceArn"]).tag_manager.to_tag_list()}

    def StartExecution(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        run = self._started(caller, params)
        return {"executionArn": run.exec_arn, "startDate": run.start_date}

    def StartSyncExecution(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        if self._machine(params["stateMachineArn"]).sm_type != StateMachineType.EXPRESS:
            raise _wrong_type()
        run = self._started(caller, params)
        run.over.wait()
        found = run.described()
        status = found["status"] if found["status"] != "ABORTED" else "FAILED"
        took_ms = (found["stopDate"] - found["startDate"]).total_seconds() * 1000
        billed = {"billedMemoryUsedInMB": 64, "billedDurationInMilliseconds": -int(-took_ms // 100) * 100}
        return known(**{**found, "status": status, "billingDetails": billed})

    def DescribeExecution(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        return known(**_with_redrive(self._run(params).described()))

    def DescribeStateMachineForExecution(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        return known(**self._run(params).to_describe_state_machine_for_execution_output())

    def ListExecutions(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        if ("stateMachineArn" in params) == ("mapRunArn" in params):
            raise AwsError("ValidationException", "Specify either a mapRunArn or a stateMachineArn, but not both.")
        if "mapRunArn" in params:
            raise AwsError("UnsupportedOperation", "The local cloud does not provide executions of a Map Run.")
        machine, wanted = self._machine(params["stateMachineArn"]), params.get("statusFilter")
        if machine.sm_type == StateMachineType.EXPRESS:
            raise _wrong_type()
        with self._lock:
            runs = [run for run in self._runs.values() if run.state_machine.arn == machine.arn]
        rows = [
            {**known(**run.to_execution_list_item()), "redriveCount": 0}
            for run in runs
            if wanted in (None, run.exec_status)
        ]
        rows.sort(key=lambda row: row["startDate"], reverse=True)
        return paged(rows, params, "executions", _PAGE, *_PAGING)

    def StopExecution(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        run = self._run(params)
        run.abort(params.get("error"), params.get("cause"))
        return {"stopDate": run.stop_date}

    def GetExecutionHistory(self, caller: Caller, params: Params) -> Params:  # noqa: N802
        events = self._run(params).events()
        return paged(events[::-1] if params.get("reverseOrder") else events, params, "events", _PAGE, *_PAGING)

    def stop(self) -> None:
        """Every execution ends with the local cloud; a thread that waits for an answer ends with the server."""
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run.abort(None, None)
        until_s = time.monotonic() + _STOP_S
        for run in runs:
            run.join(until_s)

    def _started(self, caller: Caller, params: Params) -> Run:
        machine, given = self._machine(params["stateMachineArn"]), params.get("input", "{}")
        name = params.get("name") or str(uuid.uuid4())
        _check_name(name)
        try:
            json.loads(given)
        except json.JSONDecodeError as error:
            fault = _json_fault(given, error)
            raise AwsError("InvalidExecutionInput", f"Invalid State Machine Execution Input: '{fault}'") from None
        if len(given.encode()) > _MOST_INPUT_BYTES:
            raise AwsError("InvalidExecutionInput", "Invalid State Machine Execution Input: more than 256 KiB")
        express = machine.sm_type == StateMachineType.EXPRESS
        arn = machine.arn.replace(":stateMachine:", ":express:" if express else ":execution:") + f":{name}"
        arn += f":{uuid.uuid4()}" if express else ""
        with self._lock:
            known = self._runs.get(arn)
            if known is not None:
                if not known.over.is_set() and known.execution_input == given:
                    return known
                raise AwsError("ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'")
            run = self._runs[arn] = Run(self._clients, self._clock, caller, machine, name=name, arn=arn, given=given)
            run.start()
        return run

    def _check(self, caller: Caller, definition: str, role_arn: str, kind: StateMachineType) -> None:
        _check_arn(role_arn)
        problems = list(problems_of(definition, express=kind == StateMachineType.EXPRESS))
        if problems:
            raise AwsError("InvalidDefinition", f"Invalid State Machine Definition: '{', '.join(problems)}'")
        why = self._roles(caller.account, role_arn, "states.amazonaws.com")
        if why:
            message = (
                "Neither the global service principal states.amazonaws.com, nor the regional one is authorized to "
                f"assume the provided role: {why}."
            )
            raise AwsError("AccessDeniedException", message)

    def _machine(self, arn: str) -> StateMachineRevision:
        _check_arn(arn)
        with self._lock:
            if arn not in self._machines:
                raise AwsError("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")
            return self._machines[arn]

    def _tagged(self, arn: str) -> StateMachineRevision:
        """Operations on tags have a code of their own for what is not there."""
        with suppress(AwsError):
            return self._machine(arn)
        raise AwsError("ResourceNotFound", f"Resource not found: '{arn}'")

    def _run(self, params: Params) -> Run:
        arn = params["executionArn"]
        _check_arn(arn)
        if ":express:" in arn:
            raise AwsError("InvalidArn", "Invalid Arn: 'Resource type not valid in this context: express'")
        with self._lock:
            if arn not in self._runs:
                raise AwsError("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
            return self._runs[arn]


def _settings(machine: StateMachineRevision) -> tuple[object, ...]:
    """What a second creation must repeat to be the first again."""
    return (
        machine.definition,
        machine.role_arn,
        machine.sm_type,
        machine.logging_config,
        machine.tracing_config,
    )


def _check_arn(arn: str) -> None:
    if not arn.startswith("arn:"):
        raise AwsError("InvalidArn", f"Invalid Arn: 'Invalid ARN prefix: {arn}'")


def _json_fault(text: str, error: json.JSONDecodeError) -> str:
    """Why a text is no JSON, in the words of AWS's parser where they were recorded."""
    if not text:
        return "Invalid execution input."
    word = re.compile(r"\w+").match(text, error.pos)
    if error.msg == "Expecting value" and word:
        expected = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
        return f"Unrecognized token '{word[0]}': was expecting {expected}"
    if error.msg.startswith("Expecting property name") and error.pos < len(text):
        found = text[error.pos]
        return f"Unexpected character ('{found}' (code {ord(found)})): was expecting double-quote to start field name"
    return str(error)


def _with_redrive(described: Params) -> Params:
    status = str(getattr(described["status"], "value", described["status"]))
    if status not in ("SUCCEEDED", "RUNNING"):
        return {**described, "redriveCount": 0}
    reason = f"Execution is {status} and cannot be redriven"
    return {**described, "redriveCount": 0, "redriveStatus": "NOT_REDRIVABLE", "redriveStatusReason": reason}


def _diagnostic(problem: str) -> Params:
    """A problem's code, message and place apart."""
    code, _, told = problem.partition(": ")
    message, _, place = told.rpartition(" at /")
    where = {"location": f"/{place}"} if message else {}
    return {"severity": "ERROR", "code": code, "message": message or told, **where}


def _refuse_versions(params: Params) -> None:
    if params.get("versionDescription") and not params.get("publish"):
        raise AwsError("ValidationException", "Version description can only be set when publish is true")
    if params.get("publish"):
        raise AwsError("UnsupportedOperation", "The local cloud keeps no versions of state machines.")


def _check_logging(logging: Params | None) -> None:
    """A level that writes something needs where."""
    if logging and logging.get("level", "OFF") != "OFF" and not logging.get("destinations"):
        raise AwsError(
            "InvalidLoggingConfiguration", "Invalid Logging Configuration: Must specify exactly one Log Destination."
        )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise AwsError("InvalidName", f"Invalid Name: '{name}'")


def _wrong_type() -> AwsError:
    return AwsError("StateMachineTypeNotSupported", "This operation is not supported by this type of state machine")
