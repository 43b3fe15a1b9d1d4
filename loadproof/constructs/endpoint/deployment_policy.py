"""How an update goes on, and what rolls it back: the DeploymentConfig of an endpoint or of a component."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aws_cdk import CfnResource
from aws_cdk import aws_sagemaker as sagemaker

from loadproof.profiles.schema import BlueGreenUpdate, Copies, CopiesUpdate, Endpoint, RollingUpdate
from loadproof.profiles.updates import batch_percent, copies_update, endpoint_update

OfEndpoint = sagemaker.CfnEndpoint
OfComponent = sagemaker.CfnInferenceComponent

_TRAFFIC: Final = {"all_at_once": "ALL_AT_ONCE", "canary": "CANARY", "linear": "LINEAR"}


def endpoint_deployment(
    endpoint: Endpoint, alarms: Sequence[CfnResource]
) -> sagemaker.CfnEndpoint.DeploymentConfigProperty:
    """The policy of a plain variant, with the alarms that roll an update back."""
    update = endpoint_update(endpoint)
    return OfEndpoint.DeploymentConfigProperty(
        rolling_update_policy=_rolling(update) if isinstance(update, RollingUpdate) else None,
        blue_green_update_policy=_blue_green(update) if isinstance(update, BlueGreenUpdate) else None,
        auto_rollback_configuration=(
            OfEndpoint.AutoRollbackConfigProperty(
                alarms=[OfEndpoint.AlarmProperty(alarm_name=alarm.ref) for alarm in alarms]
            )
            if alarms and update.rollback_on_alarms
            else None
        ),
    )


def component_deployment(
    copies: Copies, alarms: Sequence[CfnResource]
) -> sagemaker.CfnInferenceComponent.InferenceComponentDeploymentConfigProperty | None:
    """The policy of a component; None for one copy, which has no batches: SageMaker takes alarms only with them."""
    update = copies_update(copies)
    if update is None:
        return None
    return OfComponent.InferenceComponentDeploymentConfigProperty(
        rolling_update_policy=OfComponent.InferenceComponentRollingUpdatePolicyProperty(
            maximum_batch_size=_batch_of_copies(update),
            wait_interval_in_seconds=update.wait_s,
            maximum_execution_timeout_in_seconds=update.max_execution_s,
            rollback_maximum_batch_size=(
                _component_percent(update.rollback_batch_percent) if update.rollback_batch_percent else None
            ),
        ),
        auto_rollback_configuration=(
            OfComponent.AutoRollbackConfigurationProperty(
                alarms=[OfComponent.AlarmProperty(alarm_name=alarm.ref) for alarm in alarms]
            )
            if alarms and update.rollback_on_alarms
            else None
        ),
    )


def _rolling(update: RollingUpdate) -> sagemaker.CfnEndpoint.RollingUpdatePolicyProperty:
    return OfEndpoint.RollingUpdatePolicyProperty(
        maximum_batch_size=_percent(update.batch_percent),
        wait_interval_in_seconds=update.wait_s,
        maximum_execution_timeout_in_seconds=update.max_execution_s,
        rollback_maximum_batch_size=(
            _percent(update.rollback_batch_percent) if update.rollback_batch_percent else None
        ),
    )


def _blue_green(update: BlueGreenUpdate) -> sagemaker.CfnEndpoint.BlueGreenUpdatePolicyProperty:
    step = _percent(update.step_percent) if update.step_percent else None
    return OfEndpoint.BlueGreenUpdatePolicyProperty(
        traffic_routing_configuration=OfEndpoint.TrafficRoutingConfigProperty(
            type=_TRAFFIC[update.traffic],
            wait_interval_in_seconds=update.wait_s,
            canary_size=step if update.traffic == "canary" else None,
            linear_step_size=step if update.traffic == "linear" else None,
        ),
        termination_wait_in_seconds=update.termination_wait_s,
        maximum_execution_timeout_in_seconds=update.max_execution_s,
    )


def _batch_of_copies(update: CopiesUpdate) -> Any:
    if update.batch_copies is not None:
        return OfComponent.InferenceComponentCapacitySizeProperty(type="COPY_COUNT", value=update.batch_copies)
    return _component_percent(batch_percent(update))


def _component_percent(percent: int) -> Any:
    return OfComponent.InferenceComponentCapacitySizeProperty(type="CAPACITY_PERCENT", value=percent)


def _percent(percent: int) -> Any:
    return OfEndpoint.CapacitySizeProperty(type="CAPACITY_PERCENT", value=percent)
