"""What a model or a job names and must exist when it is made: its image's region, its data, its network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from moto.backends import get_backend

from loadproof.localcloud.account.networks import security_groups, subnets
from loadproof.localcloud.controlplane.sagemaker.store import refuse
from loadproof.localcloud.wire import AwsError, Caller, Params

_IMAGE = re.compile(r"\d{12}\.dkr\.ecr\.(?P<region>[\w-]+)\.amazonaws\.com(\.cn)?/")
_MODEL_ID_TAG = "loadproof:model-id"
_DATA = re.compile(r"s3://(?P<bucket>[^/]+)/(?P<key>.+)")


def check_existing(caller: Caller, params: Params) -> None:
    """Raises AwsError for what CreateModel would not find on AWS."""
    for container in _containers(params):
        _check_image(caller, container.get("Image", ""))
        _check_data(caller, container.get("ModelDataUrl", ""))
        if not any(tag["Key"] == _MODEL_ID_TAG for tag in params.get("Tags") or ()):
            _check_source(caller, container)
    check_network(caller, params.get("VpcConfig") or {})


def check_network(caller: Caller, config: Mapping[str, Any]) -> None:
    """Raises AwsError for subnets and security groups that the region does not have."""
    for kind, known in (("Subnets", subnets(caller)), ("SecurityGroupIds", security_groups(caller))):
        missing = [name for name in config.get(kind) or () if name not in known]
        if missing:
            raise refuse(f"VpcConfig.{kind}: {', '.join(missing)} not found in {caller.region}.")


def _containers(params: Params) -> Iterator[Mapping[str, Any]]:
    yield params.get("PrimaryContainer") or {}
    yield from params.get("Containers") or ()


def _check_image(caller: Caller, image: str) -> None:
    named = _IMAGE.match(image)
    if named is not None and named["region"] != caller.region:
        raise refuse(
            f"Requested image {image} is of region {named['region']}: images must be in the same region as the model, "
            f"{caller.region}."
        )


def missing_weights(caller: Caller, properties: Params) -> str | None:
    """What a stack event says of weights that are not there: the twin needs none where a tag names the model."""
    try:
        for container in _containers(properties):
            _check_source(caller, container)
    except AwsError as error:
        return f"AWS would refuse this: {error.message}"
    return None


def _check_source(caller: Caller, container: Mapping[str, Any]) -> None:
    source = (container.get("ModelDataSource") or {}).get("S3DataSource") or {}
    _check_data(caller, source.get("S3Uri", ""), prefix=source.get("S3DataType") == "S3Prefix")


def _check_data(caller: Caller, url: str, *, prefix: bool = False) -> None:
    named = _DATA.fullmatch(url)
    if named is None:
        return
    bucket = get_backend("s3")[caller.account]["aws"].buckets.get(named["bucket"])
    if bucket is None:
        raise refuse(f"Could not access model data at {url}: there is no such bucket.")
    found = any(key.startswith(named["key"]) for key in bucket.keys) if prefix else named["key"] in bucket.keys
    if not found:
        raise refuse(f"Could not find model data at {url}.")
