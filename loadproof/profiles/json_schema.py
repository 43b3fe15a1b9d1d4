"""The schema for editors: what the loader accepts, as JSON Schema (draft 2020-12).

A profile that `extends` a parent may leave out anything the parent has, at every depth, so the schema holds every
part twice: whole, and with nothing required. Which one applies is decided by the presence of `extends`; a part that may
have a parent of its own asks for what it lacks only without one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel

from loadproof.profiles.calibrating import KEY as CALIBRATION
from loadproof.profiles.inheritance import KEY, PARTS
from loadproof.profiles.schema import Calibration, Environment, Profile

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE: Final = "#/$defs/"
_PARTIAL: Final = "Partial"
_Schema = dict[str, Any]
_Transform = Callable[[_Schema], _Schema]


def profile_schema() -> _Schema:
    """JSON Schema of a profile file, `extends` included."""
    whole, definitions = _parts(Profile)
    whole["properties"][CALIBRATION] = _named_file(whole["properties"][CALIBRATION]["description"])
    for name in _parts(Calibration)[1].keys() | {Calibration.__name__}:
        definitions.pop(name, None)
    for name in PARTS:
        part = definitions[name.capitalize()]
        part["properties"] = {KEY: _parent(f"a file of {name}'s keys"), **part["properties"]}
        if required := part.pop("required", None):
            part["anyOf"] = [{"required": required}, {"required": [KEY]}]
    partial_definitions = {f"{name}{_PARTIAL}": _partial(part) for name, part in definitions.items()}
    partial = _partial(whole)
    partial["properties"] = {KEY: _parent("parent file"), **partial["properties"]}
    partial["required"] = [KEY]
    return {
        "$schema": _DIALECT,
        "title": "Loadproof deploy profile",
        "description": whole.pop("description"),
        "if": {"type": "object", "required": [KEY]},
        "then": {"$ref": f"{_REFERENCE}Profile{_PARTIAL}"},
        "else": {"$ref": f"{_REFERENCE}Profile"},
        "$defs": {"Profile": whole, f"Profile{_PARTIAL}": partial, **definitions, **partial_definitions},
    }


def _parent(what: str) -> _Schema:
    description = f"{what}, relative to this one: maps merge, lists replace"
    return {"type": "string", "pattern": r"\.ya?ml$", "description": description}


def environment_schema() -> _Schema:
    """JSON Schema of an environment.yaml."""
    whole, definitions = _parts(Environment)
    return {"$schema": _DIALECT, "title": "Loadproof environment", **whole, "$defs": definitions}


def _named_file(description: str) -> _Schema:
    """A profile names its calibration; only the loader reads what is in it."""
    return {
        "anyOf": [{"type": "string", "pattern": r"(^|[./])calibration\.yaml$"}, {"type": "null"}],
        "default": None,
        "description": description,
    }


def _parts(model: type[BaseModel]) -> tuple[_Schema, _Schema]:
    schema = _mapped(model.model_json_schema(), _plain)
    return schema, schema.pop("$defs", {})


def _plain(node: _Schema) -> _Schema:
    """Standard keywords only; a setting's description names the variable it becomes."""
    kept = {key: value for key, value in node.items() if key not in ("discriminator", "variable", "read_back")}
    if isinstance(kept.get("title"), str):
        del kept["title"]
    if isinstance(node.get("variable"), str):
        kept["description"] = f"{kept.get('description', '')} ({node['variable']})".strip()
    return kept


def _partial(part: _Schema) -> _Schema:
    def loosen(node: _Schema) -> _Schema:
        loose = {key: value for key, value in node.items() if key != "required" or not isinstance(value, list)}
        if isinstance(loose.get("$ref"), str):
            loose["$ref"] += _PARTIAL
        if "oneOf" in loose:  # without its tag a part fits several kinds
            loose["anyOf"] = loose.pop("oneOf")
        return loose

    # Lists replace their parent's, so what stands in one is whole again.
    loosened: _Schema = _mapped(part, loosen, stop_at="items")
    return loosened


def _mapped(node: Any, transform: _Transform, stop_at: str | None = None) -> Any:
    """`node` with `transform` applied to every schema in it, inside out."""
    if isinstance(node, list):
        return [_mapped(item, transform, stop_at) for item in node]
    if not isinstance(node, dict):
        return node
    inner = {
        key: value if key in (stop_at, "default", "const", "enum") else _mapped(value, transform, stop_at)
        for key, value in node.items()
    }
    return transform(inner)
