"""The results bucket as a producer sees it: results to read, and requests that are too long for the queue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from loadproof.invocation.aws_errors import ClientError
from loadproof.invocation.buffer.calls import Calls
from loadproof.invocation.buffer.message import Message, MessageError, read_object, read_request
from loadproof.invocation.endpoints import Client
from loadproof.wire.answers import status_of
from loadproof.wire.message import MOST_REQUEST_BYTES, REQUESTS_PREFIX, RESULTS_PREFIX, key_of, request_json


class ResultsBucket:
    """`results/<key>.json` and `requests/<name>`. Every method raises CouldNotRunError."""

    def __init__(self, s3: Client, name: str, calls: Calls) -> None:
        self._s3 = s3
        self._name = name
        self._calls = calls

    def result(self, key: str) -> dict[str, object] | None:
        """What is stored under a key; None while nothing is."""
        text = self._text(f"{RESULTS_PREFIX}{key}.json")
        if text is None:
            return None
        result: dict[str, object] = json.loads(text)
        return result

    def has_result(self, key: str) -> bool:
        place = f"{RESULTS_PREFIX}{key}.json"
        try:
            self._calls(self._uri(place), lambda: self._s3.head_object(Bucket=self._name, Key=place))
        except ClientError as error:
            if status_of(error) != 404:
                raise
            return False
        return True

    def leave_request(self, request: Mapping[str, object]) -> str:
        """The claim check: leaves the payload and returns its place. Raises MessageError for one no model takes.

        Its name is its content's hash, so that two who write it at once write the same. No condition: a copy from last
        month would be kept by one, and the bucket's lifecycle might take it away before the queue is read.
        """
        body = request_json(request).encode()
        if len(body) > MOST_REQUEST_BYTES:
            raise MessageError(f"`request` has {len(body):,} bytes; a model takes at most {MOST_REQUEST_BYTES:,}")
        place = f"{REQUESTS_PREFIX}{hashlib.sha256(body).hexdigest()}"
        put = {"Bucket": self._name, "Key": place, "Body": body, "ContentType": "application/json"}
        self._calls(self._uri(place), lambda: self._s3.put_object(**put))
        return place

    def key_of(self, message: Message, revision: str) -> str:
        """The key of a message's result: its own, or made of its request, wherever that is. Raises MessageError."""
        if message.key is not None:
            return message.key
        if message.request is not None:
            return key_of(read_object(request_json(message.request)), revision)
        assert message.request_s3 is not None  # one of the two is there
        text = self._text(message.request_s3)
        if text is None:
            raise MessageError("`request_s3` names nothing in the results bucket")
        return key_of(read_request(text), revision)

    def _text(self, place: str) -> str | None:
        def read() -> str:
            return str(self._s3.get_object(Bucket=self._name, Key=place)["Body"].read(), "utf-8", "replace")

        try:
            return self._calls(self._uri(place), read)
        except ClientError as error:
            if status_of(error) != 404:
                raise
            return None

    def _uri(self, place: str) -> str:
        return f"s3://{self._name}/{place}"
