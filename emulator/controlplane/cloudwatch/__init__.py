"""CloudWatch's metrics and alarms: data, statistics, metric math, evaluation, actions. Dashboards are moto's."""

from emulator.controlplane.cloudwatch.api import CloudWatchApi
from emulator.controlplane.cloudwatch.metrics import MetricStore

__all__ = ["CloudWatchApi", "MetricStore"]
