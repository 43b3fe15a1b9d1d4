"""How the number of copies follows the load: Application Auto Scaling for one component or one plain variant."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from aws_cdk import CfnResource
from constructs import Construct

from loadproof.constructs.buffer.infrastructure import Buffer
from loadproof.constructs.cdk.cloudwatch import (
    SAGEMAKER,
    AlarmRule,
    Formula,
    Metric,
    alarm,
)
from loadproof.constructs.cdk.resource import resource
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.scaling.backlog import backlog_per_copy, tracked
from loadproof.errors import InputError
from loadproof.profiles.names import VARIANT_NAME
from loadproof.profiles.schema import Scaling, ScalingMetric, ScheduledScaling, StepScaling, TargetTracking, ToZero
from loadproof.simulation.targets import as_number
from loadproof.wire.documents import Document

_SERVICE_LINKED_ROLE: Final = (
    "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/aws-service-role/"
    "sagemaker.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)
_COMPONENT_TRACKING: Final[dict[ScalingMetric, str]] = {
    "concurrent_requests_per_copy": "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution",
    "invocations_per_copy": "SageMakerInferenceComponentInvocationsPerCopy",
}
_VARIANT_TRACKING: Final[dict[ScalingMetric, str]] = {
    "concurrent_requests_per_model": "SageMakerVariantConcurrentRequestsPerModelHighResolution",
    "invocations_per_instance": "SageMakerVariantInvocationsPerInstance",
}
# What AWS's page on asynchronous endpoints tracks: its own queue, by endpoint only.
_ASYNC_BACKLOG: Final = ("ApproximateBacklogSizePerInstance", "Average")
# CloudWatch name and the statistic that means something: the concurrency metrics know only Minimum and Maximum.
_STEP_METRICS: Final[dict[ScalingMetric, tuple[str, str]]] = {
    "concurrent_requests_per_copy": ("ConcurrentRequestsPerCopy", "Maximum"),
    "invocations_per_copy": ("InvocationsPerCopy", "Sum"),
    "concurrent_requests_per_model": ("ConcurrentRequestsPerModel", "Maximum"),
    "invocations_per_instance": ("InvocationsPerInstance", "Sum"),
    "async_backlog_per_instance": _ASYNC_BACKLOG,
}
# At least one, not more than one as AWS's example has it: that would sleep through a single request.
_AT_LEAST_ONE: Final = AlarmRule(threshold=1, comparison="GreaterThanOrEqualToThreshold")


@dataclass(frozen=True, slots=True)
class ScaledCopies:
    """What is scaled: a component's copies, or an endpoint's instances (no component), and between which counts."""

    resource: CfnResource
    component_name: str | None
    min: int
    max: int


class CopyScaling(Construct):
    """A scalable target with its policies, schedules and the way back from zero.

    `scaling` is resolved (numbers for `auto`, steps for `simple`). The target names what is scaled in a plain text,
    which makes CloudFormation wait for nothing, so that step is chained by hand; policies and alarms refer to what
    they follow. Order: copies, target, policies, alarms; deletion runs the other way.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        scaling: Scaling,
        copies: ScaledCopies,
        buffer: Buffer | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._deployment = deployment
        self._tags = deployment.environment.tags
        self._component_name = copies.component_name
        self._buffer = buffer
        self.target = self._target(scaling, copies)
        self.target.add_resource_dependency(copies.resource)
        alike: Counter[str] = Counter()
        for policy in scaling.policies:
            if isinstance(policy, TargetTracking):
                self._track(policy)
            elif isinstance(policy, StepScaling):
                # Named by what it does, not by its place: a policy added before it must not replace it.
                name = f"{policy.metric}-{policy.comparison}"
                alike[name] += 1
                self._step(policy, name if alike[name] == 1 else f"{name}-{alike[name]}")
        if scaling.to_zero is not None:
            self._wake(scaling.to_zero)

    def _target(self, scaling: Scaling, copies: ScaledCopies) -> CfnResource:
        if self._component_name is not None:
            resource_id = f"inference-component/{self._component_name}"
            dimension = "sagemaker:inference-component:DesiredCopyCount"
        else:
            resource_id = f"endpoint/{self._deployment.endpoint_name}/variant/{VARIANT_NAME}"
            dimension = "sagemaker:variant:DesiredInstanceCount"
        schedules = [policy for policy in scaling.policies if isinstance(policy, ScheduledScaling)]
        properties = {
            "ServiceNamespace": "sagemaker",
            "ScalableDimension": dimension,
            "ResourceId": resource_id,
            "MinCapacity": 0 if scaling.to_zero else copies.min,
            "MaxCapacity": copies.max,
            # Named, so that nothing makes a role: the service-linked one is the only one SageMaker's scaling uses.
            "RoleARN": {"Fn::Sub": _SERVICE_LINKED_ROLE},
            "ScheduledActions": [_scheduled_action(schedule) for schedule in schedules] or None,
        }
        return resource(self, "Target", "ApplicationAutoScaling::ScalableTarget", properties, tags=self._tags)

    def _track(self, policy: TargetTracking) -> None:
        tracking = {
            "TargetValue": as_number(policy.target),
            **self._tracked(policy.metric),
            "ScaleOutCooldown": as_number(policy.scale_out_cooldown_s),
            "ScaleInCooldown": as_number(policy.scale_in_cooldown_s),
            "DisableScaleIn": not policy.scale_in,
        }
        name = f"track-{policy.metric.replace('_', '-')}"
        self._policy(f"Track-{policy.metric}", name, "TargetTrackingScaling", tracking)

    def _tracked(self, metric: ScalingMetric) -> Document:
        if metric == "backlog_per_copy":
            return {"CustomizedMetricSpecification": tracked(self._backlog_per_copy())}
        if metric == "async_backlog_per_instance":
            name, statistic = _ASYNC_BACKLOG
            return {
                "CustomizedMetricSpecification": {
                    "Namespace": SAGEMAKER,
                    "MetricName": name,
                    "Dimensions": [{"Name": "EndpointName", "Value": self._deployment.endpoint_name}],
                    "Statistic": statistic,
                }
            }
        known = _VARIANT_TRACKING if self._component_name is None else _COMPONENT_TRACKING
        if metric not in known:
            raise InputError(f"scaling.policies: found metric {metric}; allowed here: {', '.join(known)}")
        return {"PredefinedMetricSpecification": {"PredefinedMetricType": known[metric]}}

    def _step(self, policy: StepScaling, name: str) -> None:
        policy_name = f"step-{name.replace('_', '-')}"
        scaling_policy = self._policy(
            f"Step-{name}",
            policy_name,
            "StepScaling",
            _stepping(as_number(policy.cooldown_s), _step_adjustments(policy)),
        )
        above = policy.comparison == "above"
        rule = AlarmRule(
            threshold=policy.threshold,
            comparison="GreaterThanOrEqualToThreshold" if above else "LessThanOrEqualToThreshold",
            periods=policy.evaluation_periods,
            to_alarm=policy.evaluation_periods,
        )
        self._alarm(
            f"Step-{name}-Alarm",
            self._stepped(policy),
            f"Scales {self._scaled_name} by its step policy {policy_name}",
            scaling_policy,
            rule,
        )

    def _stepped(self, policy: StepScaling) -> Metric | Formula:
        if policy.metric == "backlog_per_copy":
            return self._backlog_per_copy(policy.period_s)
        name, statistic = _STEP_METRICS[policy.metric]
        return Metric(SAGEMAKER, name, self._dimensions(policy.metric), statistic, policy.period_s)

    def _wake(self, to_zero: ToZero) -> None:
        """Target tracking cannot leave zero; one more copy does, as soon as somebody asked in vain."""
        one_more = [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}]
        policy = self._policy(
            "Wake", "wake-from-zero", "StepScaling", _stepping(as_number(to_zero.wake_cooldown_s), one_more)
        )
        if to_zero.wake_on_failed_invocation:
            self._wake_on_refusals(policy)
        if to_zero.wake_on_backlog:
            if self._buffer is None:
                raise InputError("scaling.to_zero.wake_on_backlog: there is no buffer; add `buffer: {}` or drop it")
            self._alarm(
                "Wake-Backlog",
                self._buffer.metric_waiting_messages(),
                f"Messages wait for {self._scaled_name}: starts the first copy",
                policy,
            )

    def _wake_on_refusals(self, policy: CfnResource) -> None:
        """A component refuses whom it has no copy for; an asynchronous endpoint keeps the request and says so."""
        if self._component_name is not None:
            dimensions = {"InferenceComponentName": self._component_name}
            self._alarm(
                "Wake-NoCapacity",
                Metric(SAGEMAKER, "NoCapacityInvocationFailures", dimensions, "Sum"),
                f"A request found no copy of {self._scaled_name}: starts the first one",
                policy,
            )
            return
        endpoint = {"EndpointName": self._deployment.endpoint_name}
        self._alarm(
            "Wake-AsyncBacklog",
            Metric(SAGEMAKER, "HasBacklogWithoutCapacity", endpoint, "Average"),
            f"Requests wait for {self._scaled_name} without an instance: starts the first one",
            policy,
            replace(_AT_LEAST_ONE, periods=2, to_alarm=2),
        )

    def _alarm(
        self,
        construct_id: str,
        on: Metric | Formula,
        description: str,
        policy: CfnResource,
        rule: AlarmRule = _AT_LEAST_ONE,
    ) -> None:
        """An alarm that carries out a policy."""
        alarm(self, construct_id, on=on, rule=rule, description=description, actions=[policy.ref], tags=self._tags)

    def _backlog_per_copy(self, period_s: int = 60) -> Formula:
        if self._buffer is None:
            raise InputError("scaling.policies: backlog_per_copy needs a buffer; add `buffer: {}`, or another metric")
        return backlog_per_copy(
            waiting=self._buffer.metric_waiting_messages(),
            dimensions=self._dimensions("invocations_per_copy"),
            period_s=period_s,
        )

    def _policy(self, construct_id: str, name: str, kind: str, configuration: Document) -> CfnResource:
        properties = {
            "PolicyName": name,
            "PolicyType": kind,
            "ScalingTargetId": self.target.ref,
            f"{kind}PolicyConfiguration": configuration,
        }
        return resource(self, construct_id, "ApplicationAutoScaling::ScalingPolicy", properties)

    def _dimensions(self, metric: ScalingMetric) -> dict[str, str]:
        if metric == "async_backlog_per_instance":
            return {"EndpointName": self._deployment.endpoint_name}
        if metric.endswith("_per_copy") and self._component_name is not None:
            return {"InferenceComponentName": self._component_name}
        return {"EndpointName": self._deployment.endpoint_name, "VariantName": VARIANT_NAME}

    @property
    def _scaled_name(self) -> str:
        return self._component_name or self._deployment.endpoint_name


