"""boto3 clients that mean one local cloud, whatever the environment says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from loadproof.localcloud.local import LocalCloud


def boto3_client(cloud: LocalCloud, service: str, region: str | None = None, **config: Any) -> Any:
    """It tries once; `config` are further options of botocore's Config."""
    return boto3.session.Session().client(
        service,
        region_name=region or cloud.region,
        endpoint_url=cloud.endpoint_url,
        aws_access_key_id=cloud.state.access_key,
        aws_secret_access_key=cloud.state.secret_key,
        config=Config(retries={"total_max_attempts": 1}, proxies={}, **config),
    )


def trusting_role(cloud: LocalCloud) -> str:
    """The ARN of a role that lets its account in."""
    iam, statement = boto3_client(cloud, "iam"), {"Effect": "Allow", "Action": "sts:AssumeRole"}
    trust = {"Statement": [{**statement, "Principal": {"AWS": f"arn:aws:iam::{cloud.account}:root"}}]}
    with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
        iam.create_role(RoleName="any", AssumeRolePolicyDocument=json.dumps(trust))
    return f"arn:aws:iam::{cloud.account}:role/any"


def signed_headers(
    cloud: LocalCloud,
    service: str,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    keys: Credentials | None = None,
    *,
    region: str | None = None,
) -> dict[str, str]:
    """Headers of a request as botocore signs it, with the cloud's keys or others; Host is among them."""
    host = cloud.endpoint_url.removeprefix("http://")
    request = AWSRequest(method, f"{cloud.endpoint_url}{path}", {"Host": host, **(headers or {})}, body)
    # S3's signer would put the body's hash in the place of a declared one.
    declared = "X-Amz-Content-SHA256" in request.headers
    signer = S3SigV4Auth if service == "s3" and not declared else SigV4Auth
    keys = keys or Credentials(cloud.state.access_key, cloud.state.secret_key)
    signer(keys, service, region or cloud.region).add_auth(request)
    return dict(request.headers.items())
