"""AWS/SQS: what each queue looks like right now, and what went through it, once a minute."""

from __future__ import annotations

import time
from collections.abc import Iterator

from loadproof.localcloud.controlplane.cloudwatch.metrics import MetricKey, MetricStore
from loadproof.localcloud.queue.sqs.message import State
from loadproof.localcloud.queue.sqs.queue import Queue
from loadproof.localcloud.queue.sqs.service import SqsService

NAMESPACE = "AWS/SQS"
_TRAFFIC = ("NumberOfMessagesSent", "NumberOfMessagesReceived", "NumberOfMessagesDeleted", "NumberOfEmptyReceives")


def put_queue_metrics(store: MetricStore, sqs: SqsService, at_s: float, speed: float) -> None:
    """Messages visible, in flight and delayed, the age of the oldest in the cloud's seconds, and the traffic."""
    with sqs.locked() as engine:
        for queue in engine.queues():
            _, _, _, region, account, name = queue.arn.split(":")
            for metric, value, unit in _state_of(queue, speed):
                store.put(MetricKey(account, region, NAMESPACE, metric, (("QueueName", name),)), at_s, value, unit=unit)
            queue.traffic.clear()


def _state_of(queue: Queue, speed: float) -> Iterator[tuple[str, float, str]]:
    yield "ApproximateNumberOfMessagesVisible", queue.count(State.VISIBLE), "Count"
    yield "ApproximateNumberOfMessagesNotVisible", queue.count(State.IN_FLIGHT), "Count"
    yield "ApproximateNumberOfMessagesDelayed", queue.count(State.DELAYED), "Count"
    yield "ApproximateAgeOfOldestMessage", queue.age_of_oldest_s(time.time()) * speed, "Seconds"
    for name in _TRAFFIC:
        yield name, queue.traffic[name], "Count"
