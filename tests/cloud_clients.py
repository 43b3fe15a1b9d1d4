"""boto3 clients that mean one local cloud, whatever the environment says."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

from emulator.local import LocalCloud


def boto3_client(cloud: LocalCloud, service: str, **config: Any) -> Any:
    """It tries once; `config` are further options of botocore's Config."""
    return boto3.session.Session().client(
        service,
        region_name=cloud.region,
        endpoint_url=cloud.endpoint_url,
        aws_access_key_id=cloud.state.access_key,
        aws_secret_access_key=cloud.state.secret_key,
        config=Config(retries={"total_max_attempts": 1}, proxies={}, **config),
    )
