"""What installed SDKs list, as rows: the enumerations of botocore, and where cfn-lint says a type is offered.

Pure: takes the folders. A row keeps its source and date unless it changed; what an SDK no longer lists goes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from loadproof.catalog.readers import Row, rows
from loadproof.errors import InputError

Kind = Literal["instance_type", "ami", "routing_strategy", "service_tier"]
# What is enumerated -> the service model and the shape that list it. Hosting's own types, not those of other jobs.
ENUMERATIONS: Final[Mapping[Kind, tuple[str, str]]] = {
    "instance_type": ("sagemaker", "ProductionVariantInstanceType"),
    "ami": ("sagemaker", "ProductionVariantInferenceAmiVersion"),
    "routing_strategy": ("sagemaker", "RoutingStrategy"),
    "service_tier": ("bedrock-runtime", "ServiceTierType"),
}
_PROVENANCE: Final = ("source", "date")


@cache
def listed(kind: Kind) -> frozenset[str]:
    """The names that the pinned SDK lists, from our own rows."""
    return frozenset(row["name"] for row in rows("sdk_enumerations.csv") if row["kind"] == kind)


def enumerations(folder: Path) -> dict[Kind, tuple[str, ...]]:
    """The names in botocore's data folder. Raises InputError where a model or a shape is missing."""
    found: dict[Kind, tuple[str, ...]] = {}
    for kind, (service, shape) in ENUMERATIONS.items():
        try:
            found[kind] = tuple(_model(folder, service)["shapes"][shape]["enum"])
        except KeyError:
            raise InputError(f"botocore's model of {service} has no enumeration {shape}") from None
    return found


def enumeration_rows(folder: Path, *, sdk: str, date: str) -> list[dict[str, str]]:
    """sdk_enumerations.csv as this botocore would have it."""
    ours = {(row["kind"], row["name"]): row for row in rows("sdk_enumerations.csv")}
    return [
        dict(ours.get((kind, name)) or _row(kind, name, f"{sdk} {'.'.join(ENUMERATIONS[kind])}", date))
        for kind, names in enumerations(folder).items()
        for name in sorted(names)
    ]


def region_rows(file: Path, types: Iterable[str], *, sdk: str, date: str) -> list[dict[str, str]]:
    """instance_regions.csv for `types`, from cfn-lint's hosting types by region. Raises InputError without them."""
    try:
        by_region = json.loads(file.read_text(encoding="utf-8"))
        offered = {region: frozenset(found["enum"]) for region, found in by_region.items() if isinstance(found, dict)}
    except (OSError, ValueError, AttributeError):
        raise InputError(f"{file}: not the hosting types by region that are known here") from None
    ours = {row["instance_type"]: row for row in rows("instance_regions.csv")}
    source = f"{sdk} instancetype_enum.json of E3642 (from AWS's pricing API)"
    found = []
    for kind in types:
        regions = " ".join(sorted(region for region, names in offered.items() if kind in names and "iso" not in region))
        if regions:
            fresh = {"instance_type": kind, "regions": regions, "source": source, "date": date}
            found.append(_kept_unless_changed(ours.get(kind), fresh))
        elif kind in ours:
            found.append(dict(ours[kind]))
    return found


def _model(folder: Path, service: str) -> dict[str, Any]:
    files: Sequence[Path] = sorted((folder / service).glob("*/service-2.json*"))
    if not files:
        raise InputError(f"{folder / service}: no service model; install botocore")
    content = files[-1].read_bytes()
    model: dict[str, object] = json.loads(gzip.decompress(content) if files[-1].suffix == ".gz" else content)
    return model


def _row(kind: str, name: str, source: str, date: str) -> Row:
    return {"kind": kind, "name": name, "source": source, "date": date}


def _kept_unless_changed(ours: Mapping[str, str] | None, fresh: dict[str, str]) -> dict[str, str]:
    same = ours is not None and all(ours[key] == value for key, value in fresh.items() if key not in _PROVENANCE)
    return dict(ours) if ours is not None and same else fresh
