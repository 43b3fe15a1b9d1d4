"""CloudWatch's metrics and alarms: data, statistics, metric math, evaluation, actions. Dashboards are moto's."""

from loadproof.localcloud.controlplane.cloudwatch.api import CloudWatchApi
from loadproof.localcloud.controlplane.cloudwatch.metrics import MetricStore

__all__ = ["CloudWatchApi", "MetricStore"]
