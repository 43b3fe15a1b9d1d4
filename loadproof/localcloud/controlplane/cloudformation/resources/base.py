"""What a resource type is to the deployer, and what it may use to do its work."""

from __future__ import annotations

import json
import re
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from botocore.client import BaseClient

from loadproof.localcloud.clients import Clients
from loadproof.localcloud.wire import AwsError, Caller, Service
from loadproof.wire.documents import Document, Json

Properties = Document


class ResourceFailedError(Exception):
    """The service refused, or the resource ended in a failed state: the message is the event's reason.

    `physical_id` names what was half made and must go in a rollback.
    """

    def __init__(self, reason: str, physical_id: str = "") -> None:
        super().__init__(reason)
        self.physical_id = physical_id


class Made(NamedTuple):
    """A created resource: what Ref yields, what GetAtt yields by attribute, and what its event says beside."""

    physical_id: str
    attributes: Document = {}  # noqa: RUF012
    said: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """One resource's surroundings while it is created, updated or deleted."""

    caller: Caller
    stack_name: str
    stack_id: str
    logical_id: str
    type_name: str
    clients: Clients
    sagemaker: Service
    autoscaling: Service
    stack_tags: dict[str, str] = field(default_factory=dict)
    poll_s: float = 0.02
    timeout_s: float = 970 * 60.0  # as AWS's own handler of an endpoint's update, which may bake for hours

    def client(self, service: str) -> BaseClient:
        """A boto3 client of this cloud in the stack's account and region."""
        return self.clients.client(service, self.caller)

    def call_sagemaker(self, action: str, **params: Json) -> Document:
        return dict(self.sagemaker.call(self.caller, action, params))

    def call_autoscaling(self, action: str, **params: Json) -> Document:
        return dict(self.autoscaling.call(self.caller, action, params))

    def generated_name(self, longest: int) -> str:
        """A name as CloudFormation makes them: stack, logical id, random end; cut in the middle when too long."""
        end = uuid.uuid4().hex[:12].upper()
        room = longest - len(end) - 2
        stack = self.stack_name[: max(room - len(self.logical_id), room // 2)]
        name = f"{stack}-{self.logical_id[: room - len(stack)]}-{end}"
        return re.sub(r"[^A-Za-z0-9-]", "-", name)

    def wait(
        self, physical_id: str, describe: Callable[[], tuple[str, str | None]], done: str, moving: tuple[str, ...]
    ) -> None:
        """Poll until the status is `done`. Raises ResourceFailedError with the service's reason otherwise."""
        end_s = time.monotonic() + self.timeout_s
        while True:
            status, reason = describe()
            if status == done:
                return
            if status not in moving:
                raise ResourceFailedError(f"Resource is in status {status}: {reason or 'no reason given'}", physical_id)
            if time.monotonic() > end_s:
                raise ResourceFailedError(
                    f"Resource did not stabilize within {self.timeout_s:g} s; it is {status}.", physical_id
                )
            time.sleep(self.poll_s)

    def wait_gone(self, describe: Callable[[], object]) -> None:
        """Poll until describing fails because the thing is no more."""
        end_s = time.monotonic() + self.timeout_s
        while time.monotonic() < end_s:
            try:
                describe()
            except AwsError as error:
                if "Could not find" in error.message:
                    return
                raise
            time.sleep(self.poll_s)
        raise ResourceFailedError(f"Resource still exists after {self.timeout_s:g} s.")


class ResourceType(ABC):
    """How one CloudFormation type is made, changed and removed here.

    `supported` are the top-level properties that have an effect (or none on AWS either); any other fails the
    deployment; None takes every property. `name_property` is the custom name, if the type has one, and `longest_name`
    the length of one that is made up. `deletion` is a service, its operation and the parameter for the physical id.
    """

    type_name: str
    supported: frozenset[str] | None
    name_property: str | None = None
    longest_name = 64
    deletion: tuple[str, str, str]

    @abstractmethod
    def create(self, work: Work, properties: Properties) -> Made: ...

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document | None:
        """New attributes; None when this change is not possible in place: then a replacement is made."""
        return None

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        service, operation, parameter = self.deletion
        getattr(work.client(service), operation)(**{parameter: physical_id})

    def name(self, work: Work, properties: Properties) -> str:
        """The custom name, or one as CloudFormation makes it up."""
        return properties.get(self.name_property or "") or work.generated_name(self.longest_name)


class PutType(ResourceType):
    """A type that is made as it is changed: by telling the service how the thing of that name shall be."""

    def create(self, work: Work, properties: Properties) -> Made:
        name = self.name(work, properties)
        return Made(name, self.put(work, name, {}, properties))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document | None:
        return self.put(work, physical_id, old, new)

    @abstractmethod
    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        """Returns the attributes; `old` is empty when the thing is made."""


def names(text: str) -> frozenset[str]:
    """Names of properties, written in one text."""
    return frozenset(text.split())


def as_text(value: Json) -> str:
    """A value as services take it that want text: a document as JSON, `true`, a number."""
    return value if isinstance(value, str) else json.dumps(value)


def changed(old: Properties, new: Properties, name: str) -> tuple[list[str], list[str]]:
    """What a list of names has no more, and what it has anew."""
    before, after = set(old.get(name, [])), set(new.get(name, []))
    return sorted(before - after), sorted(after - before)


def tag_rows(work: Work, properties: Properties, key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
    """The stack's tags and the resource's own, which win, as `[{Key, Value}]` or as the service calls the two."""
    return [{key: name, value: text} for name, text in tag_map(work, properties).items()]


def tag_map(work: Work, properties: Properties) -> dict[str, str]:
    """The same as a map."""
    return {**work.stack_tags, **{tag["Key"]: str(tag["Value"]) for tag in properties.get("Tags", [])}}


def tagged(work: Work, properties: Properties) -> Document:
    """The parameter `Tags` of a request, left out without any."""
    rows = tag_rows(work, properties)
    return {"Tags": rows} if rows else {}


def picked(properties: Properties, *names: str) -> Properties:
    """The named properties that are there."""
    return {name: properties[name] for name in names if name in properties}
