"""Objects in S3 by their URIs, through boto3: what asynchronous inference reads and writes."""

from __future__ import annotations

from loadproof.invocation.aws_errors import BotoCoreError, ClientError
from loadproof.invocation.credentials import is_loopback
from loadproof.invocation.endpoints import aws_client
from loadproof.invocation.s3_uri import S3_URI
from loadproof.wire.answers import code_of


class S3Objects:
    """One attempt a call. Raises CouldNotRunError where there can be no client."""

    def __init__(self, region: str, endpoint_url: str | None = None) -> None:
        local = endpoint_url is not None and is_loopback(endpoint_url)
        self._s3 = aws_client("s3", region, endpoint_url if local else None)

    def read(self, uri: str) -> bytes | None:
        bucket, key = _split(uri)
        try:
            body: bytes = self._s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        except (BotoCoreError, ClientError) as error:
            # Whoever may not list a bucket is told AccessDenied of what is not there yet.
            if code_of(error) in ("NoSuchKey", "AccessDenied"):
                return None
            raise OSError(str(error)) from error
        return body

    def write(self, uri: str, body: bytes) -> None:
        bucket, key = _split(uri)
        try:
            self._s3.put_object(Bucket=bucket, Key=key, Body=body, ContentType="application/json")
        except (BotoCoreError, ClientError) as error:
            raise OSError(str(error)) from error


def _split(uri: str) -> tuple[str, str]:
    found = S3_URI.fullmatch(uri)
    if found is None:
        raise OSError(f"{uri} is no object in S3")
    return found[1], found[2]
