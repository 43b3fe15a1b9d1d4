"""Application Auto Scaling's operations."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable
from typing import Protocol

from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.autoscaling.alarms import tracking_alarms
from loadproof.localcloud.controlplane.autoscaling.rules import (
    check_bounds,
    check_dimension,
    check_one_metric,
    check_policy,
    refuse,
)
from loadproof.localcloud.controlplane.autoscaling.scaler import Scaled, Scaler
from loadproof.localcloud.controlplane.autoscaling.schedules import check_schedule
from loadproof.localcloud.controlplane.autoscaling.targets import INSTANCES, Policy, ScheduledAction, Target
from loadproof.localcloud.controlplane.cloudwatch.evaluation import Breach
from loadproof.localcloud.wire import AwsError, Caller, Params, add_tags, paged
from loadproof.wire.documents import Document

TargetKey = tuple[str, str, str, str]  # account, region, resource id, dimension


class AlarmSink(Protocol):
    """Where a policy's alarms go: CloudWatch."""

    def put(self, caller: Caller, alarm: Document) -> str:
        """Create one alarm; returns its ARN."""
        ...

    def delete(self, caller: Caller, names: list[str]) -> None: ...

    def acting_on(self, caller: Caller, policy_arn: str) -> list[dict[str, str]]:
        """Names and ARNs of the alarms that name a policy as an action."""
        ...


