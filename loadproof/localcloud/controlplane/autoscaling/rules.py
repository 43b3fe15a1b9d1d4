"""What Application Auto Scaling refuses for SageMaker."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from loadproof.localcloud.controlplane.autoscaling.alarms import PREDEFINED
from loadproof.localcloud.controlplane.autoscaling.targets import CONCURRENCY, COPIES, INSTANCES
from loadproof.localcloud.wire import AwsError, Params
from loadproof.wire.documents import Document, Json

_MOST_STEPS = 20


def refuse(message: str) -> AwsError:
    return AwsError("ValidationException", message)


def check_dimension(params: Params) -> None:
    """Namespace, dimension and the form of the resource id belong together."""
    if params["ServiceNamespace"] != "sagemaker":
        raise AwsError(
            "UnsupportedOperation",
            f"The local cloud scales the namespace sagemaker only, found {params['ServiceNamespace']}.",
        )
    resource_id, dimension = params["ResourceId"], params["ScalableDimension"]
    if dimension == CONCURRENCY:
        raise AwsError("UnsupportedOperation", "The local cloud does not provide serverless variants, nor scales them.")
    parts = resource_id.split("/")
    if dimension == COPIES:
        fits = len(parts) == 2 and parts[0] == "inference-component" and bool(parts[1])
        form = "inference-component/NAME"
    elif dimension == INSTANCES:
        fits = len(parts) == 4 and parts[0] == "endpoint" and parts[2] == "variant" and all(parts)
        form = "endpoint/NAME/variant/VARIANT"
    else:
        raise refuse(f"Unsupported service namespace, resource type or scalable dimension: {dimension}.")
    if not fits:
        raise refuse(f"Resource id {resource_id} does not fit scalable dimension {dimension}: use {form}.")


def check_bounds(low: int | None, high: int | None) -> None:
    if low is None or high is None:
        raise refuse("MinCapacity and MaxCapacity are required when a scalable target is registered first.")
    if low < 0 or high < 0:
        raise refuse(f"Capacities must not be negative, found minimum {low} and maximum {high}.")
    if low > high:
        raise refuse(f"Maximum capacity ({high}) cannot be less than minimum capacity ({low}).")


def check_policy(params: Params) -> None:
    """One configuration that fits the policy type; a metric that fits the dimension; steps without gaps."""
    kind = params.get("PolicyType", "StepScaling")
    for field in ("TargetTrackingScalingPolicyConfiguration", "StepScalingPolicyConfiguration"):
        if params.get(field) and field != f"{kind}PolicyConfiguration":
            raise refuse(f"{field} is not supported for policy type {kind}.")
    if kind == "TargetTrackingScaling":
        _check_tracking(params)
    elif kind == "StepScaling":
        _check_steps(params.get("StepScalingPolicyConfiguration"))
    else:
        raise refuse(f"Policy type {kind} is not supported for service namespace sagemaker.")


def check_one_metric(params: Params, others: Iterable[Document]) -> None:
    """Raises AwsError where another policy of the target tracks the metric already; `others` are their configurations.

    As AWS said in https://github.com/hashicorp/terraform-provider-aws/issues/41179.
    """
    configuration = params.get("TargetTrackingScalingPolicyConfiguration")
    if configuration and any(_metric(one) == _metric(configuration) for one in others):
        raise refuse("Only one TargetTrackingScaling policy for a given metric specification is allowed.")


def _metric(configuration: Document) -> Json:
    return configuration.get("PredefinedMetricSpecification") or configuration.get("CustomizedMetricSpecification")


def _check_tracking(params: Params) -> None:
    configuration = params.get("TargetTrackingScalingPolicyConfiguration")
    if not configuration:
        raise refuse("TargetTrackingScalingPolicyConfiguration is required for TargetTrackingScaling.")
    predefined = configuration.get("PredefinedMetricSpecification")
    if bool(predefined) == bool(configuration.get("CustomizedMetricSpecification")):
        raise refuse("Specify exactly one of a predefined and a customized metric.")
    if configuration["TargetValue"] <= 0:
        raise refuse(f"TargetValue must be greater than 0, found {configuration['TargetValue']}.")
    for name in ("ScaleOutCooldown", "ScaleInCooldown"):
        if configuration.get(name, 0) < 0:
            raise refuse(f"{name} must not be negative, found {configuration[name]}.")
    if predefined:
        metric = predefined["PredefinedMetricType"]
        of_component = metric.startswith("SageMakerInferenceComponent")
        if predefined.get("ResourceLabel"):
            raise refuse(f"ResourceLabel is not supported for metric {metric}.")
        if metric not in PREDEFINED or of_component != (params["ScalableDimension"] == COPIES):
            raise refuse(f"Metric {metric} is not supported for {params['ScalableDimension']}.")
    else:
        _check_custom(configuration["CustomizedMetricSpecification"])


def _check_custom(custom: Document) -> None:
    if "Metrics" in custom:
        if any(custom.get(name) for name in ("MetricName", "Namespace", "Statistic", "Dimensions", "Unit")):
            raise refuse("A customized metric is either Metrics or one metric's name, namespace and statistic.")
        returned = [one for one in custom["Metrics"] if one.get("ReturnData", True)]
        if len(returned) != 1:
            raise refuse(f"Exactly one metric must have ReturnData true, found {len(returned)}.")
    elif not all(custom.get(name) for name in ("MetricName", "Namespace", "Statistic")):
        raise refuse("A customized metric needs MetricName, Namespace and Statistic, or Metrics.")


def _check_adjustments(configuration: Document) -> None:
    """Sources: API references of StepAdjustment and StepScalingPolicyConfiguration, quotas of the service."""
    steps, kind = configuration["StepAdjustments"], configuration["AdjustmentType"]
    if len(steps) > _MOST_STEPS:
        raise refuse(f"A step scaling policy has at most {_MOST_STEPS} step adjustments, found {len(steps)}.")
    if configuration.get("MinAdjustmentMagnitude") is not None and kind != "PercentChangeInCapacity":
        raise refuse(f"MinAdjustmentMagnitude is not supported with {kind}.")
    if kind == "ExactCapacity" and any(step["ScalingAdjustment"] < 0 for step in steps):
        raise refuse("ScalingAdjustment must not be negative with ExactCapacity.")


def _check_steps(configuration: Document | None) -> None:
    if not configuration or not configuration.get("StepAdjustments"):
        raise refuse("StepScalingPolicyConfiguration with StepAdjustments is required for StepScaling.")
    if not configuration.get("AdjustmentType"):
        raise refuse("AdjustmentType is required for StepScaling.")
    _check_adjustments(configuration)
    steps = sorted(
        (
            step.get("MetricIntervalLowerBound", float("-inf")),
            step.get("MetricIntervalUpperBound", float("inf")),
        )
        for step in configuration["StepAdjustments"]
    )
    for low, high in steps:
        if low >= high:
            raise refuse(f"A step's lower bound must be less than its upper bound, found {low} and {high}.")
    for (_, high), (low, _) in pairwise(steps):
        if high != low:
            raise refuse(f"Step intervals must neither overlap nor leave a gap, found {high} then {low}.")
