"""AWS::Events::Rule and AWS::Scheduler::Schedule."""

from __future__ import annotations

import json

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Properties,
    PutType,
    ResourceFailedError,
    Work,
    names,
    picked,
    tagged,
)
from loadproof.localcloud.controlplane.schedules import fault_of
from loadproof.wire.documents import Document

# Where events are really delivered to here.
_DELIVERED = ("sqs", "logs")


class Rule(PutType):
    """A pattern and its targets. What is not delivered here is refused: it would look as if it were."""

    type_name = "AWS::Events::Rule"
    supported = names("Description EventBusName EventPattern Name State Tags Targets")
    name_property = "Name"

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        targets = new.get("Targets", [])
        for target in targets:
            if target["Arn"].split(":")[2] not in _DELIVERED:
                raise ResourceFailedError(
                    f"The local cloud delivers events to SQS queues and log groups only, found target {target['Arn']}."
                )
        events, bus = work.client("events"), picked(new, "EventBusName")
        rule = events.put_rule(
            Name=name,
            EventPattern=json.dumps(new["EventPattern"]),
            **picked(new, "Description", "State"),
            **bus,
            **tagged(work, new),
        )
        gone = {target["Id"] for target in old.get("Targets", [])} - {target["Id"] for target in targets}
        if gone:
            events.remove_targets(Rule=name, Ids=sorted(gone), **bus)
        if targets:
            events.put_targets(Rule=name, Targets=targets, **bus)
        return {"Arn": rule["RuleArn"]}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        events, bus = work.client("events"), picked(properties, "EventBusName")
        ids = [target["Id"] for target in properties.get("Targets", [])]
        if ids:
            events.remove_targets(Rule=physical_id, Ids=ids, **bus)
        events.delete_rule(Name=physical_id, **bus)


class Schedule(PutType):
    """Fires on the cloud's clock, see `loadproof.localcloud.controlplane.schedules`."""

    type_name = "AWS::Scheduler::Schedule"
    _plain = names(
        "Description EndDate FlexibleTimeWindow GroupName KmsKeyArn ScheduleExpression ScheduleExpressionTimezone "
        "StartDate State Target"
    )
    supported = _plain | {"Name"}
    name_property = "Name"

    def put(self, work: Work, name: str, old: Properties, new: Properties) -> Document:
        timezone = new.get("ScheduleExpressionTimezone", "UTC")
        fault = fault_of(new["ScheduleExpression"], timezone, new["Target"]["Arn"])
        if fault is not None:
            raise ResourceFailedError(fault)
        scheduler = work.client("scheduler")
        put = scheduler.update_schedule if old else scheduler.create_schedule
        told = {"ActionAfterCompletion": "NONE", **picked(new, *self._plain)}
        return {"Arn": put(Name=name, **told)["ScheduleArn"]}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("scheduler").delete_schedule(Name=physical_id, **picked(properties, "GroupName"))
