"""Where images and layers live: the account that publishes them in a region, as vendored rows.

`accounts.csv` names the registry account of each region (older regions share one, newer ones have their own);
`layers.csv` names public Lambda layers. A row's empty region means every region of its partition.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from loadproof.catalog.readers import ContainerImage, find, instance_regions, table
from loadproof.errors import InputError


@dataclass(frozen=True, slots=True)
class Registry:
    """The account that holds a group of images in one region."""

    account_group: str
    region: str
    partition: str
    dns_suffix: str
    account: str
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class Layer:
    """A public Lambda layer version; `region` None: the same account and version in every region."""

    layer: str
    partition: str
    region: str | None
    account: str
    name: str
    version: int
    source: str
    date: str


@cache
def registries() -> Mapping[tuple[str, str], Registry]:
    """Registries by (account group, region)."""
    return {(row.account_group, row.region): row for row in table(Registry, "accounts.csv")}


@cache
def layers() -> tuple[Layer, ...]:
    """Every known layer."""
    return tuple(table(Layer, "layers.csv"))


def registry(region: str, account_group: str = "dlc") -> Registry:
    """The registry of a region. Raises InputError with the nearest known regions."""
    of_group = {key[1]: value for key, value in registries().items() if key[0] == account_group}
    return find(of_group, region, f"region with {account_group} images")


def misspelt_region(region: str) -> str:
    """Empty where the catalog knows the region; else the regions that were perhaps meant, nearest first, or where to
    look them up."""
    known = {row.region for row in registries().values()}.union(*instance_regions().values())
    if region in known:
        return ""
    near = difflib.get_close_matches(region, sorted(known), n=3, cutoff=0.75)
    return f"did you mean {', '.join(near)}?" if near else "known are " + ", ".join(sorted(known))


def image_uri(image: ContainerImage, region: str) -> str:
    """The URI to pull `image` from in `region`. Raises InputError where it is not published there."""
    home = registry(region, image.account_group)
    if region in image.absent_regions:
        raise InputError(
            f"{image.family} {image.version} is not published in {region}; "
            f"choose another container.version, or give container.image (rows in loadproof/catalog/data)"
        )
    return f"{home.account}.dkr.ecr.{region}.{home.dns_suffix}/{image.repository}:{image.tag}"


def layer_arn(layer: str, region: str) -> str:
    """The ARN of a public layer in `region`. Raises InputError where none is known."""
    partition = registry(region).partition
    for row in layers():
        if row.layer == layer and row.partition == partition and row.region in (None, region):
            return f"arn:{partition}:lambda:{region}:{row.account}:layer:{row.name}:{row.version}"
    raise InputError(f"no {layer} layer is known for {region}; add a row to loadproof/catalog/data/layers.csv")
