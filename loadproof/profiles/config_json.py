"""`model.config_json:` names a Hugging Face config.json, `model.base:` a model of the catalog; reading puts the shape
that it describes in its place as `architecture`; of a file also the quantization, where the profile says none.

Whatever follows (checks, plan, stacks, the profile's hash) sees the same profile as with `architecture` written out.
The file must lie inside the profile root, as parents do: nothing else is ever opened or quoted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Final

from loadproof.catalog import Architecture, architecture, near_models
from loadproof.catalog.config_json import read_config_json
from loadproof.errors import InputError
from loadproof.profiles.inheritance import profile_root
from loadproof.profiles.schema.model import ARCHITECTURE_KEYS
from loadproof.profiles.secrets import shown
from loadproof.profiles.tree import Entry, Items, Map, Mark, Node, Path, Problems, Scalar, Unusable

FILE: Final = "config_json"
BASE: Final = "base"
SHAPE: Final = "architecture"
QUANTIZATION: Final = "quantization"


def with_config_json(tree: Node | None, file: FilePath, problems: Problems) -> Node | None:
    """`tree` with every model's `config_json` or `base` replaced by the `architecture` it describes."""
    if not isinstance(tree, Map):
        return tree
    entries = dict(tree.entries)
    if "model" in entries:
        entries["model"] = _model(entries["model"], file, problems, ("model",))
    further = entries.get("components")
    if further and isinstance(further.node, Items):
        nodes = [_component(node, file, problems, ("components", at)) for at, node in enumerate(further.node.nodes)]
        entries["components"] = Entry(further.key_mark, Items(further.node.mark, nodes))
    return Map(tree.mark, entries)


def _component(node: Node, file: FilePath, problems: Problems, path: Path) -> Node:
    if not isinstance(node, Map) or "model" not in node.entries:
        return node
    model = _model(node.entries["model"], file, problems, (*path, "model"))
    return Map(node.mark, {**node.entries, "model": model})


def _model(entry: Entry, file: FilePath, problems: Problems, path: Path) -> Entry:
    model = entry.node
    if not isinstance(model, Map):
        return entry
    # What is no text is for the schema to refuse, and null is as good as nothing.
    named = {key: given for key in (FILE, BASE) if (given := _text_at(model, key)) is not None}
    if not named:
        return entry
    key, node = next(iter(named.items()))
    entries = {name: value for name, value in model.entries.items() if name not in named}
    beside = ", ".join(f"`{name}`" for name in (*list(named)[1:], SHAPE) if _is_written(model.entries.get(name)))
    mark, shape = node.mark, _shape(node, key, beside, file, problems, (*path, key))
    entries[SHAPE] = Entry(
        model.entries[key].key_mark, Unusable(mark) if shape is None else _map_of(_override_of(shape), mark)
    )
    if key == FILE and shape is not None and shape.quantization != "none":
        stored = _map_of({QUANTIZATION: shape.quantization}, mark).entries
        entries = {**stored, **entries}  # what the profile says itself goes first
    return Entry(entry.key_mark, Map(model.mark, entries))


def _text_at(model: Map, key: str) -> Scalar | None:
    entry = model.entries.get(key)
    return entry.node if entry and isinstance(entry.node, Scalar) and isinstance(entry.node.value, str) else None


def _is_written(entry: Entry | None) -> bool:
    return entry is not None and not (isinstance(entry.node, Scalar) and entry.node.value is None)


def _shape(node: Scalar, key: str, beside: str, file: FilePath, problems: Problems, path: Path) -> Architecture | None:
    """What the file or the catalog describes; None after reporting why not."""
    name = str(node.value)
    try:
        if beside:
            raise InputError(f"stands beside {beside}; keep one of them (null removes a parent's)")
        if key == BASE:
            return _of_catalog(name, shown(name, path))
        return _read(_inside(name, FilePath(node.mark.file), profile_root(file), path), shown(name, path))
    except InputError as error:
        said, _, mend = str(error).partition("; ")
        problems.add(node.mark, "LP015", path, said, mend)
        return None


def _of_catalog(name: str, seen: str) -> Architecture:
    if (shape := architecture(name)) is not None:
        return shape
    near = ", ".join(near_models(name))
    raise InputError(f"the catalog does not know `{seen}`; use {near or 'one of `loadproof catalog list models`'}")


def _map_of(values: Mapping[str, int | float | str], mark: Mark) -> Map:
    return Map(mark, {key: Entry(mark, Scalar(value, str(value), False, mark)) for key, value in values.items()})


def _read(file: FilePath, seen: str) -> Architecture:
    try:
        return read_config_json(file)
    except InputError as error:
        raise InputError(str(error).replace(str(file), seen)) from None


def _inside(name: str, beside: FilePath, root: FilePath, path: Path) -> FilePath:
    """The file of that name relative to the one that names it. Raises InputError outside the profile root."""
    seen = shown(name, path)
    if FilePath(name).is_absolute():
        raise InputError(f"`{seen}` is an absolute path; name it relative to this file")
    found = FilePath(os.path.normpath(beside.parent / name))
    try:
        inside = found.resolve().is_relative_to(root.resolve())
    except (OSError, ValueError, RuntimeError):
        raise InputError(f"`{seen}` leads nowhere; name a file, relative to this one") from None
    if not inside:
        raise InputError(f"`{seen}` lies outside {root.name}/; keep it inside that folder")
    if found.suffix != ".json":
        raise InputError(f"`{seen}` is not a .json file; name the model's config.json")
    return found


def _override_of(shape: Architecture) -> dict[str, int | float]:
    """The keys of `architecture` that say the same; what is zero stays unsaid, as people would write it."""
    return {key: value for field, key in ARCHITECTURE_KEYS.items() if (value := getattr(shape, field))}
