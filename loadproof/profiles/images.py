"""Which image a container runs, and the parts of an image's address in Amazon ECR."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from loadproof.catalog import container_image, image_uri
from loadproof.errors import InputError
from loadproof.profiles.schema import Container

_ECR_URI: Final = re.compile(
    r"^(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<repository>[a-z0-9._/-]+?)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?$"
)


@dataclass(frozen=True, slots=True)
class EcrImage:
    """An image in Amazon ECR. `tag` and `digest` None: not written."""

    account: str
    region: str
    repository: str
    tag: str | None
    digest: str | None


def image_of(container: Container, region: str) -> str:
    """The image URI: the profile's own, else the catalog's. Raises InputError where it is not published."""
    if container.image is not None:
        return container.image
    return image_uri(container_image(container.family, container.version), region)


def ecr_image(image: str) -> EcrImage:
    """The parts of an image's URI. Raises InputError for an image that lies elsewhere."""
    match = _ECR_URI.match(image)
    if match is None:
        raise InputError(
            f"container.image: found `{image}`, but SageMaker pulls from Amazon ECR only; "
            f"push it there and write <account>.dkr.ecr.<region>.amazonaws.com/<repository>:<tag>"
        )
    return EcrImage(**match.groupdict())
