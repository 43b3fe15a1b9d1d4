"""The bucket: results that are written once, and requests that were too long for the queue."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from loadproof.wire.answers import status_of
from loadproof.wire.documents import Document
from loadproof.wire.message import MOST_REQUEST_BYTES, MalformedError

from .stores import Time, persevere


class Results:
    """`results/<key>.json` and `requests/<name>` in one bucket."""

    def __init__(self, s3: Any, bucket: str, prefix: str, clock: Time) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._prefix = prefix
        self._clock = clock

    def uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._place(key)}"

    def exists(self, key: str) -> bool:
        """Whether it is there, as far as S3 tells: 403 is what it says of a missing object to who may not list.

        Then the put decides, as always. Raises StoreDownError.
        """
        place = self._place(key)
        try:
            persevere("the results bucket", lambda: self._s3.head_object(Bucket=self._bucket, Key=place), self._clock)
        except ClientError as error:
            if status_of(error) in (403, 404):
                return False
            raise
        return True

    def put(self, key: str, result: Document, *, until_s: float) -> bool:
        """Store it unless one is there: True when this one is what stays. Safe to repeat. Raises StoreDownError.

        Where an answer was lost on its way and the put is repeated, it finds itself and says False.
        """
        body = json.dumps(result).encode()
        try:
            persevere(
                "the results bucket",
                lambda: self._s3.put_object(
                    Bucket=self._bucket,
                    Key=self._place(key),
                    Body=body,
                    ContentType="application/json",
                    IfNoneMatch="*",
                ),
                self._clock,
                until_s,
            )
        except ClientError as error:
            if status_of(error) != 412:
                raise
            return False
        return True

    def read_request(self, place: str) -> str:
        """The text at `requests/<name>`, at most 6 MB. Raises MalformedError, StoreDownError."""
        try:
            return persevere("the results bucket", lambda: self._read(place), self._clock)
        except ClientError as error:
            if status_of(error) == 404:
                raise MalformedError("`request_s3` names nothing in the results bucket") from None
            raise

    def leave_request(self, place: str, request: Document) -> None:
        """The other way round: a payload that no longer fits the queue. Raises StoreDownError."""
        body = json.dumps(request).encode()
        persevere(
            "the results bucket",
            lambda: self._s3.put_object(Bucket=self._bucket, Key=place, Body=body, ContentType="application/json"),
            self._clock,
        )

    def _read(self, place: str) -> str:
        answer = self._s3.get_object(Bucket=self._bucket, Key=place)
        body = answer["Body"].read(MOST_REQUEST_BYTES + 1)
        answer["Body"].close()
        if len(body) > MOST_REQUEST_BYTES:
            raise MalformedError(f"the request in the bucket is longer than {MOST_REQUEST_BYTES:,} bytes")
        try:
            return str(body, "utf-8")
        except UnicodeDecodeError:
            raise MalformedError("the request in the bucket is not UTF-8") from None

    def _place(self, key: str) -> str:
        return f"{self._prefix}{key}.json"
