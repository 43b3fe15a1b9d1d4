"""What the runtime reads and writes beside its callers' connections: objects in S3, messages to SNS topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from botocore.client import BaseClient
from botocore.exceptions import BotoCoreError, ClientError

Read = TypeVar("Read")


class OutsideError(Exception):
    """An object that cannot be read or written, a topic that takes no message; the text says why."""


class Outside(Protocol):
    """Blocking calls: never on the event loop's own thread."""

    def read(self, s3_uri: str) -> bytes: ...

    def write(self, s3_uri: str, body: bytes, content_type: str, kms_key_id: str | None) -> None: ...

    def publish(self, topic_arn: str, message: str) -> None: ...


class Aws:
    """The services of this local cloud; `client` gives a boto3 client of one."""

    def __init__(self, client: Callable[[str], BaseClient]) -> None:
        self._client = client

    def read(self, s3_uri: str) -> bytes:
        bucket, key = split_uri(s3_uri)
        return _told(lambda: bytes(self._client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()))

    def write(self, s3_uri: str, body: bytes, content_type: str, kms_key_id: str | None) -> None:
        bucket, key = split_uri(s3_uri)
        encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_id} if kms_key_id else {}
        _told(
            lambda: self._client("s3").put_object(
                Bucket=bucket, Key=key, Body=body, ContentType=content_type, **encryption
            )
        )

    def publish(self, topic_arn: str, message: str) -> None:
        _told(lambda: self._client("sns").publish(TopicArn=topic_arn, Message=message))


def _told(call: Callable[[], Read]) -> Read:
    try:
        return call()
    except (BotoCoreError, ClientError) as error:
        raise OutsideError(str(error)) from None


def split_uri(s3_uri: str) -> tuple[str, str]:
    """Bucket and key of `s3://bucket/key`."""
    bucket, _, key = s3_uri.removeprefix("s3://").partition("/")
    return bucket, key
