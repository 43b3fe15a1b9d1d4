"""EventBridge Scheduler: moto keeps the schedules, this starts their targets when they are due on the cloud's clock."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from botocore.client import BaseClient
from moto.scheduler.models import Schedule, scheduler_backends

from loadproof.errors import InputError
from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.autoscaling.schedules import check_schedule, is_due
from loadproof.localcloud.wire import AwsError, Caller

log = logging.getLogger(__name__)

_EMPTY = "{}"
# What a schedule may start, by the service in its target's ARN.
_STARTS: dict[str, Callable[[Callable[[str], BaseClient], str, str], object]] = {
    "states": lambda client, arn, text: client("stepfunctions").start_execution(stateMachineArn=arn, input=text),
    "lambda": lambda client, arn, text: client("lambda").invoke(
        FunctionName=arn, InvocationType="Event", Payload=text.encode()
    ),
    "sqs": lambda client, arn, text: client("sqs").send_message(
        QueueUrl=client("sqs").get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"], MessageBody=text
    ),
    "sns": lambda client, arn, text: client("sns").publish(TopicArn=arn, Message=text),
}


def fault_of(expression: str, timezone: str, target_arn: str) -> str | None:
    """Why a schedule would never fire here, or not on AWS either; None when it would."""
    service = target_arn.split(":")[2]
    if service not in _STARTS:
        return f"The local cloud starts {', '.join(sorted(_STARTS))} from a schedule, not {target_arn}."
    try:
        check_schedule({"Schedule": expression, "Timezone": timezone, "ScheduledActionName": "schedule"})
    except AwsError as error:
        return error.message
    return None


class Schedules:
    """All schedules of one account and region; `client` gives a boto3 client there."""

    def __init__(self, clock: CloudClock, caller: Caller, client: Callable[[str], BaseClient]) -> None:
        self._clock, self._caller, self._client = clock, caller, client
        self._seen: dict[str, datetime] = {}  # by ARN, when it was first seen on the cloud's calendar
        self._until = clock.calendar(clock.now_s())

    def turn(self) -> None:
        """Start what has become due since the last turn."""
        after, self._until = self._until, self._clock.calendar(self._clock.now_s())
        known = list(self._schedules())
        self._seen = {one.arn: self._seen.get(one.arn, self._until) for one in known}
        for one in known:
            if one.state == "ENABLED" and self._due(one, after):
                self._start(one)

    def _schedules(self) -> Iterator[Schedule]:
        backend = scheduler_backends[self._caller.account][self._caller.region]
        for group in list(backend.schedule_groups.values()):
            yield from list(group.schedules.values())

    def _due(self, schedule: Schedule, after: datetime) -> bool:
        action = {
            "Schedule": schedule.schedule_expression,
            "Timezone": schedule.schedule_expression_timezone,
            "ScheduledActionName": schedule.name,
            "StartTime": _moment(schedule.start_date),
            "EndTime": _moment(schedule.end_date),
        }
        try:
            return is_due(action, self._seen[schedule.arn], after, self._until)
        except InputError as error:  # the others are due all the same
            log.warning("schedule %s never fires here: %s", schedule.name, error)
            return False

    def _start(self, schedule: Schedule) -> None:
        arn = schedule.target["Arn"]
        start = _STARTS.get(arn.split(":")[2])
        if start is None:
            log.warning("schedule %s: the local cloud does not start %s", schedule.name, arn)
            return
        try:
            start(self._client, arn, schedule.target.get("Input", _EMPTY))
        except Exception as error:  # whatever the target's service says; the others are due as well
            log.warning("schedule %s could not start %s: %s", schedule.name, arn, error)


def _moment(value: object) -> datetime | None:
    """A date as the service keeps it: seconds, or text."""
    if value is None:
        return None
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    return datetime.fromisoformat(str(value))
