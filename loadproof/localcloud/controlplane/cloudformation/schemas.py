"""AWS's own resource schemas: what a type may hold, what only a replacement can change.

The schemas are those that cfn-lint carries (a dependency of moto's server), read as plain JSON files; cfn-lint's code
is not imported. So a property that AWS does not know fails here with the same kind of reason.
"""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from loadproof.localcloud.controlplane.cloudformation.schema_keywords import ResourceValidator
from loadproof.wire.documents import Document, Json


@dataclass(frozen=True)
class TypeSchema:
    """One resource type's schema."""

    type_name: str
    region: str
    document: Document

    @property
    def create_only(self) -> frozenset[str]:
        """Paths like `ProductionVariants` or `Code/S3Key` whose change needs a replacement."""
        return frozenset(_paths(self.document.get("createOnlyProperties", ())))

    def problems(self, properties: Document) -> list[str]:
        """Why AWS would refuse these properties: unknown, missing, wrong type, out of range."""
        schemas = [{**_relaxed(self.type_name, self.region), "type": "object"}, *_across(self.type_name)]
        errors = [error for schema in schemas for error in ResourceValidator(schema).iter_errors(properties)]
        return [_worded(error) for error in sorted(errors, key=lambda error: list(map(str, error.path)))]


def schema_of(type_name: str, region: str) -> TypeSchema | None:
    """The schema of a type in a region; None when AWS has no such type there."""
    name = _hashes(region).get(type_name)
    if name is None:
        return None
    return TypeSchema(type_name, region, _load(lint_data() / "schemas" / "resources" / f"{name}.json"))


def is_region(name: str) -> bool:
    """Whether AWS has a region of that name."""
    return bool(_hashes(name))


@cache
def lint_data() -> Path:
    """The folder of data that cfn-lint carries."""
    spec = importlib.util.find_spec("cfnlint")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("cfn-lint is missing; install the extra: pip install 'loadproof[local]'")
    return Path(spec.submodule_search_locations[0]) / "data"


@cache
def _hashes(region: str) -> dict[str, str]:
    path = lint_data() / "schemas" / "providers" / f"{region}.json"
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


@cache
def _load(path: Path) -> Document:
    return dict(json.loads(path.read_text("utf-8")))


@cache
def _relaxed(type_name: str, region: str) -> Document:
    """The schema without read-only properties.

    CloudFormation turns text into numbers and booleans and back by itself, so scalar types accept text too.
    """
    name = _hashes(region)[type_name]
    document = copy.deepcopy(_load(lint_data() / "schemas" / "resources" / f"{name}.json"))
    for path in _paths(document.get("readOnlyProperties", ())):
        if "/" not in path:
            document["properties"].pop(path, None)
    relaxed: Document = _relax({k: v for k, v in document.items() if k not in _NOT_VALIDATION})
    return relaxed


@cache
def _across(type_name: str) -> tuple[Document, ...]:
    """What cfn-lint knows beside a type's schema, of properties that depend on each other.

    Those that look at other resources of the template (`cfnGather`) are left out.
    """
    folder = lint_data() / "schemas" / "extensions" / type_name.lower().replace("::", "_")
    loaded = [_load(path) for path in sorted(folder.glob("*.json"))]
    return tuple(_relax(document) for document in loaded if "cfnGather" not in document)


_NOT_VALIDATION = {
    "handlers", "createOnlyProperties", "readOnlyProperties", "writeOnlyProperties", "tagging", "primaryIdentifier",
    "propertyTransform", "sourceUrl", "typeName", "description", "$schema", "conditionalCreateOnlyProperties",
}  # fmt: skip


_AS_TEXT = {"integer": r"^-?\d+$", "number": r"^-?\d+(\.\d+)?$", "boolean": "^([Tt]rue|[Ff]alse)$"}


def _relax(node: Json) -> Json:
    if isinstance(node, list):
        return [_relax(item) for item in node]
    if not isinstance(node, dict):
        return node
    relaxed = {name: _relax(value) for name, value in node.items()}
    kind = relaxed.get("type")
    if isinstance(kind, str) and kind in _AS_TEXT and "enum" not in relaxed:
        relaxed["type"] = [kind, "string"]
        relaxed["pattern"] = _AS_TEXT[kind]  # applies to text only
    elif kind == "string":
        relaxed["type"] = ["string", "integer", "number", "boolean"]
    relaxed.pop("format", None)
    return relaxed


def _paths(pointers: Json) -> Iterator[str]:
    for pointer in pointers:
        yield str(pointer).removeprefix("/properties/")


def _worded(error: Json) -> str:
    place = "/".join(str(part) for part in error.absolute_path)
    if error.validator == "additionalProperties":
        return f"#/{place}: extraneous key ({error.message})"
    return f"#/{place}: {error.message[:300]}"
