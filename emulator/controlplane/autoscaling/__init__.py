"""Application Auto Scaling for SageMaker: targets, policies with their alarms, scheduled actions.

Policies are kept and described as on AWS; nothing here changes a copy count yet.
"""

from emulator.controlplane.autoscaling.api import AutoScalingApi

__all__ = ["AutoScalingApi"]
