"""What a shape allows, in words: for the messages of `building`, and the ways to mend that they name."""

from __future__ import annotations

import difflib
import re

from loadproof.pages.wording import joined
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


def describe(shape: Shape) -> str:
    """What a shape allows, in words."""
    match shape:
        case Optional():
            return describe(shape.shape)
        case PartOf():
            return f"a map ({_some_keys(fields_of(shape.model))})"
        case Tagged():
            return f"a map with `{shape.key}`: {joined(shape.parts, 'or')}"
        case ListOf():
            return "a list"
        case MapOf():
            return "a map"
        case Either():
            return " or ".join(describe(arm) for arm in shape.arms)
        case Text():
            return shape.form.words if shape.form else "text"
        case Number():
            return bounds_of(shape)
        case Boolean():
            return "true or false"
        case OneOf():
            return joined(shape.allowed, "or")


def _some_keys(fields: dict[str, Field]) -> str:
    names = list(fields)
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


def allowed_keys(fields: dict[str, Field]) -> str:
    if len(fields) <= 12:
        return f"allowed here: {', '.join(fields)}"
    return "delete it, or look in deploy_profiles/schema.json"


def bounds_of(shape: Number) -> str:
    kind = "a whole number" if shape.whole else "a number"
    if shape.least is not None and shape.most is not None:
        return f"{kind} from {shape.least} to {shape.most}"
    limits = [
        f"at least {shape.least}" if shape.least is not None else "",
        f"above {shape.above}" if shape.above is not None else "",
        f"at most {shape.most}" if shape.most is not None else "",
        f"below {shape.below}" if shape.below is not None else "",
    ]
    return f"{kind} {' and '.join(limit for limit in limits if limit)}".strip()


def length_of(shape: Text) -> str:
    if shape.longest is None:
        return f"at least {shape.shortest} characters"
    if not shape.shortest:
        return f"at most {shape.longest} characters"
    return f"{shape.shortest} to {shape.longest} characters"


def meant(word: str, known: list[str]) -> str | None:
    """The known word nearest to what was written, if one is near; case and camelCase do not count."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word[:60]).lower().replace("-", "_")
    for candidate in (word[:60], plain):
        near = difflib.get_close_matches(candidate, known, n=1, cutoff=0.6)
        if near:
            return near[0]
    return None


def addition(name: str, shape: Shape) -> str:
    """How to add a missing key."""
    match shape:
        case PartOf():
            needed = [key for key, field in fields_of(shape.model).items() if field.required]
            return f"add `{name}:` with {' and '.join(needed)}" if needed else f"add `{name}: {{}}`"
        case Tagged():
            return f"add `{name}:` with `{shape.key}`"
        case Either():
            return addition(name, shape.arms[0])
        case Text(form=None) | ListOf():
            return f"add `{name}:`"
        case _:
            return f"add `{name}: {_example(shape)}`"


def _example(shape: Shape) -> str:
    match shape:
        case Optional():
            return _example(shape.shape)
        case Text(form=form) if form is not None:
            return form.example
        case Number():
            return "1" if shape.least is None else str(shape.least)
        case Boolean():
            return "true"
        case OneOf():
            return str(shape.allowed[0])
        case _:
            return "…"
