"""AWS::ApplicationAutoScaling::ScalableTarget and ScalingPolicy."""

from __future__ import annotations

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    ResourceFailedError,
    ResourceType,
    Work,
    names,
    picked,
    tag_map,
)
from loadproof.wire.documents import Document

_TARGET = ("ResourceId", "ScalableDimension", "ServiceNamespace")


class ScalableTarget(ResourceType):
    """Ref is `resource|dimension|namespace`; scheduled actions live inside it."""

    type_name = "AWS::ApplicationAutoScaling::ScalableTarget"
    supported = names(
        "MaxCapacity MinCapacity ResourceId RoleARN ScalableDimension ScheduledActions ServiceNamespace SuspendedState "
        "Tags"
    )

    def create(self, work: Work, properties: Properties) -> Made:
        physical_id = "|".join(properties[name] for name in _TARGET)
        return Made(physical_id, self.update(work, physical_id, {}, properties))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        target, tags = picked(new, *_TARGET), tag_map(work, new)
        work.call_autoscaling(
            "RegisterScalableTarget",
            **target,
            **picked(new, "RoleARN", "SuspendedState"),
            **{name: int(new[name]) for name in ("MinCapacity", "MaxCapacity")},
            **({"Tags": tags} if tags else {}),
        )
        wanted = {action["ScheduledActionName"]: action for action in new.get("ScheduledActions", [])}
        for name in [action["ScheduledActionName"] for action in old.get("ScheduledActions", [])]:
            if name not in wanted:
                work.call_autoscaling("DeleteScheduledAction", **picked(old, *_TARGET), ScheduledActionName=name)
        for action in wanted.values():
            work.call_autoscaling("PutScheduledAction", **target, **action)
        return {"Id": physical_id}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.call_autoscaling("DeregisterScalableTarget", **picked(properties, *_TARGET))


class ScalingPolicy(ResourceType):
    """Names its target either by ScalingTargetId or by the resource trio, never both."""

    type_name = "AWS::ApplicationAutoScaling::ScalingPolicy"
    _plain = names("PolicyName PolicyType StepScalingPolicyConfiguration TargetTrackingScalingPolicyConfiguration")
    supported = names("ResourceId ScalableDimension ScalingTargetId ServiceNamespace") | _plain
    name_property = "PolicyName"

    def create(self, work: Work, properties: Properties) -> Made:
        attributes = self.update(work, "", {}, properties)
        return Made(attributes["Arn"], attributes)

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        request = {**_target_of(new), **picked(new, *self._plain)}
        return {"Arn": work.call_autoscaling("PutScalingPolicy", **request)["PolicyARN"]}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.call_autoscaling("DeleteScalingPolicy", **_target_of(properties), PolicyName=properties["PolicyName"])


def _target_of(properties: Properties) -> Properties:
    target, trio = properties.get("ScalingTargetId"), picked(properties, *_TARGET)
    if bool(target) == bool(trio):
        raise ResourceFailedError(
            "Specify either ScalingTargetId or ResourceId, ScalableDimension and ServiceNamespace."
        )
    return dict(zip(_TARGET, str(target).split("|"), strict=True)) if target else trio
