"""CloudFormation's operations: stacks and change sets. Each operation on a stack runs in a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlparse

from emulator.controlplane.clients import Clients
from emulator.controlplane.cloudformation import describe
from emulator.controlplane.cloudformation.changes import (
    NO_CHANGES,
    ChangeSet,
    changes_of,
    check_capabilities,
    check_known_types,
    same,
)
from emulator.controlplane.cloudformation.deployer import Deployer, Goal
from emulator.controlplane.cloudformation.parameters import given_parameters, resolved_parameters
from emulator.controlplane.cloudformation.resources import RESOURCE_TYPES
from emulator.controlplane.cloudformation.resources.base import Work
from emulator.controlplane.cloudformation.stack import Stack, now
from emulator.controlplane.cloudformation.template import Template, invalid
from emulator.controlplane.wire import AwsError, Caller, Params, Service

log = logging.getLogger(__name__)
_UPDATABLE = {
    "CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE", "UPDATE_FAILED",
    "CREATE_FAILED",
}  # fmt: skip


class CloudFormationApi:
    """All operations. Stacks are kept by ARN, deleted ones too: AWS shows those to who knows the ARN."""

    def __init__(self, clients: Clients, sagemaker: Service, autoscaling: Service) -> None:
        self._clients = clients
        self._sagemaker = sagemaker
        self._autoscaling = autoscaling
        self._lock = threading.RLock()
        self._stacks: dict[str, Stack] = {}
        self._change_sets: dict[str, ChangeSet] = {}
        self._deployer = Deployer(RESOURCE_TYPES, self._work_of, self._import_value)

    # --- stacks

    def CreateStack(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            if self._live(caller, params["StackName"]) is not None:
                raise AwsError("AlreadyExistsException", f"Stack [{params['StackName']}] already exists")
            stack = self._new_stack(caller, params["StackName"], params)
            goal = self._goal(stack, params)
            check_known_types(goal, caller.region)
            check_capabilities(goal, params.get("Capabilities", []))
            goal.template.order  # noqa: B018  (raises for circles and unknown references)
            self._stacks[stack.arn] = stack
            stack.disable_rollback = bool(params.get("DisableRollback")) or params.get("OnFailure") == "DO_NOTHING"
            self._start(stack, "CREATE_IN_PROGRESS", lambda: self._deployer.create(stack, goal))
        return {"StackId": stack.arn}

    def UpdateStack(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            stack = self._updatable(caller, params["StackName"])
            goal = self._goal(stack, params)
            if same(stack, goal):
                raise invalid("No updates are to be performed.")
            check_known_types(goal, caller.region)
            check_capabilities(goal, params.get("Capabilities", []))
            goal.template.order  # noqa: B018
            stack.disable_rollback = bool(params.get("DisableRollback"))
            stack.client_token = params.get("ClientRequestToken")
            self._start(stack, "UPDATE_IN_PROGRESS", lambda: self._deployer.update(stack, goal))
        return {"StackId": stack.arn}

    def DeleteStack(self, caller: Caller, params: Params) -> None:  # noqa: N802
        with self._lock:
            stack = self._live(caller, params["StackName"])
            if stack is None:
                return  # AWS succeeds silently
            if stack.busy:
                raise invalid(f"Stack [{stack.name}] cannot be deleted while in status {stack.status}")
            if stack.termination_protection:
                raise invalid(f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled")
            users = self._importers(stack)
            if users:
                raise invalid(f"Export {users[0]} cannot be deleted as it is in use by {users[1]}")
            if stack.template is None:  # only ever reviewed
                stack.deleted = now()
                stack.move("DELETE_COMPLETE")
                return
            stack.client_token = params.get("ClientRequestToken")
            self._start(stack, "DELETE_IN_PROGRESS", lambda: self._delete(stack))

    def DescribeStacks(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            if params.get("StackName"):
                return {"Stacks": [describe.stack(self._stack(caller, params["StackName"]))]}
            return {"Stacks": [describe.stack(one) for one in self._all(caller) if one.deleted is None]}

    def ListStacks(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        wanted = set(params.get("StackStatusFilter", []))
        with self._lock:
            rows = [describe.summary(one) for one in self._all(caller)]
        return {"StackSummaries": [row for row in rows if not wanted or row["StackStatus"] in wanted]}

    def DescribeStackEvents(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            events = list(reversed(self._stack(caller, params["StackName"]).events))
        start = int(params.get("NextToken") or 0)
        more = {"NextToken": str(start + 100)} if start + 100 < len(events) else {}
        return {"StackEvents": events[start : start + 100], **more}

    def DescribeStackResources(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            stack = self._stack(caller, params.get("StackName", ""))
            wanted = params.get("LogicalResourceId")
            rows = [
                describe.resource(stack, one)
                for one in stack.resources.values()
                if wanted is None or one.logical_id == wanted
            ]
        return {"StackResources": rows}

    def DescribeStackResource(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            stack = self._stack(caller, params["StackName"])
            found = stack.resources.get(params["LogicalResourceId"])
            if found is None:
                raise invalid(f"Resource {params['LogicalResourceId']} does not exist for stack {stack.name}")
            return {"StackResourceDetail": describe.resource_detail(stack, found)}

    def ListStackResources(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            stack = self._stack(caller, params["StackName"])
            return {"StackResourceSummaries": [describe.resource_summary(one) for one in stack.resources.values()]}

    def GetTemplate(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            if params.get("ChangeSetName"):
                template = self._change_set(caller, params).goal.template
            else:
                stack = self._stack(caller, params["StackName"])
                if stack.template is None:  # under review: the CDK CLI asks all the same
                    return {"TemplateBody": "{}", "StagesAvailable": ["Original"]}
                template = stack.template
        return {"TemplateBody": template.body, "StagesAvailable": ["Original", "Processed"]}

    def GetTemplateSummary(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        if params.get("StackName"):
            with self._lock:
                template = self._stack(caller, params["StackName"]).template
            if template is None:
                raise invalid("GetTemplateSummary cannot be called on REVIEW_IN_PROGRESS stacks.")
        else:
            template = Template.read(self._body(caller, params, None))
        return describe.template_summary(template)

    def ValidateTemplate(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        template = Template.read(self._body(caller, params, None))
        template.order  # noqa: B018
        summary = describe.template_summary(template)
        return {"Parameters": summary["Parameters"], "Capabilities": [], "Description": summary.get("Description")}

    def UpdateTerminationProtection(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            stack = self._stack(caller, params["StackName"])
            stack.termination_protection = bool(params["EnableTerminationProtection"])
            return {"StackId": stack.arn}

    def ListExports(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            return {
                "Exports": [
                    {"ExportingStackId": stack.arn, "Name": output.export, "Value": output.value}
                    for stack in self._all(caller)
                    for output in stack.outputs
                    if output.export and stack.deleted is None
                ]
            }

    # --- change sets

    def CreateChangeSet(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            stack, kind = self._change_set_stack(caller, params)
            goal = self._goal(stack, params)
            check_known_types(goal, caller.region)
            check_capabilities(goal, params.get("Capabilities", []))
            change_set = ChangeSet(
                name=params["ChangeSetName"],
                arn=caller.arn("cloudformation", f"changeSet/{params['ChangeSetName']}/{uuid.uuid4()}"),
                stack=stack,
                kind=kind,
                goal=goal,
                description=params.get("Description"),
                changes=changes_of(stack, goal),
                capabilities=params.get("Capabilities", []),
            )
            if kind == "UPDATE" and same(stack, goal):
                change_set.status, change_set.execution_status = "FAILED", "UNAVAILABLE"
                change_set.reason = NO_CHANGES
            self._stacks[stack.arn] = stack
            self._change_sets[change_set.arn] = change_set
        return {"Id": change_set.arn, "StackId": stack.arn}

    def DescribeChangeSet(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            return describe.change_set(self._change_set(caller, params))

    def ListChangeSets(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        with self._lock:
            stack = self._stack(caller, params["StackName"])
            return {
                "Summaries": [
                    describe.change_set_summary(one) for one in self._change_sets.values() if one.stack is stack
                ]
            }

    def DeleteChangeSet(self, caller: Caller, params: Params) -> None:  # noqa: N802
        with self._lock, contextlib.suppress(_ChangeSetNotFoundError):  # deleting an absent one succeeds on AWS
            del self._change_sets[self._change_set(caller, params).arn]

    def ExecuteChangeSet(self, caller: Caller, params: Params) -> None:  # noqa: N802
        with self._lock:
            change_set = self._change_set(caller, params)
            stack, goal = change_set.stack, change_set.goal
            if change_set.execution_status != "AVAILABLE":
                raise AwsError(
                    "InvalidChangeSetStatus",
                    f"ChangeSet [{change_set.arn}] cannot be executed in its current execution status of "
                    f"[{change_set.execution_status}]",
                )
            if stack.busy:
                raise invalid(f"Stack:{stack.arn} is in {stack.status} state and can not be updated.")
            change_set.execution_status = "EXECUTE_COMPLETE"
            for other in [one for one in self._change_sets.values() if one.stack is stack]:
                del self._change_sets[other.arn]  # as AWS does: executing one removes them all
            stack.client_token = params.get("ClientRequestToken")
            stack.disable_rollback = bool(params.get("DisableRollback"))
            run = self._deployer.create if change_set.kind == "CREATE" else self._deployer.update
            self._start(stack, f"{change_set.kind}_IN_PROGRESS", lambda: run(stack, goal))

    # --- inside

    def _start(self, stack: Stack, status: str, run: Callable[[], None]) -> None:
        if status == "UPDATE_IN_PROGRESS":
            stack.updated = now()
        stack.move(status, "User Initiated")

        def guarded() -> None:
            try:
                run()
            except Exception as error:
                log.exception("operation on stack %s broke", stack.name)
                stack.move(status.replace("_IN_PROGRESS", "_FAILED"), f"{type(error).__name__}: {error}")

        threading.Thread(target=guarded, name=f"stack-{stack.name}", daemon=True).start()

    def _delete(self, stack: Stack) -> None:
        self._deployer.delete(stack)
        if stack.status == "DELETE_COMPLETE":
            stack.deleted = now()
            stack.outputs = []

    def _work_of(self, stack: Stack, logical_id: str) -> Work:
        return Work(
            caller=stack.caller,
            stack_name=stack.name,
            logical_id=logical_id,
            clients=self._clients,
            sagemaker=self._sagemaker,
            autoscaling=self._autoscaling,
            stack_tags=stack.tags,
        )

    def _goal(self, stack: Stack, params: Params) -> Goal:
        template = Template.read(self._body(stack.caller, params, stack))
        given = given_parameters(template, params.get("Parameters", []), stack.parameters)
        resolved = resolved_parameters(
            template, given, stack.caller, stack.name, stack.arn, lambda name: self._ssm(stack.caller, name)
        )
        tags = params.get("Tags")
        wanted = stack.tags if tags is None else {tag["Key"]: tag["Value"] for tag in tags}
        return Goal(template, given, resolved, wanted)

    def _body(self, caller: Caller, params: Params, stack: Stack | None) -> str:
        if params.get("TemplateBody"):
            return str(params["TemplateBody"])
        if params.get("TemplateURL"):
            return self._fetch(caller, params["TemplateURL"])
        if params.get("UsePreviousTemplate") and stack is not None and stack.template is not None:
            return stack.template.body
        raise invalid("Either Template URL or Template Body must be specified.")

    def _fetch(self, caller: Caller, url: str) -> str:
        """Read a template from S3 here: path style (`host/bucket/key`) or `bucket.s3...` host names."""
        parsed = urlparse(url)
        path = unquote(parsed.path).lstrip("/")
        host = parsed.hostname or ""
        if host.startswith("s3") or host in ("localhost", "127.0.0.1", "::1"):
            bucket, _, name = path.partition("/")
        else:
            bucket, name = host.split(".")[0], path
        try:
            found = self._clients.client("s3", caller).get_object(Bucket=bucket, Key=name)
        except Exception as error:
            raise invalid(f"S3 error: {error}; template URL {url}") from None
        return str(found["Body"].read().decode())

    def _ssm(self, caller: Caller, name: str) -> str:
        try:
            found = self._clients.client("ssm", caller).get_parameter(Name=name, WithDecryption=True)
        except Exception:
            raise invalid(f"Unable to fetch parameters [{name}] from parameter store for this account.") from None
        return str(found["Parameter"]["Value"])

    def _import_value(self, stack: Stack, name: str) -> str:
        with self._lock:
            for other in self._all(stack.caller):
                for output in other.outputs:
                    if output.export == name and other.deleted is None:
                        return output.value
        raise invalid(f"No export named {name} found.")

    def _importers(self, stack: Stack) -> tuple[str, str] | None:
        exports = {output.export for output in stack.outputs if output.export}
        for other in self._all(stack.caller):
            if other is not stack and other.deleted is None and other.template is not None:
                for name in exports:
                    if f'"Fn::ImportValue": "{name}"' in other.template.body:
                        return str(name), other.name
        return None

    def _all(self, caller: Caller) -> list[Stack]:
        return [
            stack
            for stack in self._stacks.values()
            if (stack.caller.account, stack.caller.region) == (caller.account, caller.region)
        ]

    def _live(self, caller: Caller, name: str) -> Stack | None:
        for stack in self._all(caller):
            if name in (stack.arn, stack.name) and stack.deleted is None:
                return stack
        return None

    def _stack(self, caller: Caller, name: str) -> Stack:
        stack = self._live(caller, name) or self._stacks.get(name)
        if stack is None:
            raise invalid(f"Stack with id {name} does not exist")
        return stack

    def _updatable(self, caller: Caller, name: str) -> Stack:
        stack = self._live(caller, name)
        if stack is None:
            raise invalid(f"Stack [{name}] does not exist")
        if stack.status not in _UPDATABLE:
            raise invalid(f"Stack:{stack.arn} is in {stack.status} state and can not be updated.")
        return stack

    def _new_stack(self, caller: Caller, name: str, params: Params) -> Stack:
        return Stack(
            name=name,
            arn=caller.arn("cloudformation", f"stack/{name}/{uuid.uuid4()}"),
            caller=caller,
            status="REVIEW_IN_PROGRESS",
            capabilities=params.get("Capabilities", []),
            role_arn=params.get("RoleARN"),
            termination_protection=bool(params.get("EnableTerminationProtection")),
            client_token=params.get("ClientRequestToken"),
        )

    def _change_set_stack(self, caller: Caller, params: Params) -> tuple[Stack, str]:
        name, kind = params["StackName"], params.get("ChangeSetType", "UPDATE")
        if kind == "UPDATE":
            return self._updatable(caller, name), kind
        if kind != "CREATE":
            raise AwsError("UnsupportedOperation", f"The local cloud does not provide change sets of type {kind}.")
        stack = self._live(caller, name)
        if stack is None:
            stack = self._new_stack(caller, name, params)
            stack.move("REVIEW_IN_PROGRESS", "User Initiated")
        elif stack.status != "REVIEW_IN_PROGRESS":
            raise invalid(
                f"Stack [{name}] already exists and cannot be created again with the changeSet "
                f"[{params['ChangeSetName']}]."
            )
        return stack, kind

    def _change_set(self, caller: Caller, params: Params) -> ChangeSet:
        name = params["ChangeSetName"]
        for one in self._change_sets.values():
            if one.arn == name or (one.name == name and params.get("StackName") in (one.stack.name, one.stack.arn)):
                return one
        raise _ChangeSetNotFoundError(f"ChangeSet [{name}] does not exist")


class _ChangeSetNotFoundError(AwsError):
    def __init__(self, message: str) -> None:
        super().__init__("ChangeSetNotFound", message, 404)
