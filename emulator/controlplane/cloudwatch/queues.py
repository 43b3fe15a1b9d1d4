"""AWS/SQS: what each queue looks like right now, once a minute. moto keeps the queues and publishes nothing."""

from __future__ import annotations

import time
from typing import Any

from emulator.controlplane.cloudwatch.metrics import MetricKey, MetricStore

NAMESPACE = "AWS/SQS"


def put_queue_metrics(store: MetricStore, at_s: float, speed: float) -> None:
    """Messages visible, in flight and delayed, and the age of the oldest in the cloud's seconds, of all queues."""
    from moto.sqs.models import sqs_backends

    for account, regions in list(sqs_backends.items()):
        for region, backend in list(regions.items()):
            for name, queue in list(backend.queues.items()):
                for metric, value, unit in _state_of(queue, speed):
                    key = MetricKey(account, region, NAMESPACE, metric, (("QueueName", name),))
                    store.put(key, at_s, value, unit=unit)


def _state_of(queue: Any, speed: float) -> list[tuple[str, float, str]]:
    waiting = list(queue._messages)  # the property `messages` filters and sorts; one pass is enough here
    hidden = sum(1 for message in waiting if not message.visible)
    delayed = sum(1 for message in waiting if message.delayed)
    oldest_ms = min((int(message.sent_timestamp) for message in waiting), default=None)
    age_s = 0.0 if oldest_ms is None else max(0.0, time.time() - oldest_ms / 1000) * speed
    return [
        ("ApproximateNumberOfMessagesVisible", float(len(waiting) - hidden - delayed), "Count"),
        ("ApproximateNumberOfMessagesNotVisible", float(hidden), "Count"),
        ("ApproximateNumberOfMessagesDelayed", float(delayed), "Count"),
        ("ApproximateAgeOfOldestMessage", age_s, "Seconds"),
    ]
