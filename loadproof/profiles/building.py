"""A tree to typed parts: every shape problem in one pass, in words, and whatever is right is kept.

A part with a wrong field is built without that field, so that reading the field raises AttributeError: rules across
fields run on what is valid and pass over what is not (`checks.run_rules`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final, Literal, TypeVar

from loadproof.pages.wording import joined
from loadproof.profiles import describing
from loadproof.profiles.describing import describe
from loadproof.profiles.plain import Surprise, plain_value
from loadproof.profiles.reader import type_word
from loadproof.profiles.schema import Part
from loadproof.profiles.secrets import shown, shown_key
from loadproof.profiles.shapes import (
    Boolean,
    Either,
    Field,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Optional,
    PartOf,
    Shape,
    Tagged,
    Text,
    fields_of,
)
from loadproof.profiles.tree import Items, Map, Node, Path, Problems, Scalar, Unusable

_WITH_UNIT: Final = re.compile(r"\d{1,12}(?:\.\d{1,6})? ?(?:ms|s|m|min|h|GiB|GB|MiB|MB|bytes|B|%)\Z")
MOST_ITEMS: Final = 1000  # of a list without a bound of its own: more is no profile, and would take its time
P = TypeVar("P", bound=Part)


class _Wrong(Enum):
    WRONG = "a value whose problem is reported"


WRONG: Final = _Wrong.WRONG


def build_part(model: type[P], node: Node, problems: Problems, path: Path = ()) -> P | Literal[_Wrong.WRONG]:
    """The part that `node` describes, without its wrong fields; WRONG when it is no map at all."""
    if isinstance(node, Unusable):
        return WRONG
    if not isinstance(node, Map):
        return _mismatch(node, path, problems, describe(PartOf(model)), "write its keys below it")
    fields = fields_of(model)
    values: dict[str, object] = {}
    wrong: list[str] = []
    misspelt: set[str | None] = set()
    for key, entry in node.entries.items():
        field = fields.get(key)
        if field is None:
            left = [name for name in fields if name not in node.entries]
            meant = None if problems.is_full else describing.meant(key, left)
            misspelt.add(meant)
            mend = f"did you mean `{meant}`?" if meant else describing.allowed_keys(fields)
            problems.add(entry.key_mark, "LP101", (*path, key), f"unknown key `{shown_key(key)}`", mend)
            continue
        value = build(field.shape, entry.node, problems, (*path, key))
        if value is WRONG:
            wrong.append(key)
        else:
            values[key] = value
    for name in _missing(model, fields, node):
        wrong.append(name)
        if name not in misspelt:  # one mistake, one message
            found = f"required key `{name}` is missing"
            problems.add(node.mark, "LP102", path, found, describing.addition(name, fields[name].shape))
    # A misspelt key is meant, not left out: no rule is to speak of its default.
    wrong += [name for name in fields if name in misspelt and name not in wrong]
    wrong += [name for name, other in model.needed_without.items() if other in wrong and name not in values]
    part = model.model_construct(set(values), **values)
    for name in wrong:
        part.__dict__.pop(name, None)
    return part


def build(shape: Shape, node: Node, problems: Problems, path: Path) -> object:
    """The value of one shape at `node`; WRONG after reporting why not."""
    if isinstance(node, Unusable):
        return WRONG
    match shape:
        case Optional():
            if isinstance(node, Scalar) and node.value is None:
                return None
            return build(shape.shape, node, problems, path)
        case PartOf():
            return build_part(shape.model, node, problems, path)
        case Tagged():
            return _tagged(shape, node, problems, path)
        case ListOf():
            return _list(shape, node, problems, path)
        case MapOf():
            return _map(shape, node, problems, path)
        case Either():
            return build(_arm(shape, node), node, problems, path)
        case Text():
            return _text(shape, node, problems, path)
        case Number():
            return _number(shape, node, problems, path)
        case Boolean():
            return _truth(node, problems, path)
        case OneOf():
            return _words(shape, node, problems, path)


def _missing(model: type[Part], fields: dict[str, Field], node: Map) -> Iterable[str]:
    given = node.entries.keys()
    required = [name for name, field in fields.items() if field.required]
    required += [name for name, other in model.needed_without.items() if other not in given or _is_null(node, other)]
    return [name for name in required if name not in given]


def _is_null(node: Map, key: str) -> bool:
    value = node.entries[key].node
    return isinstance(value, Scalar) and value.value is None


def _tagged(shape: Tagged, node: Node, problems: Problems, path: Path) -> object:
    if not isinstance(node, Map):
        return _mismatch(node, path, problems, describe(shape), f"write `{shape.key}:` and its keys below it")
    entry = node.entries.get(shape.key)
    if entry is None:
        problems.add(
            node.mark,
            "LP102",
            path,
            f"required key `{shape.key}` is missing",
            f"add `{shape.key}:` with {joined(shape.parts, 'or')}",
        )
        return WRONG
    if isinstance(entry.node, Unusable):
        return WRONG
    tag = _words(OneOf(tuple(shape.parts)), entry.node, problems, (*path, shape.key))
    return build_part(shape.parts[tag].model, node, problems, path) if isinstance(tag, str) else WRONG


def _list(shape: ListOf, node: Node, problems: Problems, path: Path) -> object:
    if not isinstance(node, Items):
        one = isinstance(node, Scalar) and shown(node.text, path) == node.text
        mend = f"write [{node.text}]" if one and isinstance(node, Scalar) else "write each item on a line with `- `"
        return _mismatch(node, path, problems, "a list", mend)
    count, most = len(node.nodes), shape.most or MOST_ITEMS
    values = tuple(build(shape.item, item, problems, (*path, at)) for at, item in enumerate(node.nodes[:most]))
    if not shape.fewest <= count <= most:
        bounded = shape.most is not None or count > most
        allowed = f"{shape.fewest} to {most}" if bounded else f"at least {shape.fewest}"
        problems.add(
            node.mark, "LP105", path, f"the list has {count} items, allowed are {allowed}", "add or remove items"
        )
        return WRONG
    return WRONG if any(value is WRONG for value in values) else values


def _map(shape: MapOf, node: Node, problems: Problems, path: Path) -> object:
    if not isinstance(node, Map):
        return _mismatch(node, path, problems, "a map", "write `key: value` lines below it")
    values: dict[str, object] = {}
    wrong = False
    for key, entry in node.entries.items():
        if not _fits(shape.key, key):
            words = describe(shape.key) if shape.key.form else describing.length_of(shape.key)
            problems.add(entry.key_mark, "LP104", (*path, key), f"key is not {words}", "rename it")
            wrong = True
        value = build(shape.value, entry.node, problems, (*path, key))
        wrong = wrong or value is WRONG
        values[key] = value
    return WRONG if wrong else values


def _arm(shape: Either, node: Node) -> Shape:
    """The arm that fits the kind of node, so that the message speaks of what was meant."""
    for arm in shape.arms:
        fits_map = isinstance(node, Map) and isinstance(arm, (PartOf, MapOf, Tagged))
        is_number = isinstance(node, Scalar) and type(node.value) in (int, float)
        is_word = isinstance(node, Scalar) and isinstance(node.value, str)
        fits_number = is_number and isinstance(arm, Number)
        fits_word = is_word and isinstance(arm, (Text, OneOf)) and (not _reads_as_number(node) or _takes(arm, node))
        if fits_map or fits_number or fits_word:
            return arm
    return shape.arms[0]


def _takes(arm: Text | OneOf, node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(arm, Text) and _fits(arm, str(node.value))


def _reads_as_number(node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(plain_value(node.text), (int, float))


def _text(shape: Text, node: Node, problems: Problems, path: Path) -> object:
    allowed = describe(shape)
    if not isinstance(node, Scalar):
        return _mismatch(node, path, problems, allowed, "write one value")
    if not isinstance(node.value, str):
        seen = shown(node.text, path)
        mend = "quote the value" if seen == "(value hidden)" else f'write "{seen}"'
        if node.value is None:
            mend = "write the value, or delete the key"
        return _mismatch(node, path, problems, allowed, mend)
    if _fits(shape, node.value):
        return node.value
    if shape.form is None or (shape.pattern is not None and shape.pattern.fullmatch(node.value)):
        found = f"found text of {len(node.value)} characters, allowed are {describing.length_of(shape)}"
        problems.add(node.mark, "LP104", path, found, "shorten it")
        return WRONG
    seen = shown(node.value, path)
    mend = f"write it like {shape.form.example}"
    if shape.form.example.startswith("ml.") and _fits(shape, f"ml.{node.value}"):
        mend = f"use `ml.{seen}`"
    elif _fits(shape, node.value.lower()) and seen != "(value hidden)":
        mend = f"use `{seen.lower()}`"
    problems.add(node.mark, "LP104", path, f"expected {shape.form.words}, found {_cited(seen)}", mend)
    return WRONG


def _fits(shape: Text, text: str) -> bool:
    if len(text) < shape.shortest or (shape.longest is not None and len(text) > shape.longest):
        return False
    return shape.pattern is None or shape.pattern.fullmatch(text) is not None


def _number(shape: Number, node: Node, problems: Problems, path: Path) -> object:
    allowed = describing.bounds_of(shape)
    if not isinstance(node, Scalar):
        return _mismatch(node, path, problems, allowed, "write one number")
    value = node.value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        meant = plain_value(node.text)
        is_number = isinstance(meant, (int, float)) and not isinstance(meant, bool)
        mend = f"write {node.text} without quotes" if is_number else "write a number"
        if _WITH_UNIT.match(node.text):
            mend = "write the number alone: the key's name says its unit"
        return _mismatch(node, path, problems, allowed, mend)
    if shape.whole and isinstance(value, float):
        mend = f"write {int(value)}" if value.is_integer() else "write a whole number"
        problems.add(node.mark, "LP103", path, f"expected {allowed}, found {shown(node.text, path)}", mend)
        return WRONG
    low = (shape.least is not None and value < shape.least) or (shape.above is not None and value <= shape.above)
    high = (shape.most is not None and value > shape.most) or (shape.below is not None and value >= shape.below)
    if low or high:
        found = f"expected {allowed}, found {shown(node.text, path)}"
        problems.add(node.mark, "LP105", path, found, "raise it" if low else "lower it")
        return WRONG
    return value if shape.whole else float(value)


def _truth(node: Node, problems: Problems, path: Path) -> object:
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node.value
    mend = "write true or false"
    if isinstance(node, Scalar) and isinstance(node.value, str):
        meant = plain_value(node.value)
        word = meant.reads_as if isinstance(meant, Surprise) else str(meant).lower()
        if word in ("true", "false"):
            mend = f"write {word}"
    return _mismatch(node, path, problems, "true or false", mend)


def _words(shape: OneOf, node: Node, problems: Problems, path: Path) -> object:
    allowed = joined(shape.allowed, "or")
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or node.value is None:
        return _mismatch(node, path, problems, allowed, "write one of them")
    value = node.value
    if any(value == word and type(value) is type(word) for word in shape.allowed):
        return value
    meant = describing.meant(node.text, [str(word) for word in shape.allowed])
    mend = f"did you mean `{meant}`?" if meant else "use one of them"
    seen = _cited(shown(node.text, path))
    problems.add(node.mark, "LP106", path, f"expected {allowed}, found {seen}", mend)
    return WRONG


def _mismatch(node: Node, path: Path, problems: Problems, allowed: str, mend: str) -> Literal[_Wrong.WRONG]:
    problems.add(node.mark, "LP103", path, f"expected {allowed}, found {_found(node, path)}", mend)
    return WRONG


def _found(node: Node, path: Path) -> str:
    if isinstance(node, Map):
        return "a map"
    if isinstance(node, Items):
        return "a list"
    assert isinstance(node, Scalar)
    if node.value is None or isinstance(node.value, bool):
        return type_word(node.value)
    kind = "text" if isinstance(node.value, str) else "the number"
    seen = shown(node.text, path)
    if seen == "(value hidden)":
        return f"{kind} {seen}"
    return f'{kind} "{seen}"' if kind == "text" else f"{kind} {seen}"


def _cited(seen: str) -> str:
    return seen if seen == "(value hidden)" else f"`{seen}`"
