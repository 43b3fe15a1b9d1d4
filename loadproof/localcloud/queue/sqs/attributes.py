"""A queue's attributes: which there are, what they may be, and the two policies about dead letters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from loadproof.localcloud.queue.sqs.errors import invalid_value
from loadproof.localcloud.wire import AwsError
from loadproof.wire.documents import Document

_NUMBERS = {
    "DelaySeconds": (0, 900),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
    "MaximumMessageSize": (1024, 1_048_576),
    "MessageRetentionPeriod": (60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "VisibilityTimeout": (0, 43_200),
}
_DEFAULTS = {
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
    "VisibilityTimeout": "30",
}
_ONLY_WITH_FIFO = ("DeduplicationScope", "FifoThroughputLimit")
_OF_FIFO_QUEUES = ("ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit")
_SETTABLE = frozenset({*_NUMBERS, *_DEFAULTS, "KmsMasterKeyId", "Policy", "RedriveAllowPolicy", "RedrivePolicy"})
COMPUTED = (
    "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed", "ApproximateNumberOfMessagesNotVisible",
    "CreatedTimestamp", "LastModifiedTimestamp", "QueueArn",
)  # fmt: skip
_PERMISSIONS = ("allowAll", "byQueue", "denyAll")
_MOST_SOURCES = 10
_MOST_POLICY_BYTES, _MOST_STATEMENTS, _MOST_PRINCIPALS, _MOST_CONDITIONS = 8192, 20, 50, 10


class Redrive(NamedTuple):
    """Where a message goes once it has been received `most_receives` times."""

    target_arn: str
    most_receives: int


class QueueAttributes:
    """The attributes of one queue, as text, always complete and valid."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._values = dict(_DEFAULTS)
        self.set(given)

    def set(self, given: Mapping[str, str]) -> None:
        """Raises, and changes nothing, when one name or value is refused. An empty text takes an attribute away."""
        wanted = {name: _checked(name, str(value)) for name, value in given.items()}
        if wanted.get("KmsMasterKeyId") and wanted.get("SqsManagedSseEnabled") == "true":
            raise AwsError(
                "InvalidAttributeName",
                "You can use one type of server-side encryption (SSE) at one time. "
                "You can either enable KMS SSE or SQS SSE.",
            )
        if wanted.get("KmsMasterKeyId"):
            wanted["SqsManagedSseEnabled"] = "false"
        elif wanted.get("SqsManagedSseEnabled") == "true":
            wanted["KmsMasterKeyId"] = ""
        self._values = _DEFAULTS | {name: value for name, value in (self._values | wanted).items() if value != ""}

    def shown(self) -> dict[str, str]:
        """All that were set or have a default."""
        return dict(self._values)

    def differing(self, given: Mapping[str, str]) -> str | None:
        """The first of the given attributes that has another value here."""
        wanted = QueueAttributes(given).shown()
        return next((name for name in sorted(given) if wanted.get(name) != self._values.get(name)), None)

    def number(self, name: str) -> int:
        return int(self._values[name])

    @property
    def redrive(self) -> Redrive | None:
        policy = self._values.get("RedrivePolicy")
        return None if policy is None else redrive_of(policy)

    def allows_dead_letters_of(self, source_arn: str) -> bool:
        """Whether this queue may be the dead-letter queue of another."""
        policy = json.loads(self._values.get("RedriveAllowPolicy", "{}"))
        permission = policy.get("redrivePermission", "allowAll")
        return permission == "allowAll" or (permission == "byQueue" and source_arn in policy["sourceQueueArns"])


def check_known(names: Iterable[str]) -> None:
    """Raises for a name that no queue has an attribute of."""
    for name in names:
        if name not in (*_SETTABLE, *COMPUTED, *_OF_FIFO_QUEUES, "All", "FifoQueue"):
            raise AwsError("InvalidAttributeName", f"Unknown Attribute {name}.")


