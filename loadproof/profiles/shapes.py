"""The schema as a small grammar of shapes, compiled once from the models' annotations.

The models declare; this grammar is what profiles are read by: it lets the loader say where, what was found, what is
allowed and how to mend it, for every problem in one pass, and keep the parts that are right.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import AllowInfNan, StringConstraints
from pydantic.fields import FieldInfo

from loadproof.vocabulary import Form, Part


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
    return shape_of(info.annotation, [*info.metadata, info])


def shape_of(annotation: object, notes: Sequence[object] = ()) -> Shape:
    """The shape of one annotation with its constraints. Raises TypeError for what the grammar does not know."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return shape_of(arguments[0], [*arguments[1:], *notes])
    if origin in (types.UnionType, typing.Union):
        return _union(arguments, notes)
    bounds = _bounds(notes)
    if origin is Literal:
        return OneOf(arguments)
    if origin is tuple:
        return ListOf(shape_of(arguments[0]), int(bounds.get("min_length", 0)), _whole(bounds.get("max_length")))
    if origin is dict:
        key = shape_of(arguments[0])
        assert isinstance(key, Text)
        return MapOf(key, shape_of(arguments[1]))
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return PartOf(annotation)
    if annotation is bool:
        return Boolean()
    if annotation in (int, float):
        return Number(annotation is int, *(bounds.get(name) for name in ("ge", "le", "gt", "lt")))
    if annotation is str:
        return _text(notes)
    raise TypeError(f"the schema uses {annotation!r}, which has no shape yet")


def _union(arguments: tuple[Any, ...], notes: Sequence[object]) -> Shape:
    arms = [arm for arm in arguments if arm is not type(None)]
    discriminator = next((str(found) for note in notes if (found := getattr(note, "discriminator", None))), None)
    shape: Shape
    if discriminator is not None and len(arms) > 1:
        shape = Tagged(discriminator, {_tag(arm, discriminator): PartOf(arm) for arm in arms})
    elif len(arms) == 1:
        shape = shape_of(arms[0], notes)
    else:
        shape = Either(tuple(shape_of(arm) for arm in arms))
    return Optional(shape) if len(arms) < len(arguments) else shape


def _tag(model: type[Part], key: str) -> str:
    return str(get_args(model.model_fields[key].annotation)[0])


def _text(notes: Sequence[object]) -> Text:
    pattern, shortest, longest, form = None, 0, None, None
    for note in notes:
        if isinstance(note, StringConstraints):
            pattern = re.compile(note.pattern) if isinstance(note.pattern, str) else pattern
            shortest = note.min_length or shortest
            longest = note.max_length if note.max_length is not None else longest
        elif isinstance(note, Form):
            form = note
    return Text(pattern, shortest, longest, form)


_BOUNDS: Final = {Ge: "ge", Le: "le", Gt: "gt", Lt: "lt", MinLen: "min_length", MaxLen: "max_length"}


def _bounds(notes: Sequence[object]) -> dict[str, float]:
    """`ge`, `max_length` and the like; the outermost goes first."""
    found: dict[str, float] = {}
    for note in notes:
        # Field(...) inside Annotated carries its constraints in `.metadata`.
        for inner in note.metadata if isinstance(note, FieldInfo) else (note,):
            if (name := _BOUNDS.get(type(inner))) is not None:
                found.setdefault(name, getattr(inner, name))
            elif not isinstance(inner, StringConstraints | Form | AllowInfNan):
                raise TypeError(f"the schema uses {inner!r}, which the grammar does not know")
    return found


def _whole(bound: float | None) -> int | None:
    return None if bound is None else int(bound)
