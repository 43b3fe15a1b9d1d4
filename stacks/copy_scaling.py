"""How the number of copies follows the load: Application Auto Scaling for one component or one plain variant."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from aws_cdk import CfnResource, Fn
from aws_cdk import aws_applicationautoscaling as autoscaling
from constructs import Construct

from loadproof.errors import InputError
from loadproof.profiles.names import VARIANT_NAME
from loadproof.profiles.schema import Scaling, ScalingMetric, ScheduledScaling, StepScaling, TargetTracking, ToZero
from stacks.buffer.infrastructure import Buffer
from stacks.cloudwatch import SAGEMAKER, AlarmRule, Metric, alarm_on_metric
from stacks.context import Deployment

Policy = autoscaling.CfnScalingPolicy
Target = autoscaling.CfnScalableTarget

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
# CloudWatch name and the statistic that means something: the concurrency metrics know only Minimum and Maximum.
_STEP_METRICS: Final[dict[ScalingMetric, tuple[str, str]]] = {
    "concurrent_requests_per_copy": ("ConcurrentRequestsPerCopy", "Maximum"),
    "invocations_per_copy": ("InvocationsPerCopy", "Sum"),
    "concurrent_requests_per_model": ("ConcurrentRequestsPerModel", "Maximum"),
    "invocations_per_instance": ("InvocationsPerInstance", "Sum"),
}


class CopyScaling(Construct):
    """A scalable target with its policies, schedules and the way back from zero.

    `scaled` is what is scaled (component or endpoint). The target names it in a plain text, which makes
    CloudFormation wait for nothing, so that step is chained by hand; policies and alarms refer to what they follow.
    Order: scaled, target, policies, alarms; deletion runs the other way.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        scaling: Scaling,
        min_copies: int,
        max_copies: int,
        component_name: str | None,
        scaled: CfnResource,
        buffer: Buffer | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._deployment = deployment
        self._component_name = component_name
        self.target = self._target(scaling, min_copies, max_copies)
        self.target.add_resource_dependency(scaled)
        for position, policy in enumerate(scaling.policies):
            if isinstance(policy, TargetTracking):
                self._track(policy, position)
            elif isinstance(policy, StepScaling):
                self._step(policy, position)
        if scaling.to_zero is not None:
            self._wake(scaling.to_zero, buffer)

    def _target(self, scaling: Scaling, min_copies: int, max_copies: int) -> autoscaling.CfnScalableTarget:
        if self._component_name is not None:
            resource_id = f"inference-component/{self._component_name}"
            dimension = "sagemaker:inference-component:DesiredCopyCount"
        else:
            resource_id = f"endpoint/{self._deployment.endpoint_name}/variant/{VARIANT_NAME}"
            dimension = "sagemaker:variant:DesiredInstanceCount"
        schedules = [policy for policy in scaling.policies if isinstance(policy, ScheduledScaling)]
        return Target(
            self,
            "Target",
            service_namespace="sagemaker",
            scalable_dimension=dimension,
            resource_id=resource_id,
            min_capacity=0 if scaling.to_zero else min_copies,
            max_capacity=max_copies,
            # Named, so that nothing makes a role: the service-linked one is the only one SageMaker's scaling uses.
            role_arn=Fn.sub(_SERVICE_LINKED_ROLE),
            scheduled_actions=[_scheduled_action(schedule) for schedule in schedules] or None,
        )

    def _track(self, policy: TargetTracking, position: int) -> None:
        known = _VARIANT_TRACKING if self._component_name is None else _COMPONENT_TRACKING
        if policy.metric not in known or not isinstance(policy.target, int | float):
            raise InputError(
                f"scaling.policies[{position}]: found metric {policy.metric} with target {policy.target}; "
                f"allowed here: {', '.join(known)}, each with a number"
            )
        self._policy(
            f"Track-{policy.metric}",
            policy_name=f"track-{policy.metric.replace('_', '-')}",
            policy_type="TargetTrackingScaling",
            target_tracking_scaling_policy_configuration=Policy.TargetTrackingScalingPolicyConfigurationProperty(
                target_value=policy.target,
                predefined_metric_specification=Policy.PredefinedMetricSpecificationProperty(
                    predefined_metric_type=known[policy.metric]
                ),
                scale_out_cooldown=policy.scale_out_cooldown_s,
                scale_in_cooldown=policy.scale_in_cooldown_s,
                disable_scale_in=not policy.scale_in,
            ),
        )

    def _step(self, policy: StepScaling, position: int) -> None:
        if policy.metric not in _STEP_METRICS:
            raise InputError(
                f"scaling.policies[{position}].metric: found {policy.metric}; "
                f"allowed for a step policy: {', '.join(_STEP_METRICS)}"
            )
        name = f"step-{position}-{policy.metric.replace('_', '-')}"
        resource = self._policy(
            f"Step-{position}",
            policy_name=name,
            policy_type="StepScaling",
            step_scaling_policy_configuration=Policy.StepScalingPolicyConfigurationProperty(
                adjustment_type="ChangeInCapacity",
                metric_aggregation_type="Maximum",
                cooldown=policy.cooldown_s,
                step_adjustments=_step_adjustments(policy),
            ),
        )
        metric_name, statistic = _STEP_METRICS[policy.metric]
        above = policy.comparison == "above"
        alarm_on_metric(
            self,
            f"Step-{position}-Alarm",
            metric=Metric(SAGEMAKER, metric_name, self._dimensions(policy.metric), statistic, policy.period_s),
            rule=AlarmRule(
                threshold=policy.threshold,
                comparison="GreaterThanOrEqualToThreshold" if above else "LessThanOrEqualToThreshold",
                periods=policy.evaluation_periods,
                to_alarm=policy.evaluation_periods,
            ),
            description=f"Scales {self._scaled_name} by its step policy {name}",
            actions=[resource.ref],
        )

    def _wake(self, to_zero: ToZero, buffer: Buffer | None) -> None:
        """Target tracking cannot leave zero; one more copy does, as soon as somebody asked in vain."""
        resource = self._policy(
            "Wake",
            policy_name="wake-from-zero",
            policy_type="StepScaling",
            step_scaling_policy_configuration=Policy.StepScalingPolicyConfigurationProperty(
                adjustment_type="ChangeInCapacity",
                metric_aggregation_type="Maximum",
                cooldown=to_zero.wake_cooldown_s,
                step_adjustments=[Policy.StepAdjustmentProperty(metric_interval_lower_bound=0, scaling_adjustment=1)],
            ),
        )
        # At least one, not more than one as AWS's example has it: that would sleep through a single request.
        rule = AlarmRule(threshold=1, comparison="GreaterThanOrEqualToThreshold")
        if to_zero.wake_on_failed_invocation and self._component_name is not None:
            alarm_on_metric(
                self,
                "Wake-NoCapacity",
                metric=Metric(
                    SAGEMAKER,
                    "NoCapacityInvocationFailures",
                    {"InferenceComponentName": self._component_name},
                    "Sum",
                ),
                rule=rule,
                description=f"A request found no copy of {self._scaled_name}: starts the first one",
                actions=[resource.ref],
            )
        if to_zero.wake_on_backlog:
            if buffer is None:
                raise InputError("scaling.to_zero.wake_on_backlog: there is no buffer; add `buffer: {}` or drop it")
            alarm_on_metric(
                self,
                "Wake-Backlog",
                metric=buffer.metric_waiting_messages(),
                rule=rule,
                description=f"Messages wait for {self._scaled_name}: starts the first copy",
                actions=[resource.ref],
            )

    def _policy(self, construct_id: str, **properties: Any) -> autoscaling.CfnScalingPolicy:
        return Policy(self, construct_id, scaling_target_id=self.target.ref, **properties)

    def _dimensions(self, metric: ScalingMetric) -> dict[str, str]:
        if metric.endswith("_per_copy") and self._component_name is not None:
            return {"InferenceComponentName": self._component_name}
        return {"EndpointName": self._deployment.endpoint_name, "VariantName": VARIANT_NAME}

    @property
    def _scaled_name(self) -> str:
        return self._component_name or self._deployment.endpoint_name


