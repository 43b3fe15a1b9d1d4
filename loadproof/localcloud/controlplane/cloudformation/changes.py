"""Change sets: what an update would do, worked out without doing it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from loadproof.localcloud.controlplane.cloudformation.deployer import Goal
from loadproof.localcloud.controlplane.cloudformation.schemas import schema_of
from loadproof.localcloud.controlplane.cloudformation.stack import Resource, Stack, attribute_of, now
from loadproof.localcloud.controlplane.cloudformation.template import Resolver
from loadproof.localcloud.wire import AwsError
from loadproof.wire.documents import Document, Json

NO_CHANGES = "The submitted information didn't contain changes. Submit different information to create a change set."


@dataclass(slots=True)
class ChangeSet:
    """A goal for a stack, with the changes it would bring."""

    name: str
    arn: str
    stack: Stack
    kind: str  # CREATE | UPDATE
    goal: Goal
    description: str | None
    changes: list[Document]
    status: str = "CREATE_COMPLETE"
    execution_status: str = "AVAILABLE"
    reason: str | None = None
    capabilities: list[str] = field(default_factory=list)
    created: datetime = field(default_factory=now)


class _Unknown(str):
    """The value of something that does not exist yet: equal to nothing but itself."""

    __slots__ = ()


def changes_of(stack: Stack, goal: Goal) -> list[Document]:
    """The changes that `goal` brings to `stack`, as DescribeChangeSet lists them.

    An attribute of what changes in place may change with it, so whatever reads one is listed too, as on AWS.
    """
    fresh: set[str] = set()  # logical ids whose physical id will change
    touched: set[str] = set()  # those that change in place

    def lookup(name: str, attribute: str | None) -> Json:
        resource = stack.resources.get(name)
        if resource is None or name in fresh or (name in touched and attribute is not None):
            return _Unknown(f"{{{{changeSet:KNOWN_AFTER_APPLY:{name}:{attribute or 'Ref'}}}}}")
        return attribute_of(resource, attribute)

    resolver = Resolver(goal.template, goal.resolved, lookup, _Unknown)
    changes, wanted = [], []
    for name in goal.template.order:
        definition = goal.template.resources[name]
        if "Condition" in definition and not resolver.condition(definition["Condition"]):
            continue
        wanted.append(name)
        old = stack.resources.get(name)
        if old is None:
            fresh.add(name)
            changes.append(_change("Add", name, definition["Type"]))
            continue
        change = _modification(stack, old, definition, resolver)
        if change is not None:
            (touched if change["ResourceChange"]["Replacement"] == "False" else fresh).add(name)
            changes.append(change)
    for name, resource in stack.resources.items():
        if name not in wanted:
            changes.append(_change("Remove", name, resource.type_name, PhysicalResourceId=resource.physical_id))
    return changes


def same(stack: Stack, goal: Goal) -> bool:
    """Whether the goal is what the stack is already."""
    return (
        stack.template is not None
        and stack.template.document == goal.template.document
        and stack.resolved == goal.resolved
        and stack.tags == goal.tags
    )


def of_another_type(stack: Stack, goal: Goal) -> str | None:
    """Why AWS does not begin: resources that keep their logical id and not their type.

    https://github.com/aws/aws-sam-cli/issues/6786 and https://github.com/aws-quickstart/quickstart-amazon-eks/issues/361
    """
    wanted = {name: definition["Type"] for name, definition in goal.template.resources.items()}
    changed = [name for name, held in stack.resources.items() if wanted.get(name, held.type_name) != held.type_name]
    told = (
        "Update of resource type is not permitted. The new template modifies resource type of the following resources"
    )
    return f"{told}: [{', '.join(sorted(changed))}]" if changed else None


def _modification(stack: Stack, old: Resource, definition: Document, resolver: Resolver) -> Document | None:
    new = resolver.resolve(definition.get("Properties", {}))
    names = sorted(name for name in old.properties.keys() | new.keys() if old.properties.get(name) != new.get(name))
    if not names:
        return None
    schema = schema_of(old.type_name, stack.caller.region)
    create_only = {path.split("/")[0] for path in schema.create_only} if schema else set()
    details = [
        {
            "Target": {
                "Attribute": "Properties",
                "Name": name,
                "RequiresRecreation": _recreation(name in create_only, new.get(name)),
            },
            "Evaluation": "Dynamic" if _has_unknown(new.get(name)) else "Static",
            "ChangeSource": "DirectModification",
        }
        for name in names
    ]
    worst = {detail["Target"]["RequiresRecreation"] for detail in details}  # type: ignore[index]
    replacement = "True" if "Always" in worst else "Conditional" if "Conditionally" in worst else "False"
    return _modified(old, replacement, ["Properties"], details)


def _recreation(create_only: bool, value: Json) -> str:
    if not create_only:
        return "Never"
    return "Conditionally" if _has_unknown(value) else "Always"


def _has_unknown(value: Json) -> bool:
    if isinstance(value, dict):
        return any(_has_unknown(one) for one in value.values())
    if isinstance(value, list):
        return any(_has_unknown(one) for one in value)
    return isinstance(value, str) and "KNOWN_AFTER_APPLY" in value


def _modified(old: Resource, replacement: str, scope: list[str], details: list[Document]) -> Document:
    return _change(
        "Modify",
        old.logical_id,
        old.type_name,
        PhysicalResourceId=old.physical_id,
        Replacement=replacement,
        Scope=scope,
        Details=details,
    )


def _change(action: str, logical_id: str, type_name: str, **more: Json) -> Document:
    return {
        "Type": "Resource",
        "ResourceChange": {
            "Action": action,
            "LogicalResourceId": logical_id,
            "ResourceType": type_name,
            "Scope": [],
            "Details": [],
            **more,
        },
    }


def check_capabilities(goal: Goal, given: list[str]) -> None:
    """A template that makes roles or policies must be acknowledged, named ones more so, as on AWS."""
    entries = [one for one in goal.template.resources.values() if one["Type"] in _IAM_NAMES]
    if not entries:
        return
    named = any(_IAM_NAMES[one["Type"]] in one.get("Properties", {}) for one in entries)
    needed = "CAPABILITY_NAMED_IAM" if named else "CAPABILITY_IAM"
    if needed not in given and "CAPABILITY_NAMED_IAM" not in given:
        raise AwsError("InsufficientCapabilitiesException", f"Requires capabilities : [{needed}]")


_IAM_NAMES = {
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::Policy": "",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::User": "UserName",
    "AWS::IAM::Group": "GroupName",
}


def check_known_types(goal: Goal, region: str) -> None:
    """As AWS does before anything starts: a type that exists nowhere is refused at once."""
    unknown = sorted(
        {
            resource["Type"]
            for resource in goal.template.resources.values()
            if not resource["Type"].startswith("Custom::") and schema_of(resource["Type"], region) is None
        }
        - {"AWS::CloudFormation::CustomResource"}
    )
    if unknown:
        raise AwsError("ValidationError", f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]")
