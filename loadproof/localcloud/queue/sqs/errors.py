"""SQS's errors. Each has two codes: the JSON protocol's shape name, and the older one that SDKs still show.

Codes and texts are those that AWS was seen to answer; where none is published, the text is ours and the code AWS's.
"""

from __future__ import annotations

from loadproof.localcloud.wire import AwsError

_PREFIX = "AWS.SimpleQueueService."
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-json-api-responses.html
_OLDER_CODES = {
    "QueueDoesNotExist": _PREFIX + "NonExistentQueue",
    "QueueNameExists": "QueueAlreadyExists",
    "InvalidParameterValueException": "InvalidParameterValue",
    "MissingRequiredParameterException": "MissingParameter",
    **{
        name: _PREFIX + name
        for name in (
            "BatchEntryIdsNotDistinct", "BatchRequestTooLong", "EmptyBatchRequest", "InvalidBatchEntryId",
            "MessageNotInflight", "PurgeQueueInProgress", "QueueDeletedRecently", "TooManyEntriesInBatchRequest",
            "UnsupportedOperation",
        )
    },
}  # fmt: skip


def older_code(code: str) -> str:
    """The code that SDKs show: that of the Query protocol."""
    return _OLDER_CODES.get(code, code)


def no_queue() -> AwsError:
    return AwsError("QueueDoesNotExist", "The specified queue does not exist.")


def invalid(message: str) -> AwsError:
    return AwsError("InvalidParameterValueException", message)


def invalid_value(value: object, parameter: str, reason: str) -> AwsError:
    """A parameter's value is refused."""
    return invalid(f"Value {value} for parameter {parameter} is invalid. Reason: {reason}")


def missing(parameter: str) -> AwsError:
    return AwsError("MissingRequiredParameterException", f"The request must contain the parameter {parameter}.")


def no_resource(message: str) -> AwsError:
    return AwsError("ResourceNotFoundException", message, 404)


def unsupported(message: str) -> AwsError:
    return AwsError("UnsupportedOperation", message)
