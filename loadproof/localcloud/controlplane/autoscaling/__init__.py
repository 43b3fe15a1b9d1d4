"""Application Auto Scaling for SageMaker: targets, policies with their alarms, scheduled actions, activities."""

from loadproof.localcloud.controlplane.autoscaling.api import AutoScalingApi

__all__ = ["AutoScalingApi"]
