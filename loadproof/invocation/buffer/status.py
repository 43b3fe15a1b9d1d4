"""How a buffer stands: what waits, what is worked on, what was given up, and how fast its consumers may go."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from loadproof.errors import CouldNotRunError
from loadproof.invocation.buffer.calls import POLICY, Calls
from loadproof.invocation.buffer.places import Places
from loadproof.invocation.endpoints import Client
from loadproof.wire.pace import RECORD_KEY, Gate, record_of

_POLICY: Final = replace(POLICY, deadline_s=5.0)  # how it stands is wanted now, or not at all
_COUNTS: Final = {
    "waiting": "ApproximateNumberOfMessages",
    "in_flight": "ApproximateNumberOfMessagesNotVisible",
    "delayed": "ApproximateNumberOfMessagesDelayed",
}
_SEEN_FOR: Final = timedelta(minutes=10)  # CloudWatch has a queue's age a minute or more late


@dataclass(frozen=True, slots=True)
class PaceNow:
    """The pace that all consumers share. Times: Unix ms.

    `share`: which part of all slots may invoke (0 to 1). With the gate not open nothing is sent but a probe at
    `next_probe_ms`: `no_capacity` while no copy is up, `unavailable` while nothing is answered.
    """

    gate: Gate = "open"
    share: float = 1.0
    closed_since_ms: int | None = None
    next_probe_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BufferStatus:
    """Counts are SQS's, which are approximate; `oldest_age_s` None: CloudWatch has no figure of late."""

    waiting: int
    in_flight: int
    delayed: int
    dead_letters: int
    oldest_age_s: float | None
    pace: PaceNow


def status_of(
    places: Places,
    *,
    sqs: Client,
    dynamodb: Client,
    cloudwatch: Client,
    calls: Calls | None = None,
    now_s: float | None = None,
) -> BufferStatus:
    """Asks queue, dead-letter queue, claims table and CloudWatch once each. Raises CouldNotRunError."""
    calls, now_s = calls or Calls(_POLICY), time.time() if now_s is None else now_s
    queue = _counts(sqs, places.queue_url, calls)
    dead = _counts(sqs, places.dead_letter_url, calls)
    item = calls(
        "the claims table",
        lambda: dynamodb.get_item(TableName=places.claims_table, Key=RECORD_KEY, ConsistentRead=True),
    ).get("Item", {})
    return BufferStatus(
        **queue,
        dead_letters=sum(dead.values()),
        oldest_age_s=_oldest_age_s(cloudwatch, places.queue_url.rsplit("/", 1)[-1], calls, now_s),
        pace=pace_now(item, now_s),
    )


def pace_now(item: dict[str, object], now_s: float) -> PaceNow:
    """The shared record as of now."""
    record = record_of(item)
    if record.gate == "open":
        return PaceNow(share=max(0.0, record.share(now_s)))
    return PaceNow(record.gate, 0.0, record.closed_ms or record.gate_ms, record.probe_ms)


def count_claims(dynamodb: Client, places: Places, calls: Calls | None = None) -> Counter[str]:
    """Keys by phase (claimed, released, done). Reads the whole table, which is paid for by what it holds.

    Raises CouldNotRunError.
    """
    calls, counts, start = calls or Calls(), Counter[str](), dict[str, object]()
    while True:
        page = calls(
            "the claims table",
            lambda: dynamodb.scan(TableName=places.claims_table, ProjectionExpression="id, phase", **start),  # noqa: B023
        )
        counts.update(item["phase"]["S"] for item in page["Items"] if "phase" in item)
        if "LastEvaluatedKey" not in page:
            return counts
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def _counts(sqs: Client, url: str, calls: Calls) -> dict[str, int]:
    found = calls("a queue", lambda: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[*_COUNTS.values()]))
    return {name: int(found["Attributes"][attribute]) for name, attribute in _COUNTS.items()}


def _oldest_age_s(cloudwatch: Client, queue: str, calls: Calls, now_s: float) -> float | None:
    now = datetime.fromtimestamp(now_s, UTC)
    try:
        found = calls(
            "CloudWatch",
            lambda: cloudwatch.get_metric_statistics(
                Namespace="AWS/SQS",
                MetricName="ApproximateAgeOfOldestMessage",
                Dimensions=[{"Name": "QueueName", "Value": queue}],
                StartTime=now - _SEEN_FOR,
                EndTime=now + timedelta(minutes=1),
                Period=60,
                Statistics=["Maximum"],
            ),
        )
    except CouldNotRunError:  # who may read the queue need not have the right to its metrics
        return None
    points = found["Datapoints"]
    return float(max(points, key=lambda point: point["Timestamp"])["Maximum"]) if points else None
