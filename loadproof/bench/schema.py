"""JSON Schemas of a run's files, out of the types that write and read them; words are the fields' own docstrings."""

from __future__ import annotations

from types import GenericAlias
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from loadproof.bench.document import SCHEMA_VERSION, Summary
from loadproof.bench.measure.metrics import LevelMetrics

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ID = f"urn:loadproof:run:summary:{SCHEMA_VERSION}"  # a name, not an address


def summary_schema() -> dict[str, object]:
    """JSON Schema of summary.json. What is required is in every summary of this version; keys may be added."""
    whole, parts = schema_of(Summary, LevelMetrics)
    return {"$schema": DIALECT, "$id": _ID, **whole, "title": "Loadproof run: summary.json", "$defs": parts}


def schema_of(document: type, *bases: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """(schema of a dataclass, of its parts by name). `bases`: classes that it or a part inherits fields' words from."""
    # In a tuple, since pydantic hands a configuration down to dataclasses only from what holds them.
    held: Any = GenericAlias(tuple, (document, *bases))
    parts = TypeAdapter(held, config=ConfigDict(use_attribute_docstrings=True)).json_schema()["$defs"]
    inherited = {name: one for base in bases for name, one in parts.pop(base.__name__)["properties"].items()}
    for part in parts.values():
        for name, one in part["properties"].items():
            one.pop("title", None)
            if name in inherited and "description" in inherited[name]:
                one.setdefault("description", inherited[name]["description"])
    return parts.pop(document.__name__), dict(sorted(parts.items()))
