"""Batch requests: up to ten entries that succeed or fail each for itself."""

from __future__ import annotations

import re
from collections.abc import Callable

from loadproof.localcloud.queue.sqs.errors import older_code
from loadproof.localcloud.queue.sqs.message import checked_attributes, size_of
from loadproof.localcloud.wire import AwsError, Params
from loadproof.wire.documents import Document

BATCH_LIMIT = 10
_BATCH_BYTES = 1_048_576
_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}\Z")
Result = Document


def entries_of(params: Params, noun: str) -> list[Params]:
    """The entries of a batch. Raises when the batch as a whole is refused."""
    entries: list[Params] = params["Entries"]
    if not entries:
        raise AwsError("EmptyBatchRequest", f"There should be at least one {noun} in the request.")
    if len(entries) > BATCH_LIMIT:
        raise AwsError(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {BATCH_LIMIT}. You have sent {len(entries)}.",
        )
    seen: set[str] = set()
    for entry in entries:
        if not _ENTRY_ID.match(entry["Id"]):
            raise AwsError(
                "InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
                "It can be at most 80 letters long.",
            )
        if entry["Id"] in seen:
            raise AwsError("BatchEntryIdsNotDistinct", f"Id {entry['Id']} repeated.")
        seen.add(entry["Id"])
    return entries


def check_bytes(entries: list[Params]) -> None:
    """Raises when the messages of a batch are too long together."""
    total = sum(_entry_bytes(entry) for entry in entries)
    if total > _BATCH_BYTES:
        raise AwsError(
            "BatchRequestTooLong",
            f"Batch requests cannot be longer than {_BATCH_BYTES} bytes. You have sent {total} bytes.",
        )


def each(entries: list[Params], act: Callable[[Params], Result | None]) -> Result:
    """A batch's answer: every entry succeeds or fails for itself."""
    successful: list[Document] = []
    failed: list[Document] = []
    for entry in entries:
        try:
            successful.append({"Id": entry["Id"], **(act(entry) or {})})
        except AwsError as error:
            code = older_code(error.code)
            failed.append({"Id": entry["Id"], "SenderFault": True, "Code": code, "Message": error.message})
    lists = {"Successful": successful, "Failed": failed}
    return {name: rows for name, rows in lists.items() if rows}


def _entry_bytes(entry: Params) -> int:
    """What an entry counts towards its batch; an entry that is refused for itself counts by its body."""
    try:
        attributes = checked_attributes(entry.get("MessageAttributes"))
    except AwsError:
        attributes = {}
    return size_of(str(entry.get("MessageBody", "")), attributes)
