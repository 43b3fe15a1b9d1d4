"""Where hosts meet: objects under one S3 prefix."""

from __future__ import annotations

import io
import re
from typing import IO, Any, Protocol

from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation.aws_errors import BotoCoreError, ClientError
from loadproof.invocation.aws_sdk import guarded, sdk
from loadproof.invocation.endpoints import Answer, Client

_URI = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/(?P<prefix>.*))?")


class Store(Protocol):
    """Keys are relative. Listing is in order of keys, and sees what was put before."""

    def put(self, key: str, body: bytes) -> None: ...

    def get(self, key: str) -> bytes | None: ...

    def keys(self, prefix: str, after: str = "") -> list[str]: ...


class _Body(io.RawIOBase):
    """A body of boto3's as a raw stream, so that Python's buffers find its lines."""

    def __init__(self, body: IO[bytes]) -> None:
        self._body = body

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._body.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._body.close()
        super().close()


class S3Store:
    """Objects of one run. Raises CouldNotRunError, with what S3 said, for whatever cannot be read or written."""

    def __init__(self, uri: str, client: Client) -> None:
        """`client` is boto3's for S3."""
        self.bucket, prefix = parse_uri(uri)
        self._prefix = f"{prefix}/" if prefix else ""
        self._client = client

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self._prefix}".rstrip("/")

    def put(self, key: str, body: bytes) -> None:
        self._ask("put_object", key, Body=body)

    def get(self, key: str) -> bytes | None:
        answer = self._ask("get_object", key)
        body: bytes | None = None if answer is None else answer["Body"].read()
        return body

    def stream(self, key: str) -> IO[bytes]:
        """An object as it comes, for what is too large to hold. Raises CouldNotRunError without one."""
        answer = self._ask("get_object", key)
        if answer is None:
            raise CouldNotRunError(f"{self.uri}/{key}: is gone")
        body: IO[bytes] = io.BufferedReader(_Body(answer["Body"]), 1024 * 1024)
        return body

    def create(self, key: str, body: bytes) -> bool:
        """Put it unless the key is taken; False where it is."""
        return self._ask("put_object", key, Body=body, IfNoneMatch="*") is not None

    def keys(self, prefix: str, after: str = "") -> list[str]:
        """At most a thousand, S3's own page; ask again `after` the last one."""
        return [*self.sizes(prefix, after)]

    def sizes(self, prefix: str, after: str = "") -> dict[str, int]:
        """Keys with their sizes in bytes, a page as `keys`."""
        answer = self._ask("list_objects_v2", None, Prefix=self._prefix + prefix, StartAfter=self._prefix + after)
        return {row["Key"].removeprefix(self._prefix): row["Size"] for row in (answer or {}).get("Contents", ())}

    def _ask(self, operation: str, key: str | None, **more: object) -> Answer | None:
        named = {"Bucket": self.bucket} | ({} if key is None else {"Key": self._prefix + key})
        try:
            answer: Answer = getattr(self._client, operation)(**named, **more)
            return answer
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            if code in ("NoSuchKey", "404") and operation == "get_object":
                return None
            if code in ("PreconditionFailed", "ConditionalRequestConflict", "412", "409") and "IfNoneMatch" in more:
                return None
            raise CouldNotRunError(f"{self.uri}/{key or ''}: S3 refused {operation}: {error}") from error
        except BotoCoreError as error:
            raise CouldNotRunError(f"{self.uri}/{key or ''}: {operation} failed: {error}") from error


def ask(service: str, client: Client, operation: str, **request: object) -> Answer:
    """One call of a boto3 client. Raises CouldNotRunError with what AWS said."""
    try:
        answer: Answer = getattr(client, operation)(**request)
        return answer
    except (BotoCoreError, ClientError) as error:
        raise CouldNotRunError(f"{service}: {operation}: {error}") from error


def parse_uri(uri: str) -> tuple[str, str]:
    """`s3://bucket/a/prefix` as (bucket, "a/prefix"). Raises InputError."""
    match = _URI.fullmatch(uri)
    if match is None:
        raise InputError(f"{uri!r}: expected s3://BUCKET or s3://BUCKET/PREFIX")
    return match["bucket"], (match["prefix"] or "").strip("/")


def s3_client(endpoint_url: str | None = None, region: str | None = None, attempts: int = 1) -> Client:
    """boto3's client, one attempt a call: whoever polls asks again at its next turn. Raises CouldNotRunError."""
    try:
        config = sdk("botocore.config").Config(
            retries={"total_max_attempts": attempts, "mode": "standard"}, connect_timeout=10, read_timeout=30
        )
        return guarded(sdk("boto3").client("s3", endpoint_url=endpoint_url, region_name=region, config=config))
    except (BotoCoreError, ValueError) as error:
        raise CouldNotRunError(f"S3 cannot be spoken to: {error}") from error
