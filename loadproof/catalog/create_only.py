"""Which properties of which resource types only a replacement changes. Rows: `scripts/create_only.py` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from loadproof.catalog.readers import rows

PropertyPath = tuple[str, ...]  # ("Code", "S3Key"); "*" for each element of a list


@dataclass(frozen=True, slots=True)
class ResourceType:
    """One CloudFormation type: properties that are fixed once made, always or under conditions that AWS knows.

    `identity` are the properties that together are the physical name: two resources alike in all of them collide.
    """

    name: str
    always: tuple[PropertyPath, ...]
    conditional: tuple[PropertyPath, ...]
    identity: frozenset[str]


@cache
def resource_types() -> Mapping[str, ResourceType]:
    """Resource types by name (`AWS::SQS::Queue`), those without any create-only property included."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows("create_only.csv"):
        kinds = found.setdefault(row["type"], {"always": [], "conditional": [], "none": [], "identity": []})
        kinds[row["kind"]].append(row["path"])
        if row["identity"]:
            kinds["identity"].append(row["path"])
    return {
        name: ResourceType(
            name=name,
            always=tuple(tuple(path.split("/")) for path in kinds["always"]),
            conditional=tuple(tuple(path.split("/")) for path in kinds["conditional"]),
            identity=frozenset(kinds["identity"]),
        )
        for name, kinds in found.items()
    }
