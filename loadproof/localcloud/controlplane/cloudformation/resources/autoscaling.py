"""AWS::ApplicationAutoScaling::ScalableTarget and ScalingPolicy."""

from __future__ import annotations

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    ResourceFailedError,
    Work,
    picked,
    tag_map,
)
from loadproof.localcloud.documents import Document


def _names(properties: Properties) -> Properties:
    return picked(properties, "ServiceNamespace", "ResourceId", "ScalableDimension")


class ScalableTarget:
    """Ref is `resource|dimension|namespace`; scheduled actions live inside it."""

    type_name = "AWS::ApplicationAutoScaling::ScalableTarget"
    supported = frozenset(
        {
            "MaxCapacity", "MinCapacity", "ResourceId", "RoleARN", "ScalableDimension", "ScheduledActions",
            "ServiceNamespace", "SuspendedState", "Tags",
        }
    )  # fmt: skip
    name_property = None

    def create(self, work: Work, properties: Properties) -> Made:
        self._register(work, properties)
        for action in properties.get("ScheduledActions", []):
            work.call_autoscaling("PutScheduledAction", **_names(properties), **action)
        parts = (properties["ResourceId"], properties["ScalableDimension"], properties["ServiceNamespace"])
        physical_id = "|".join(parts)
        return Made(physical_id, {"Id": physical_id})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        self._register(work, new)
        wanted = {action["ScheduledActionName"] for action in new.get("ScheduledActions", [])}
        for action in old.get("ScheduledActions", []):
            if action["ScheduledActionName"] not in wanted:
                name = action["ScheduledActionName"]
                work.call_autoscaling("DeleteScheduledAction", **_names(old), ScheduledActionName=name)
        for action in new.get("ScheduledActions", []):
            work.call_autoscaling("PutScheduledAction", **_names(new), **action)
        return {"Id": physical_id}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.call_autoscaling("DeregisterScalableTarget", **_names(properties))

    def _register(self, work: Work, properties: Properties) -> None:
        request = {**_names(properties), **picked(properties, "RoleARN", "SuspendedState")}
        request["MinCapacity"] = int(properties["MinCapacity"])
        request["MaxCapacity"] = int(properties["MaxCapacity"])
        tags = tag_map(work, properties)
        work.call_autoscaling("RegisterScalableTarget", **request, **({"Tags": tags} if tags else {}))


class ScalingPolicy:
    """Names its target either by ScalingTargetId or by the resource trio, never both."""

    type_name = "AWS::ApplicationAutoScaling::ScalingPolicy"
    supported = frozenset(
        {
            "PolicyName", "PolicyType", "ResourceId", "ScalableDimension", "ScalingTargetId", "ServiceNamespace",
            "StepScalingPolicyConfiguration", "TargetTrackingScalingPolicyConfiguration",
        }
    )  # fmt: skip
    name_property = "PolicyName"

    def create(self, work: Work, properties: Properties) -> Made:
        return self._put(work, properties)

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        return self._put(work, new).attributes

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.call_autoscaling("DeleteScalingPolicy", **_target_of(properties), PolicyName=properties["PolicyName"])

    def _put(self, work: Work, properties: Properties) -> Made:
        request = {**_target_of(properties), **picked(properties, "PolicyName", "PolicyType")}
        for name in ("StepScalingPolicyConfiguration", "TargetTrackingScalingPolicyConfiguration"):
            if name in properties:
                request[name] = properties[name]
        arn = work.call_autoscaling("PutScalingPolicy", **request)["PolicyARN"]
        return Made(arn, {"Arn": arn})


def _target_of(properties: Properties) -> Properties:
    target, trio = properties.get("ScalingTargetId"), _names(properties)
    if bool(target) == bool(trio):
        raise ResourceFailedError(
            "Specify either ScalingTargetId or ResourceId, ScalableDimension and ServiceNamespace."
        )
    if target:
        resource_id, dimension, namespace = str(target).split("|")
        return {"ResourceId": resource_id, "ScalableDimension": dimension, "ServiceNamespace": namespace}
    return trio
