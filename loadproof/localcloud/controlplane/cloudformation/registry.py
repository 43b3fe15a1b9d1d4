"""What CloudFormation keeps, and how an operation on a stack begins: found, checked, started in a thread of its own."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlparse

from loadproof.localcloud.clients import Clients
from loadproof.localcloud.controlplane.cloudformation import grammar
from loadproof.localcloud.controlplane.cloudformation.changes import ChangeSet, check_capabilities, check_known_types
from loadproof.localcloud.controlplane.cloudformation.deployer import Deployer, Goal
from loadproof.localcloud.controlplane.cloudformation.exports import imported_names
from loadproof.localcloud.controlplane.cloudformation.parameters import (
    check_defaults,
    given_parameters,
    resolved_parameters,
)
from loadproof.localcloud.controlplane.cloudformation.requests import (
    active_references,
    check_name,
    check_request,
    check_template,
)
from loadproof.localcloud.controlplane.cloudformation.resources import RESOURCE_TYPES
from loadproof.localcloud.controlplane.cloudformation.resources.base import Work
from loadproof.localcloud.controlplane.cloudformation.stack import Output, Stack, now
from loadproof.localcloud.controlplane.cloudformation.template import Resolver, Template, invalid
from loadproof.localcloud.wire import AwsError, Caller, Params, Service

log = logging.getLogger(__name__)
_MOST_BYTES = 1_000_000  # CloudFormation quotas: a template that is given by its place in S3
_UPDATABLE = {
    "CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE", "UPDATE_FAILED",
    "CREATE_FAILED",
}  # fmt: skip
_NOT_PROVIDED = (
    "StackPolicyBody",
    "StackPolicyURL",
    "ResourcesToImport",
    "RollbackConfiguration",
    "DeploymentMode",
)


class Registry:
    """Stacks are kept by ARN, deleted ones too: AWS shows those to who knows the ARN."""

    def __init__(self, clients: Clients, sagemaker: Service, autoscaling: Service) -> None:
        self._clients = clients
        self._sagemaker = sagemaker
        self._autoscaling = autoscaling
        self.lock = threading.RLock()
        self._stacks: dict[str, Stack] = {}
        self._change_sets: dict[str, ChangeSet] = {}
        self._deployer = Deployer(RESOURCE_TYPES, self._work_of, self._import_value, self._check_exports)

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

    def _delete(self, stack: Stack, retained: Sequence[str]) -> None:
        self._deployer.delete(stack, retained)
        if stack.status == "DELETE_COMPLETE":
            stack.deleted = now()
            stack.outputs = []

    def _work_of(self, stack: Stack, logical_id: str) -> Work:
        assert stack.template is not None
        held = stack.resources.get(logical_id)
        return Work(
            caller=stack.caller,
            stack_name=stack.name,
            stack_id=stack.arn,
            logical_id=logical_id,
            type_name=held.type_name if held else stack.template.resources[logical_id]["Type"],
            clients=self._clients,
            sagemaker=self._sagemaker,
            autoscaling=self._autoscaling,
            stack_tags=stack.tags,
        )

    def _goal(self, stack: Stack, params: Params) -> Goal:
        """What a request makes of a stack. Raises AwsError for all that AWS refuses before it starts."""
        check_request(stack.caller, params)
        refused = [name for name in _NOT_PROVIDED if params.get(name)]
        if refused:
            raise AwsError("UnsupportedOperation", f"The local cloud does not provide {', '.join(refused)}.")
        template = Template.read(self._body(stack.caller, params, stack))
        check_template(stack.caller, params, template)
        check_defaults(template)
        given = given_parameters(template, params.get("Parameters", []), stack.parameters)
        resolved = resolved_parameters(
            template, given, stack.caller, stack.name, stack.arn, lambda name: self._ssm(stack.caller, name)
        )
        tags = params.get("Tags")
        wanted = stack.tags if tags is None else {tag["Key"]: tag["Value"] for tag in tags}
        template.order  # noqa: B018  (raises for circles and unknown references)
        goal = Goal(_settled(template, resolved), given, resolved, wanted)
        check_known_types(goal, stack.caller.region)
        check_capabilities(goal, params.get("Capabilities", []))
        return goal

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
        body = found["Body"].read()
        if len(body) > _MOST_BYTES:
            raise invalid(f"Template may not exceed {_MOST_BYTES} bytes in size.")
        return str(body.decode())

    def _ssm(self, caller: Caller, name: str) -> str:
        try:
            found = self._clients.client("ssm", caller).get_parameter(Name=name, WithDecryption=True)
        except Exception:
            raise invalid(f"Unable to fetch parameters [{name}] from parameter store for this account.") from None
        return str(found["Parameter"]["Value"])

    def _import_value(self, stack: Stack, name: str) -> str:
        with self.lock:
            for other in self._all(stack.caller):
                for output in other.outputs:
                    if output.export == name and other.deleted is None:
                        return output.value
        raise invalid(f"No export named {name} found.")

    def _importers(self, stack: Stack, exports: Iterable[str]) -> tuple[str, str] | None:
        """The first of a stack's exports that another stack imports, and that stack's name."""
        for other in self._all(stack.caller):
            if other is not stack and other.deleted is None and other.template is not None:
                for name in sorted(imported_names(other.template, other.resolved) & set(exports)):
                    return name, other.name
        return None

    def _check_exports(self, stack: Stack, outputs: list[Output]) -> None:
        """Raises AwsError for an export of another stack's name, and for the loss of one that another stack imports."""
        exported = {output.export: output.value for output in outputs if output.export}
        with self.lock:
            for other in self._all(stack.caller):
                for output in other.outputs if other is not stack and other.deleted is None else ():
                    if output.export in exported:
                        raise invalid(f"Export with name {output.export} is already exported by stack {other.name}")
            before = {output.export: output.value for output in stack.outputs if output.export}
            gone = self._importers(stack, before.keys() - exported.keys())
            if gone:
                raise invalid(f"Export {gone[0]} cannot be deleted as it is in use by {gone[1]}")
            changed = [name for name in before.keys() & exported.keys() if before[name] != exported[name]]
            if users := self._importers(stack, changed):
                raise invalid(f"Export {users[0]} cannot be updated as it is in use by {users[1]}")

    def _all(self, caller: Caller) -> list[Stack]:
        return [stack for stack in self._stacks.values() if stack.caller.shares_place_with(caller)]

    def _live(self, caller: Caller, name: str) -> Stack | None:
        for stack in self._all(caller):
            if name in (stack.arn, stack.name) and stack.deleted is None:
                return stack
        return None

    def _stack(self, caller: Caller, name: str, missing: str = "Stack with id {} does not exist") -> Stack:
        stack = self._live(caller, name) or self._stacks.get(name)
        if stack is None:
            raise invalid(missing.format(name))
        return stack

    def _updatable(self, caller: Caller, name: str) -> Stack:
        stack = self._live(caller, name) or self._stacks.get(name)
        if stack is None:
            raise invalid(f"Stack [{name}] does not exist")
        if stack.status not in _UPDATABLE:
            raise invalid(f"Stack:{stack.arn} is in {stack.status} state and can not be updated.")
        return stack

    def _new_stack(self, caller: Caller, name: str, params: Params) -> Stack:
        check_name(name)
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
        name, owner = params["ChangeSetName"], params.get("StackName")
        if owner is None and not name.startswith("arn:"):
            raise invalid("StackName must be specified if ChangeSetName is not specified as an ARN.")
        if owner is not None:
            self._stack(caller, owner, "Stack [{}] does not exist")
        for one in self._change_sets.values():
            if one.arn == name or (one.name == name and params.get("StackName") in (one.stack.name, one.stack.arn)):
                return one
        raise ChangeSetNotFoundError(f"ChangeSet [{name}] does not exist")


