"""CloudFormation's operations on stacks."""

from __future__ import annotations

from loadproof.localcloud.controlplane.cloudformation import describe
from loadproof.localcloud.controlplane.cloudformation.changes import of_another_type, same
from loadproof.localcloud.controlplane.cloudformation.registry import Registry
from loadproof.localcloud.controlplane.cloudformation.removal import check_retained
from loadproof.localcloud.controlplane.cloudformation.stack import now
from loadproof.localcloud.controlplane.cloudformation.template import Template, invalid
from loadproof.localcloud.wire import AwsError, Caller, Params
from loadproof.wire.documents import Document


class StackOperations(Registry):
    """Create, update, delete, and every way to look."""

    def CreateStack(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        reviewed = self._live(caller, params["StackName"])
        if reviewed is not None and reviewed.status != "REVIEW_IN_PROGRESS":
            raise AwsError("AlreadyExistsException", f"Stack [{params['StackName']}] already exists")
        stack = self._new_stack(caller, params["StackName"], params)
        if reviewed is not None:  # goes on under its id
            stack.arn, stack.events = reviewed.arn, reviewed.events
        goal = self._goal(stack, params)
        for one in self._change_sets.values():
            if one.stack is reviewed:
                one.stack, one.execution_status = stack, "OBSOLETE"
        self._stacks[stack.arn] = stack
        stack.disable_rollback = bool(params.get("DisableRollback")) or params.get("OnFailure") == "DO_NOTHING"
        self._start(stack, "CREATE_IN_PROGRESS", lambda: self._deployer.create(stack, goal))
        return {"StackId": stack.arn}

    def UpdateStack(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        stack = self._updatable(caller, params["StackName"])
        goal = self._goal(stack, params)
        if same(stack, goal):
            raise invalid("No updates are to be performed.")
        if changed := of_another_type(stack, goal):
            raise invalid(changed)
        stack.disable_rollback = bool(params.get("DisableRollback"))
        stack.client_token = params.get("ClientRequestToken")
        self._start(stack, "UPDATE_IN_PROGRESS", lambda: self._deployer.update(stack, goal))
        return {"StackId": stack.arn}

    def DeleteStack(self, caller: Caller, params: Params) -> None:  # noqa: N802
        stack = self._live(caller, params["StackName"])
        if stack is None:
            return  # AWS succeeds silently
        if stack.busy:
            raise invalid(f"Stack [{stack.name}] cannot be deleted while in status {stack.status}")
        if stack.termination_protection:
            raise invalid(f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled")
        retained = params.get("RetainResources") or []
        if retained:
            check_retained(stack, retained)
        users = self._importers(stack, [output.export for output in stack.outputs if output.export])
        if users:
            raise invalid(f"Export {users[0]} cannot be deleted as it is in use by {users[1]}")
        if stack.template is None:  # only ever reviewed
            stack.deleted = now()
            stack.move("DELETE_COMPLETE")
            return
        stack.client_token = params.get("ClientRequestToken")
        self._start(stack, "DELETE_IN_PROGRESS", lambda: self._delete(stack, retained))

    def DescribeStacks(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        if params.get("StackName"):
            return {"Stacks": [describe.stack(self._stack(caller, params["StackName"]))]}
        return {"Stacks": [describe.stack(one) for one in self._all(caller) if one.deleted is None]}

    def ListStacks(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        wanted = set(params.get("StackStatusFilter", []))
        rows = [describe.summary(one) for one in self._all(caller)]
        return {"StackSummaries": [row for row in rows if not wanted or row["StackStatus"] in wanted]}

    def DescribeStackEvents(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        events = list(reversed(self._stack(caller, params["StackName"], "Stack [{}] does not exist").events))
        start = int(params.get("NextToken") or 0)
        more = {"NextToken": str(start + 100)} if start + 100 < len(events) else {}
        return {"StackEvents": events[start : start + 100], **more}

    def DescribeStackResources(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        stack = self._stack(caller, params.get("StackName", ""))
        wanted = params.get("LogicalResourceId")
        rows = [
            describe.resource(stack, one)
            for one in stack.resources.values()
            if wanted is None or one.logical_id == wanted
        ]
        return {"StackResources": rows}

    def DescribeStackResource(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        stack = self._stack(caller, params["StackName"], "Stack '{}' does not exist")
        found = stack.resources.get(params["LogicalResourceId"])
        if found is None:
            raise invalid(f"Resource {params['LogicalResourceId']} does not exist for stack {stack.name}")
        return {"StackResourceDetail": describe.resource_detail(stack, found)}

    def ListStackResources(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        stack = self._stack(caller, params["StackName"])
        return {"StackResourceSummaries": [describe.resource_summary(one) for one in stack.resources.values()]}

    def GetTemplate(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        if "StackName" not in params and not params.get("ChangeSetName", "").startswith("arn:"):
            required = "StackName is a required parameter."
            raise invalid(
                required if "ChangeSetName" in params else "StackName is required if ChangeSetName is not specified."
            )
        if params.get("ChangeSetName"):
            template = self._change_set(caller, params).goal.template
        else:
            stack = self._stack(caller, params["StackName"])
            if stack.template is None:  # under review: the CDK CLI asks all the same
                return {"TemplateBody": "{}", "StagesAvailable": ["Original"]}
            template = stack.template
        return {"TemplateBody": template.body, "StagesAvailable": ["Original", "Processed"]}

    def GetTemplateSummary(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        if params.get("StackName"):
            template = self._stack(caller, params["StackName"]).template
            if template is None:
                raise invalid("GetTemplateSummary cannot be called on REVIEW_IN_PROGRESS stacks.")
        else:
            template = Template.read(self._body(caller, params, None))
        return describe.template_summary(template)

    def ValidateTemplate(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        template = Template.read(self._body(caller, params, None))
        template.order  # noqa: B018
        summary = describe.template_summary(template)
        return {"Parameters": summary["Parameters"], "Capabilities": [], "Description": summary.get("Description")}

    def UpdateTerminationProtection(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        stack = self._stack(caller, params["StackName"])
        stack.termination_protection = bool(params["EnableTerminationProtection"])
        return {"StackId": stack.arn}

    def ListExports(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        return {
            "Exports": [
                {"ExportingStackId": stack.arn, "Name": output.export, "Value": output.value}
                for stack in self._all(caller)
                for output in stack.outputs
                if output.export and stack.deleted is None
            ]
        }
