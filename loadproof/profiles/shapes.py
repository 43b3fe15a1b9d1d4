"""The schema as a small grammar of shapes, compiled once from the pydantic models.

pydantic checks values; this grammar lets the loader say where, what was found, what is allowed and how to mend it,
for every problem in one pass, and keep the parts that are right. `tests/profiles` holds the two to the same verdict.
"""

from __future__ import annotations

import re
import types
import typing
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Len, Lt, MaxLen, MinLen
from pydantic import StringConstraints
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from loadproof.profiles.schema import Form, Part


@dataclass(frozen=True, slots=True)
class Text:
    """A text; `form` names its pattern in words."""

    pattern: re.Pattern[str] | None = None
    shortest: int = 0
    longest: int | None = None
    form: Form | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A number between bounds; `whole` for integers. `above` and `below` are exclusive."""

    whole: bool
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None


@dataclass(frozen=True, slots=True)
class Boolean:
    """true or false."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words or numbers."""

    allowed: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; every item has one shape."""

    item: Shape
    fewest: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map from free keys to values of one shape."""

    key: Text
    value: Shape


@dataclass(frozen=True, slots=True)
class PartOf:
    """A part of the profile: a map with known keys."""

    model: type[Part]


@dataclass(frozen=True, slots=True)
class Tagged:
    """One of several parts, told apart by the word under `key`."""

    key: str
    parts: dict[str, PartOf] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Either:
    """One of two shapes, told apart by the kind of value found."""

    arms: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Optional:
    """A shape or null."""

    shape: Shape


Shape = Text | Number | Boolean | OneOf | ListOf | MapOf | PartOf | Tagged | Either | Optional


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a part."""

    shape: Shape
    required: bool


@cache
def fields_of(model: type[Part]) -> dict[str, Field]:
    """The keys of a part, in the schema's order."""
    return {name: Field(_field_shape(info), info.is_required()) for name, info in model.model_fields.items()}


def _field_shape(info: FieldInfo) -> Shape:
    metadata = [item for item in info.metadata if item is not PydanticUndefined]
    if info.discriminator is not None:
        metadata.append(info)
    return shape_of(info.annotation, metadata)


def shape_of(annotation: Any, metadata: list[Any] | None = None) -> Shape:
    """The shape of one annotation with its constraints."""
    notes = _flattened(metadata or [])
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return shape_of(arguments[0], [*arguments[1:], *notes])
    if origin in (types.UnionType, typing.Union):
        return _union(arguments, notes)
    if origin is Literal:
        return OneOf(arguments)
    if origin is tuple:
        return ListOf(shape_of(arguments[0]), _bound(notes, MinLen) or 0, _bound(notes, MaxLen))
    if origin is dict:
        key = shape_of(arguments[0])
        assert isinstance(key, Text)
        return MapOf(key, shape_of(arguments[1]))
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return PartOf(annotation)
    if annotation is bool:
        return Boolean()
    if annotation in (int, float):
        bounds = [_bound(notes, kind) for kind in (Ge, Le, Gt, Lt)]
        return Number(annotation is int, *bounds)
    if annotation is str:
        return _text(notes)
    raise TypeError(f"the schema uses {annotation!r}, which has no shape yet")


def _union(arguments: tuple[Any, ...], notes: list[Any]) -> Shape:
    arms = [arm for arm in arguments if arm is not type(None)]
    discriminator = next((note.discriminator for note in notes if getattr(note, "discriminator", None)), None)
    shape: Shape
    if discriminator is not None and len(arms) > 1:
        shape = Tagged(str(discriminator), {_tag(arm, str(discriminator)): PartOf(arm) for arm in arms})
    elif len(arms) == 1:
        shape = shape_of(arms[0], notes)
    else:
        shape = Either(tuple(shape_of(arm) for arm in arms))
    return Optional(shape) if len(arms) < len(arguments) else shape


def _tag(model: type[Part], key: str) -> str:
    return str(get_args(model.model_fields[key].annotation)[0])


def _text(notes: list[Any]) -> Text:
    pattern, shortest, longest, form = None, 0, None, None
    for note in notes:
        if isinstance(note, StringConstraints):
            pattern = re.compile(note.pattern) if isinstance(note.pattern, str) else pattern
            shortest = note.min_length or shortest
            longest = note.max_length if note.max_length is not None else longest
        elif isinstance(note, Form):
            form = note
    return Text(pattern, shortest, longest, form)


def _flattened(notes: list[Any]) -> list[Any]:
    """Field(...) inside Annotated carries its constraints in `.metadata`."""
    flat: list[Any] = []
    for note in notes:
        flat.append(note)
        if isinstance(note, FieldInfo):
            flat.extend(note.metadata)
        if isinstance(note, Len):
            flat.extend([MinLen(note.min_length), *([] if note.max_length is None else [MaxLen(note.max_length)])])
    return flat


_ATTRIBUTE = {Ge: "ge", Le: "le", Gt: "gt", Lt: "lt", MinLen: "min_length", MaxLen: "max_length"}


def _bound(notes: list[Any], kind: type[Any]) -> Any:
    return next((getattr(note, _ATTRIBUTE[kind]) for note in notes if isinstance(note, kind)), None)