class AutoScalingApi:
    """All operations. `exists` says whether the thing that a resource id names is there to be scaled."""

    def __init__(
        self, *, exists: Callable[[Caller, str], bool], alarms: AlarmSink, clock: CloudClock, scaled: Scaled
    ) -> None:
        self._exists = exists
        self._alarms = alarms
        self._clock = clock
        self._scaler = Scaler(clock, scaled)
        self._past: list[Target] = []  # deregistered: their activities can still be looked up
        self._lock = threading.RLock()
        self._targets: dict[TargetKey, Target] = {}

    @property
    def watched(self) -> bool:
        """Whether there is anything to scale."""
        return bool(self._targets)

    def called(self, policy_arn: str, breach: Breach) -> None:
        """An alarm calls a policy. Raises ObjectNotFoundException for one that is gone."""
        with self._lock:
            policies = [policy for target in self._targets.values() for policy in target.policies.values()]
        if not any(policy.arn == policy_arn for policy in policies):
            raise AwsError("ObjectNotFoundException", f"No scaling policy found for {policy_arn}.")
        self._scaler.called(policy_arn, breach)

    def apply(self) -> None:
        """Do what alarms and schedules ask for. Never under the lock: SageMaker asks back for what is scaled."""
        with self._lock:
            targets = list(self._targets.values())
        self._scaler.apply(targets)

    def RegisterScalableTarget(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        check_dimension(params)
        if not self._exists(caller, params["ResourceId"]):
            raise refuse(f"No resource found for resource id {params['ResourceId']}: it must exist to be scaled.")
        with self._lock:
            known = self._targets.get(_key(caller, params))
            low = params.get("MinCapacity", known.min_capacity if known else None)
            high = params.get("MaxCapacity", known.max_capacity if known else None)
            check_bounds(low, high)
            assert low is not None
            assert high is not None
            if known is None:
                known = _new_target(caller, params, self._clock)
                self._targets[_key(caller, params)] = known
            known.min_capacity, known.max_capacity, known.bounds_changed = low, high, True
            known.suspended = {**known.suspended, **params.get("SuspendedState", {})}
            known.tags.update(params.get("Tags", {}))
            return {"ScalableTargetARN": known.arn}

    def DeregisterScalableTarget(self, caller: Caller, params: Params) -> None:  # noqa: N802
        with self._lock:
            target = self._target(caller, params)
            for policy in target.policies.values():
                self._alarms.delete(caller, [alarm["AlarmName"] for alarm in policy.alarms])
            self._past.append(self._targets.pop(_key(caller, params)))

    def DescribeScalableTargets(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        wanted = params.get("ResourceIds")
        rows = [
            {
                **target.names(),
                "MinCapacity": target.min_capacity,
                "MaxCapacity": target.max_capacity,
                "RoleARN": _service_role(caller),
                "CreationTime": target.created,
                "SuspendedState": target.suspended,
                "ScalableTargetARN": target.arn,
            }
            for target in self._selected(caller, params)
            if not wanted or target.resource_id in wanted
        ]
        return paged(rows, params, "ScalableTargets", 50)

    def PutScalingPolicy(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        with self._lock:
            target = self._target(caller, params)
            check_policy(params)
            others = [one.configurations for name, one in target.policies.items() if name != params["PolicyName"]]
            tracked = "TargetTrackingScalingPolicyConfiguration"
            check_one_metric(params, [one[tracked] for one in others if tracked in one])
            old = target.policies.get(params["PolicyName"])
            arn = old.arn if old else _policy_arn(caller, params)
            policy = target.policies[params["PolicyName"]] = Policy(
                name=params["PolicyName"],
                arn=arn,
                kind=params.get("PolicyType", "StepScaling"),
                created=old.created if old else self._clock.wall(self._clock.now_s()),
                configurations={name: value for name, value in params.items() if name.endswith("Configuration")},
                alarms=self._renew_alarms(caller, target, old, arn, params),
            )
            return {"PolicyARN": arn, "Alarms": policy.alarms}

    def DescribeScalingPolicies(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        names = params.get("PolicyNames")
        rows = [
            self._described(caller, target, policy)
            for target in self._selected(caller, params)
            for policy in target.policies.values()
            if not names or policy.name in names
        ]
        return paged(rows, params, "ScalingPolicies", 50)

    def DeleteScalingPolicy(self, caller: Caller, params: Params) -> None:  # noqa: N802
        with self._lock:
            target = self._target(caller, params)
            policy = target.policies.pop(params["PolicyName"], None)
            if policy is None:
                raise AwsError(
                    "ObjectNotFoundException",
                    f"No scaling policy found for {_described(params)}: {params['PolicyName']}.",
                )
            self._alarms.delete(caller, [alarm["AlarmName"] for alarm in policy.alarms])

    def PutScheduledAction(self, caller: Caller, params: Params) -> None:  # noqa: N802
        with self._lock:
            target = self._target(caller, params)
            name = params["ScheduledActionName"]
            old = target.scheduled.get(name)
            if not params.get("Schedule") and old is None:
                raise refuse("Schedule is required.")
            if not params.get("ScalableTargetAction") and old is None:
                raise refuse("At least one of MinCapacity and MaxCapacity of ScalableTargetAction is required.")
            request = {**(old.request if old else {}), **params}
            check_schedule(request)
            place = f"resource/sagemaker/{target.resource_id}:scheduledActionName/{name}"
            arn = old.arn if old else caller.arn("autoscaling", f"scheduledAction:{uuid.uuid4()}:{place}")
            created_s = old.created_s if old else self._clock.now_s()
            target.scheduled[name] = ScheduledAction(request, arn, created_s)

    def DescribeScheduledActions(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        names = params.get("ScheduledActionNames")
        rows = [
            {
                **action.request,
                "ScheduledActionARN": action.arn,
                "CreationTime": self._clock.wall(action.created_s),
            }
            for target in self._selected(caller, params)
            for name, action in target.scheduled.items()
            if not names or name in names
        ]
        return paged(rows, params, "ScheduledActions", 50)

    def DeleteScheduledAction(self, caller: Caller, params: Params) -> None:  # noqa: N802
        with self._lock:
            if self._target(caller, params).scheduled.pop(params["ScheduledActionName"], None) is None:
                raise AwsError(
                    "ObjectNotFoundException", f"No scheduled action found: {params['ScheduledActionName']}."
                )

    def DescribeScalingActivities(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        """Newest first; those that changed nothing only where they are asked for."""
        with_idle = params.get("IncludeNotScaledActivities", False)
        rows = [
            (activity.started_s, activity.described(target.names(), self._clock.wall))
            for target in (*self._selected(caller, params), *self._matching(self._past, caller, params))
            for activity in reversed(target.activities)
            if with_idle or activity.not_scaled is None
        ]
        rows.sort(key=lambda row: row[0], reverse=True)
        return paged([row for _, row in rows], params, "ScalingActivities", 50)

    def ListTagsForResource(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        return {"Tags": self._by_arn(params["ResourceARN"]).tags}

    def TagResource(self, caller: Caller, params: Params) -> None:  # noqa: N802
        add_tags(self._by_arn(params["ResourceARN"]).tags, params["Tags"], "TooManyTagsException")

    def UntagResource(self, caller: Caller, params: Params) -> None:  # noqa: N802
        for name in params["TagKeys"]:
            self._by_arn(params["ResourceARN"]).tags.pop(name, None)

    def scaled_variants(self, caller: Caller, endpoint_name: str) -> frozenset[str]:
        """The variants of an endpoint whose instances are scaled (SageMaker then refuses some updates)."""
        with self._lock:
            return frozenset(
                target.resource_id.split("/")[3]
                for target in self._targets.values()
                if target.dimension == INSTANCES
                and target.resource_id.split("/")[1] == endpoint_name
                and target.caller.shares_place_with(caller)
            )

    def _target(self, caller: Caller, params: Params) -> Target:
        target = self._targets.get(_key(caller, params))
        if target is None:
            raise AwsError("ObjectNotFoundException", f"No scalable target registered for {_described(params)}.")
        return target

    def _by_arn(self, arn: str) -> Target:
        with self._lock:
            for target in self._targets.values():
                if target.arn == arn:
                    return target
        raise AwsError("ResourceNotFoundException", f"The resource {arn} does not exist.")

    def _selected(self, caller: Caller, params: Params) -> list[Target]:
        with self._lock:
            return self._matching(self._targets.values(), caller, params)

    def _matching(self, targets: Iterable[Target], caller: Caller, params: Params) -> list[Target]:
        return [
            target
            for target in targets
            if target.caller.shares_place_with(caller)
            and target.resource_id == params.get("ResourceId", target.resource_id)
            and target.dimension == params.get("ScalableDimension", target.dimension)
            and params["ServiceNamespace"] == "sagemaker"
        ]

    def _described(self, caller: Caller, target: Target, policy: Policy) -> Document:
        """A step policy's alarms are made by its owner: they are those that name it as an action."""
        of_owner = policy.kind == "StepScaling"
        return {
            **policy.configurations,
            **target.names(),
            "PolicyName": policy.name,
            "PolicyARN": policy.arn,
            "PolicyType": policy.kind,
            "Alarms": self._alarms.acting_on(caller, policy.arn) if of_owner else policy.alarms,
            "CreationTime": policy.created,
        }

    def _renew_alarms(
        self, caller: Caller, target: Target, old: Policy | None, arn: str, params: Params
    ) -> list[dict[str, str]]:
        """Replace a target tracking policy's alarms; a step policy has those that name it as an action.

        The old ones go last: alarms that are refused leave the policy as it was.
        """
        made: list[dict[str, str]] = []
        if params.get("PolicyType") == "TargetTrackingScaling":
            configuration = params["TargetTrackingScalingPolicyConfiguration"]
            try:
                made = [
                    {"AlarmName": alarm["AlarmName"], "AlarmARN": self._alarms.put(caller, alarm)}
                    for alarm in tracking_alarms(target.resource_id, arn, configuration)
                ]
            except AwsError as error:
                raise refuse(error.message) from None  # CloudWatch has another code for it
        if old:
            self._alarms.delete(caller, [alarm["AlarmName"] for alarm in old.alarms])
        return made


def _new_target(caller: Caller, params: Params, clock: CloudClock) -> Target:
    return Target(
        caller=caller,
        arn=caller.arn("application-autoscaling", f"scalable-target/{uuid.uuid4().hex[:24]}"),
        resource_id=params["ResourceId"],
        dimension=params["ScalableDimension"],
        min_capacity=0,
        max_capacity=0,
        suspended={
            "DynamicScalingInSuspended": False,
            "DynamicScalingOutSuspended": False,
            "ScheduledScalingSuspended": False,
        },
        created=clock.wall(clock.now_s()),
    )


def _key(caller: Caller, params: Params) -> TargetKey:
    return (caller.account, caller.region, params["ResourceId"], params["ScalableDimension"])


def _described(params: Params) -> str:
    return (
        f"service namespace: {params['ServiceNamespace']}, resource ID: {params['ResourceId']}, "
        f"scalable dimension: {params['ScalableDimension']}"
    )


def _policy_arn(caller: Caller, params: Params) -> str:
    resource = f"resource/sagemaker/{params['ResourceId']}:policyName/{params['PolicyName']}"
    return caller.arn("autoscaling", f"scalingPolicy:{uuid.uuid4()}:{resource}")


def _service_role(caller: Caller) -> str:
    return (
        f"arn:aws:iam::{caller.account}:role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/"
        "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    )
