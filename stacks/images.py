"""Which image a container runs, and which host it needs."""

from __future__ import annotations

from typing import Final

from loadproof.catalog import container_image, image_uri, instances
from loadproof.profiles.schema import Component, Container, Endpoint

# The native CUDA 13 driver (580). On the default host a CUDA 13 container dies with CannotStartContainerError.
_CUDA_13_HOST: Final = "al2023-ami-sagemaker-inference-gpu-4-1"


def image_of(container: Container, region: str) -> str:
    """The image URI: the profile's own, else the catalog's. Raises InputError where it is not published."""
    if container.image is not None:
        return container.image
    return image_uri(container_image(container.family, container.version), region)


def host_ami(endpoint: Endpoint, components: tuple[Component, ...]) -> str | None:
    """The host image: as written, else what the newest CUDA among the images needs; None leaves it to SageMaker."""
    if endpoint.ami_version is not None:
        return endpoint.ami_version
    needs_cuda_13 = any(_cuda_major(component.container) >= 13 for component in components)
    return _CUDA_13_HOST if needs_cuda_13 else None


def instance_types(endpoint: Endpoint) -> tuple[str, ...]:
    """The endpoint's instance types, first choice first."""
    if endpoint.instance_type is not None:
        return (endpoint.instance_type,)
    pools = sorted(endpoint.instance_pools, key=lambda pool: pool.priority)
    return tuple(pool.instance_type for pool in pools)


def has_local_disk(endpoint: Endpoint) -> bool:
    """True when any instance type keeps its data on a disk of its own: SageMaker then refuses a key for it."""
    known = [instances().get(kind) for kind in instance_types(endpoint)]
    return any(row is not None and row.has_local_disk for row in known)


def _cuda_major(container: Container) -> int:
    if container.image is not None:
        return 0  # an image of one's own: only its owner knows
    cuda = container_image(container.family, container.version).cuda
    return int(cuda.split(".")[0]) if cuda else 0
