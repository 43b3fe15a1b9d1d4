"""What a stack is: its resources, events, outputs and status."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from loadproof.localcloud.controlplane.cloudformation.schemas import schema_of
from loadproof.localcloud.controlplane.cloudformation.template import Template
from loadproof.localcloud.wire import AwsError, Caller, known
from loadproof.wire.documents import Document, Json


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Resource:
    """One deployed resource. `properties` are resolved: what the service was really told."""

    logical_id: str
    type_name: str
    physical_id: str
    properties: Document
    attributes: Document
    definition: Document  # the template's entry: policies, metadata
    status: str = "CREATE_COMPLETE"
    reason: str | None = None
    stack_tags: dict[str, str] = field(default_factory=dict)
    updated: datetime = field(default_factory=now)

    def retained(self, policy: str, *, creating: bool = False) -> bool:
        """Whether a policy (DeletionPolicy, UpdateReplacePolicy) keeps the resource when its stack lets go of it."""
        chosen = self.definition.get(policy)
        return chosen == "Retain" or (chosen == "RetainExceptOnCreate" and not creating)


@dataclass(frozen=True, slots=True)
class Output:
    key: str
    value: str
    description: str | None
    export: str | None


@dataclass(slots=True)
class Stack:
    """One stack. `parameters` are as given (`UsePreviousValue` reads these), `resolved` are what Ref yields."""

    name: str
    arn: str
    caller: Caller
    status: str
    template: Template | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    resolved: Document = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    capabilities: list[str] = field(default_factory=list)
    role_arn: str | None = None
    resources: dict[str, Resource] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)
    events: list[Document] = field(default_factory=list)
    reason: str | None = None
    termination_protection: bool = False
    disable_rollback: bool = False
    client_token: str | None = None
    change_set_arn: str | None = None  # the change set that was executed last
    created: datetime = field(default_factory=now)
    updated: datetime | None = None
    deleted: datetime | None = None

    @property
    def busy(self) -> bool:
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    def move(self, status: str, reason: str | None = None) -> None:
        """Change the stack's own status and tell it as an event."""
        self.status, self.reason = status, reason
        self._event(self.name, self.arn, "AWS::CloudFormation::Stack", status, reason)

    def tell(self, resource: Resource, status: str, reason: str | None = None) -> None:
        """Change a resource's status and tell it as an event."""
        resource.status, resource.reason, resource.updated = status, reason, now()
        self._event(resource.logical_id, resource.physical_id, resource.type_name, status, reason)

    def _event(self, logical_id: str, physical_id: str, type_name: str, status: str, reason: str | None) -> None:
        event = known(
            StackId=self.arn,
            EventId=f"{logical_id}-{status}-{uuid.uuid4()}",
            StackName=self.name,
            LogicalResourceId=logical_id,
            PhysicalResourceId=physical_id,
            ResourceType=type_name,
            Timestamp=self._next_instant(),
            ResourceStatus=status,
            ResourceStatusReason=reason,
            ClientRequestToken=self.client_token,
        )
        self.events.append(event)

    def _next_instant(self) -> datetime:
        """Now, but at least a millisecond after the last event: clients sort events by their milliseconds."""
        last = self.events[-1]["Timestamp"] if self.events else None
        return now() if last is None else max(now(), last + timedelta(milliseconds=1))


def attribute_of(resource: Resource, attribute: str | None) -> Json:
    """What Ref (None) or GetAtt yields. Raises AwsError for an attribute the type does not have."""
    if attribute is None:
        return resource.physical_id
    found: Json = resource.attributes
    for part in [attribute] if attribute in resource.attributes else attribute.split("."):
        if not isinstance(found, dict) or part not in found:
            raise AwsError(
                "ValidationError",
                f"Requested attribute {attribute} does not exist in schema for {resource.type_name}",
            )
        found = found[part]
    return found


def needs_replacement(old: Resource, new: Document, region: str) -> bool:
    """Whether a create-only property (by AWS's schema) differs."""
    schema = schema_of(old.type_name, region)
    return schema is not None and any(_at(old.properties, path) != _at(new, path) for path in schema.create_only)


def _at(properties: Json, path: str) -> Json:
    for part in path.split("/"):
        properties = properties.get(part) if isinstance(properties, dict) else None
    return properties
