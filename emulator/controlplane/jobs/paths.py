"""The parts of Amazon States Language that compute: reference paths, payload templates, intrinsic functions."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from typing import Any

_STEP = re.compile(r"\.(?P<name>[A-Za-z0-9_\-]+)|\[(?P<index>\d+)\]")
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^'\\]|\\.)*')|(?P<path>\$\$?[^\s,()]*)|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<word>true|false|null)\b|(?P<function>States\.[A-Za-z]+)\(|(?P<end>\))|(?P<comma>,))"
)
_WORDS = {"true": True, "false": False, "null": None}


class StateError(Exception):
    """An error by name, as a state's Catch and Retry see it."""

    def __init__(self, name: str, cause: str) -> None:
        super().__init__(f"{name}: {cause}")
        self.name, self.cause = name, cause


class NotProvidedError(Exception):
    """Part of the language that AWS has and this local cloud does not."""


def read(path: str, data: Any, context: Mapping[str, Any]) -> Any:
    """What a reference path points at; `$$` is the context object. Raises StateError where there is nothing."""
    found: Any = context if path.startswith("$$") else data
    rest = path[2:] if path.startswith("$$") else path[1:]
    at = 0
    while at < len(rest):
        step = _STEP.match(rest, at)
        if step is None:
            raise NotProvidedError(f"the path {path}: only names and indexes")
        try:
            found = found[step["name"]] if step["name"] else found[int(step["index"])]
        except (KeyError, IndexError, TypeError):
            raise StateError("States.ParameterPathFailure", f"The JSONPath '{path}' could not be found") from None
        at = step.end()
    return found


def is_there(path: str, data: Any, context: Mapping[str, Any]) -> bool:
    try:
        read(path, data, context)
    except StateError:
        return False
    return True


def filled(template: Any, data: Any, context: Mapping[str, Any]) -> Any:
    """A payload template: keys that end in `.$` are paths or intrinsic functions."""
    if isinstance(template, list):
        return [filled(one, data, context) for one in template]
    if not isinstance(template, dict):
        return template
    return {
        name.removesuffix(".$"): computed(value, data, context) if name.endswith(".$") else filled(value, data, context)
        for name, value in template.items()
    }


def computed(text: str, data: Any, context: Mapping[str, Any]) -> Any:
    """A path or an intrinsic function."""
    if text.startswith("$"):
        return read(text, data, context)
    value, end = _argument(text, 0, data, context)
    if text[end:].strip():
        raise NotProvidedError(f"the expression {text}")
    return value


def written(path: str | None, data: Any, result: Any) -> Any:
    """ResultPath: the input with the result put in; the input alone for None."""
    if path is None:
        return data
    if path == "$":
        return result
    names = [step["name"] for step in _STEP.finditer(path[1:])]
    if not names or None in names:
        raise NotProvidedError(f"the ResultPath {path}: only names")
    whole = dict(data)
    place = whole
    for name in names[:-1]:
        place[name] = dict(place.get(name) or {})
        place = place[name]
    place[names[-1]] = result
    return whole


def _argument(text: str, at: int, data: Any, context: Mapping[str, Any]) -> tuple[Any, int]:
    token = _TOKEN.match(text, at)
    if token is None or token["end"] or token["comma"]:
        raise NotProvidedError(f"the expression {text}")
    if token["text"]:
        return re.sub(r"\\(.)", r"\1", token["text"][1:-1]), token.end()
    if token["path"]:
        return read(token["path"], data, context), token.end()
    if token["number"]:
        return json.loads(token["number"]), token.end()
    if token["word"]:
        return _WORDS[token["word"]], token.end()
    arguments: list[Any] = []
    at = token.end()
    while True:
        closing = _TOKEN.match(text, at)
        if closing is not None and closing["end"]:
            return _called(token["function"], arguments), closing.end()
        if closing is not None and closing["comma"]:
            at = closing.end()
        value, at = _argument(text, at, data, context)
        arguments.append(value)


def _called(function: str, arguments: list[Any]) -> Any:
    try:
        match function:
            case "States.Format":
                return _formatted(*arguments)
            case "States.Array":
                return arguments
            case "States.UUID":
                return str(uuid.uuid4())
            case "States.StringToJson":
                return json.loads(arguments[0])
            case "States.JsonToString":
                return json.dumps(arguments[0])
    except (ValueError, TypeError, IndexError) as error:
        raise StateError("States.IntrinsicFailure", f"{function}: {error}") from None
    raise NotProvidedError(f"the function {function}")


def _formatted(template: str, *values: Any) -> str:
    parts = template.split("{}")
    if len(parts) != len(values) + 1:
        raise ValueError("as many values as {} are needed")
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return "".join(part + text for part, text in zip(parts, [*texts, ""], strict=True))