def _settled(template: Template, resolved: dict[str, Any]) -> Template:
    """The template with the functions in its policies resolved. Raises AwsError for a name that conditions left out."""

    def no_resource(name: str, attribute: str | None) -> Any:
        raise invalid(f"Template error: a policy must not refer to resource {name}")

    resolver = Resolver(template, resolved, no_resource, lambda name: name)

    def there(entry: Mapping[str, Any]) -> bool:
        return "Condition" not in entry or resolver.condition(entry["Condition"])

    made = {name for name, resource in template.resources.items() if there(resource)}
    for section, part in (("Resources", "Properties"), ("Outputs", "Value")):
        for entry in template.section(section).values():
            if there(entry):
                names = set(active_references(entry.get(part), resolver.condition))
                left_out = sorted(names & (template.resources.keys() - made))
                unknown = {one for one in names if "::" not in one} - template.resources.keys() - resolved.keys()
                if left_out or unknown:
                    shown = ", ".join([*left_out, *sorted(unknown)])
                    raise invalid(
                        f"Template format error: Unresolved resource dependencies [{shown}] in the {section} "
                        "block of the "
                        "template"
                    )
    policies = ("DeletionPolicy", "UpdateReplacePolicy")
    resources = {
        name: {**resource, **{policy: resolver.resolve(resource[policy]) for policy in policies if policy in resource}}
        for name, resource in template.resources.items()
    }
    grammar.check_policies(resources)
    return Template(template.body, {**template.document, "Resources": resources})


class ChangeSetNotFoundError(AwsError):
    """The code that the CDK CLI waits for after deleting a change set."""

    def __init__(self, message: str) -> None:
        super().__init__("ChangeSetNotFound", message, 404)
