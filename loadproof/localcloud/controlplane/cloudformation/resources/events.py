"""AWS::Events::Rule and AWS::Scheduler::Schedule."""

from __future__ import annotations

import json

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    ResourceFailedError,
    Work,
    picked,
    tag_list,
)
from loadproof.localcloud.controlplane.schedules import fault_of
from loadproof.localcloud.documents import Document

# Where events are really delivered to here.
_DELIVERED = ("sqs", "logs")


class Rule:
    """A pattern and its targets. What is not delivered here is refused: it would look as if it were."""

    type_name = "AWS::Events::Rule"
    supported = frozenset({"Description", "EventBusName", "EventPattern", "Name", "State", "Tags", "Targets"})
    name_property = "Name"

    def create(self, work: Work, properties: Properties) -> Made:
        name = properties.get("Name") or work.generated_name(64)
        return Made(name, self._put(work, name, {}, properties))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        return self._put(work, physical_id, old, new)

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        events, bus = work.client("events"), picked(properties, "EventBusName")
        ids = [target["Id"] for target in properties.get("Targets", [])]
        if ids:
            events.remove_targets(Rule=physical_id, Ids=ids, **bus)
        events.delete_rule(Name=physical_id, **bus)

    def _put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        for target in new.get("Targets", []):
            if target["Arn"].split(":")[2] not in _DELIVERED:
                raise ResourceFailedError(
                    f"The local cloud delivers events to SQS queues and log groups only, found target {target['Arn']}."
                )
        events, bus = work.client("events"), picked(new, "EventBusName")
        tags = tag_list(work, new)
        rule = events.put_rule(
            Name=name,
            EventPattern=json.dumps(new["EventPattern"]),
            **picked(new, "Description", "State"),
            **bus,
            **({"Tags": tags} if tags else {}),
        )
        gone = {target["Id"] for target in old.get("Targets", [])} - {one["Id"] for one in new.get("Targets", [])}
        if gone:
            events.remove_targets(Rule=name, Ids=sorted(gone), **bus)
        if new.get("Targets"):
            events.put_targets(Rule=name, Targets=new["Targets"], **bus)
        return {"Arn": rule["RuleArn"]}


class Schedule:
    """Fires on the cloud's clock, see `loadproof.localcloud.controlplane.schedules`."""

    type_name = "AWS::Scheduler::Schedule"
    _plain = (
        "Description", "EndDate", "FlexibleTimeWindow", "GroupName", "KmsKeyArn", "ScheduleExpression",
        "ScheduleExpressionTimezone", "StartDate", "State", "Target",
    )  # fmt: skip
    supported = frozenset({*_plain, "Name"})
    name_property = "Name"

    def create(self, work: Work, properties: Properties) -> Made:
        name = properties.get("Name") or work.generated_name(64)
        self._check(properties)
        arn = work.client("scheduler").create_schedule(Name=name, **picked(properties, *self._plain))["ScheduleArn"]
        return Made(name, {"Arn": arn})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        self._check(new)
        return {
            "Arn": work.client("scheduler").update_schedule(Name=physical_id, **picked(new, *self._plain))[
                "ScheduleArn"
            ]
        }

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("scheduler").delete_schedule(Name=physical_id, **picked(properties, "GroupName"))

    def _check(self, properties: Properties) -> None:
        fault = fault_of(
            properties["ScheduleExpression"],
            properties.get("ScheduleExpressionTimezone", "UTC"),
            properties["Target"]["Arn"],
        )
        if fault is not None:
            raise ResourceFailedError(fault)
