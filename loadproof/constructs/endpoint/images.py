"""Which image a container runs, and which host it needs."""

from __future__ import annotations

from loadproof.catalog import container_image, image_uri, instances
from loadproof.profiles.checks.facts import chosen_host
from loadproof.profiles.schema import Component, Container, Endpoint


def image_of(container: Container, region: str) -> str:
    """The image URI: the profile's own, else the catalog's. Raises InputError where it is not published."""
    if container.image is not None:
        return container.image
    return image_uri(container_image(container.family, container.version), region)


def host_ami(endpoint: Endpoint, components: tuple[Component, ...]) -> str | None:
    """The host image: as written, else the one that the images need; None, and SageMaker's choice, where none says."""
    return chosen_host(endpoint, [component.container for component in components])


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