def _scheduled_action(schedule: ScheduledScaling) -> Target.ScheduledActionProperty:
    return Target.ScheduledActionProperty(
        scheduled_action_name=schedule.name,
        schedule=schedule.schedule,
        timezone=schedule.timezone,
        scalable_target_action=Target.ScalableTargetActionProperty(
            min_capacity=schedule.min_copies, max_capacity=schedule.max_copies
        ),
    )


def _step_adjustments(policy: StepScaling) -> list[Policy.StepAdjustmentProperty]:
    """The profile's `at` values as intervals away from the threshold: upwards for above, downwards for below."""
    steps = sorted(policy.steps, key=lambda step: step.at)
    ends = [*(later.at for _, later in pairwise(steps)), None]
    if policy.comparison == "above":
        return [
            Policy.StepAdjustmentProperty(
                metric_interval_lower_bound=step.at, metric_interval_upper_bound=end, scaling_adjustment=step.add_copies
            )
            for step, end in zip(steps, ends, strict=True)
        ]
    return [
        Policy.StepAdjustmentProperty(
            metric_interval_lower_bound=None if end is None else -end,
            metric_interval_upper_bound=-step.at,
            scaling_adjustment=step.add_copies,
        )
        for step, end in zip(steps, ends, strict=True)
    ]