def _scheduled_action(schedule: ScheduledScaling) -> Document:
    return {
        "ScheduledActionName": schedule.name,
        "Schedule": schedule.schedule,
        "Timezone": schedule.timezone,
        "ScalableTargetAction": {"MinCapacity": schedule.min_copies, "MaxCapacity": schedule.max_copies},
    }


def _stepping(cooldown_s: float, adjustments: list[Document]) -> Document:
    return {
        "AdjustmentType": "ChangeInCapacity",
        "MetricAggregationType": "Maximum",
        "Cooldown": cooldown_s,
        "StepAdjustments": adjustments,
    }


def _step_adjustments(policy: StepScaling) -> list[Document]:
    """The profile's `at` values as intervals away from the threshold: upwards for above, downwards for below."""
    steps = sorted(policy.steps, key=lambda step: step.at)
    ends = [*(later.at for _, later in pairwise(steps)), None]
    if policy.comparison == "above":
        return [
            {
                "MetricIntervalLowerBound": step.at,
                "MetricIntervalUpperBound": end,
                "ScalingAdjustment": step.add_copies,
            }
            for step, end in zip(steps, ends, strict=True)
        ]
    return [
        {
            "MetricIntervalLowerBound": None if end is None else -end,
            "MetricIntervalUpperBound": -step.at,
            "ScalingAdjustment": step.add_copies,
        }
        for step, end in zip(steps, ends, strict=True)
    ]