def redrive_of(policy: str) -> Redrive:
    """Raises for a policy that SQS refuses."""
    parsed = _json_object("RedrivePolicy", policy)
    target = parsed.get("deadLetterTargetArn")
    if not isinstance(target, str) or len(target.split(":")) != 6 or target.split(":")[2] != "sqs":
        raise invalid_value(policy, "RedrivePolicy", "Invalid value for deadLetterTargetArn.")
    count = parsed.get("maxReceiveCount")
    number = int(count) if isinstance(count, int) or (isinstance(count, str) and count.isdigit()) else 0
    if not 1 <= number <= 1000:
        reason = f"Invalid value for maxReceiveCount: {count}, valid values are from 1 to 1000 both inclusive."
        raise invalid_value(policy, "RedrivePolicy", reason)
    return Redrive(target, number)


def _checked(name: str, value: str) -> str:
    if name in _ONLY_WITH_FIFO:
        raise AwsError("InvalidAttributeName", f"You can specify the {name} only when FifoQueue is set to true.")
    if name == "FifoQueue" or name in _OF_FIFO_QUEUES:
        raise AwsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    if name not in _SETTABLE:
        raise AwsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    if name in _NUMBERS:
        low, high = _NUMBERS[name]
        if not value.isdigit() or not low <= int(value) <= high:
            raise _invalid_attribute(name)
        return str(int(value))
    if name == "SqsManagedSseEnabled" and value not in ("true", "false"):
        raise _invalid_attribute(name)
    if value and name == "RedrivePolicy":
        redrive_of(value)
    elif value and name == "RedriveAllowPolicy":
        _check_allow_policy(value)
    elif value and name == "Policy":
        _check_access_policy(value)
    return value


def _check_access_policy(policy: str) -> None:
    """Each statement allows or denies; sizes are those of "Amazon SQS policy quotas" of the developer guide."""
    listed = _listed(_json_object("Policy", policy).get("Statement", []))
    statements = [one for one in listed if isinstance(one, dict) and one.get("Effect") in ("Allow", "Deny")]
    if len(statements) < len(listed):
        raise _invalid_attribute("Policy")
    principals = [name for one in statements for name in _principals(one.get("Principal", []))]
    conditions = [key for one in statements for keys in one.get("Condition", {}).values() for key in keys]
    for what, found, most in (
        ("bytes", len(policy.encode()), _MOST_POLICY_BYTES),
        ("statements", len(statements), _MOST_STATEMENTS),
        ("principals", len(principals), _MOST_PRINCIPALS),
        ("conditions", len(conditions), _MOST_CONDITIONS),
    ):
        if found > most:
            raise AwsError("OverLimit", f"The policy has {found} {what}: at most {most} are allowed.", 403)


def _principals(given: object) -> list[object]:
    """`"*"`, or names by kind."""
    return [name for names in given.values() for name in _listed(names)] if isinstance(given, dict) else _listed(given)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _check_allow_policy(policy: str) -> None:
    parsed = _json_object("RedriveAllowPolicy", policy)
    permission, sources = parsed.get("redrivePermission", "allowAll"), parsed.get("sourceQueueArns")
    named = isinstance(sources, list) and 1 <= len(sources) <= _MOST_SOURCES
    if permission not in _PERMISSIONS or named != (permission == "byQueue") or (sources is not None and not named):
        reason = (
            f"redrivePermission must be one of {', '.join(_PERMISSIONS)}, with 1 to {_MOST_SOURCES} sourceQueueArns "
            "for byQueue and none otherwise."
        )
        raise invalid_value(policy, "RedriveAllowPolicy", reason)


def _json_object(name: str, text: str) -> Document:
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise _invalid_attribute(name) if name == "Policy" else invalid_value(text, name, "It is no JSON object.")
    return parsed


def _invalid_attribute(name: str) -> AwsError:
    return AwsError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")
