"""CloudFormation's operations on change sets: how the CDK CLI deploys."""

from __future__ import annotations

import contextlib
import uuid

from loadproof.localcloud.controlplane.cloudformation import describe
from loadproof.localcloud.controlplane.cloudformation.changes import (
    NO_CHANGES,
    ChangeSet,
    changes_of,
    of_another_type,
    same,
)
from loadproof.localcloud.controlplane.cloudformation.registry import ChangeSetNotFoundError, Registry
from loadproof.localcloud.controlplane.cloudformation.stack import now
from loadproof.localcloud.controlplane.cloudformation.template import invalid
from loadproof.localcloud.wire import AwsError, Caller, Params
from loadproof.wire.documents import Document


class ChangeSetOperations(Registry):
    """What would change, told beforehand; then done."""

    def CreateChangeSet(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        stack, kind = self._change_set_stack(caller, params)
        for one in self._change_sets.values():
            if one.stack is stack and one.name == params["ChangeSetName"]:
                raise AwsError("AlreadyExistsException", f"ChangeSet {one.name} already exists")
        goal = self._goal(stack, params)
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
        if kind == "UPDATE" and (changed := of_another_type(stack, goal)):
            change_set.status, change_set.execution_status, change_set.reason = "FAILED", "UNAVAILABLE", changed
        self._stacks[stack.arn] = stack
        self._change_sets[change_set.arn] = change_set
        return {"Id": change_set.arn, "StackId": stack.arn}

    def DescribeChangeSet(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        return describe.change_set(self._change_set(caller, params))

    def ListChangeSets(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        stack = self._stack(caller, params["StackName"])
        return {
            "Summaries": [describe.change_set_summary(one) for one in self._change_sets.values() if one.stack is stack]
        }

    def DeleteChangeSet(self, caller: Caller, params: Params) -> None:  # noqa: N802
        with contextlib.suppress(ChangeSetNotFoundError):  # deleting an absent one succeeds on AWS
            del self._change_sets[self._change_set(caller, params).arn]

    def ExecuteChangeSet(self, caller: Caller, params: Params) -> None:  # noqa: N802
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
        stack.change_set_arn, stack.updated = change_set.arn, now()
        run = self._deployer.create if change_set.kind == "CREATE" else self._deployer.update
        self._start(stack, f"{change_set.kind}_IN_PROGRESS", lambda: run(stack, goal))
