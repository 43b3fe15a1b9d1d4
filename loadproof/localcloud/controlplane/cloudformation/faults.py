"""Why something failed, in the words of a stack event."""

from __future__ import annotations

import logging

from botocore.exceptions import ParamValidationError

from loadproof.localcloud.controlplane.cloudformation.resources.base import ResourceFailedError
from loadproof.localcloud.controlplane.cloudformation.stack import Resource
from loadproof.localcloud.wire import AwsError

log = logging.getLogger(__name__)


class StoppedError(Exception):
    """The operation cannot go on; the resource's own event tells why."""

    def __init__(self, resource: Resource, reason: str) -> None:
        super().__init__(reason)
        self.resource = resource
        self.reason = reason


def reason_of(error: Exception) -> str:
    """The event's reason for an error of a service, of ours, or one that nobody expected (then also logged)."""
    if isinstance(error, ResourceFailedError):
        return str(error)
    if isinstance(error, AwsError):
        return f'Resource handler returned message: "{error.message}" ({error.code})'
    response = getattr(error, "response", None)
    if isinstance(response, dict) and "Error" in response:
        return (
            f'Resource handler returned message: "{response["Error"].get("Message")}" ({response["Error"].get("Code")})'
        )
    if isinstance(error, ParamValidationError):
        return f'Resource handler returned message: "{error}" (InvalidRequest)'
    log.error("a resource failed in an unexpected way", exc_info=error)
    return f'Resource handler returned message: "{type(error).__name__}: {error}" (InternalFailure)'


def already_gone(error: Exception) -> bool:
    """Whether deleting failed only because there was nothing to delete."""
    if isinstance(error, AwsError):
        return "Could not find" in error.message or error.code == "ObjectNotFoundException"
    code = str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))
    return code in {
        "NoSuchEntity", "NoSuchBucket", "ResourceNotFoundException", "ParameterNotFound", "404", "NotFoundException",
        "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "NotFound", "RepositoryNotFoundException",
    }  # fmt: skip
