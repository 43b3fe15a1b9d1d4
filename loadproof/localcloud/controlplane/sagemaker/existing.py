"""What a model names and must exist when it is made: its image's region, its data, reserved tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadproof.localcloud.controlplane.sagemaker.store import refuse
from loadproof.localcloud.controlplane.wire import Caller, Params

_IMAGE = re.compile(r"\d{12}\.dkr\.ecr\.(?P<region>[\w-]+)\.amazonaws\.com(\.cn)?/")
_DATA = re.compile(r"s3://(?P<bucket>[^/]+)/(?P<key>.+)")


def check_existing(caller: Caller, params: Params) -> None:
    """Raises AwsError for what CreateModel would not find on AWS."""
    for container in _containers(params):
        _check_image(caller, container.get("Image", ""))
        _check_data(caller, container.get("ModelDataUrl", ""))


def check_tag_keys(tags: Sequence[Mapping[str, str]]) -> None:
    names = [tag["Key"] for tag in tags]
    if len(set(names)) != len(names):
        raise refuse(f"Tag keys must be unique, found {', '.join(names)}.")
    for tag in tags:
        if tag["Key"].lower().startswith("aws:"):
            raise refuse(f"Tag keys that start with aws: are reserved, found {tag['Key']}.")


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


def _check_data(caller: Caller, url: str) -> None:
    from moto.s3.models import s3_backends  # noqa: PLC0415  a second of CPU to load

    named = _DATA.fullmatch(url)
    if named is None:
        return
    bucket = s3_backends[caller.account]["aws"].buckets.get(named["bucket"])
    if bucket is None:
        raise refuse(f"Could not access model data at {url}: there is no such bucket.")
    if named["key"] not in bucket.keys:
        raise refuse(f"Could not find model data at {url}.")
