"""A template's values as a reviewer reads them: functions in words, assets by a short hash, never a secret."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from loadproof.profiles.secrets import HIDDEN, is_secret_key, is_secret_value, redacted
from loadproof.review.definitions import TOLD
from loadproof.review.references import is_function

_LONGEST: Final = 100  # characters of one value; the rest is cut where both sides are still alike
_KEPT_BEFORE: Final = 20  # characters of the common beginning that stay
_ASSET: Final = re.compile(r"(?:AssetParameters)?([0-9a-f]{64})(?:\.[a-z]{1,8})?\Z|AssetParameters([0-9a-f]{64})\w*\Z")
_IMAGE_ASSET: Final = re.compile(r"(container-assets[^:@]*):([0-9a-f]{64})\Z")


def readable(value: Any) -> Any:
    """Numbers, booleans and None as they are; text, functions and empty maps as one text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = _text(value)
    asset = _ASSET.match(text)
    if asset:
        return f"asset {(asset.group(1) or asset.group(2))[:12]}"
    return _IMAGE_ASSET.sub(lambda found: f"{found.group(1)}:asset {found.group(2)[:12]}", text)


def shown_pair(before: Any, after: Any, path: tuple[str, ...]) -> tuple[Any, Any]:
    """Both sides of a change as a reviewer may see them: hidden if secret, cut where they are alike."""
    keys = [step for step in path if not step.isdigit()]
    old, new = readable(before), readable(after)
    if any(is_secret_key(key) for key in keys):
        return _hidden(old), _hidden(new)
    old, new = _without_secrets(old), _without_secrets(new)
    return shortened(old, new)


def shortened(old: Any, new: Any) -> tuple[Any, Any]:
    """Long texts cut: first what they have in common, then their ends."""
    if not isinstance(old, str) or not isinstance(new, str):
        return _cut(old, 0), _cut(new, 0)
    alike = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0)
    start = alike - _KEPT_BEFORE if max(len(old), len(new)) > _LONGEST and alike > 2 * _KEPT_BEFORE else 0
    return _cut(old, start), _cut(new, start)


def _cut(value: Any, start: int) -> Any:
    if not isinstance(value, str):
        return value
    text = ("…" if start else "") + value[start:]
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _hidden(value: Any) -> Any:
    return value if value is None or isinstance(value, bool) else HIDDEN


def _without_secrets(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    # A hash names what it is the hash of; the secrets' own test takes long ones for keys.
    return HIDDEN if is_secret_value(value) else redacted(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if is_function(value):
        ((name, argument),) = value.items()
        return _function(str(name), argument)
    if isinstance(value, list | dict):
        return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)
    return str(value)


def _function(name: str, argument: Any) -> str:
    if (
        isinstance(argument, list)
        and len(argument) == 2
        and isinstance(argument[1], dict)
        and list(argument[1]) == [TOLD]
    ):
        return f"{_function(name, argument[0])} with {_text(argument[1][TOLD])}"
    if name == "Ref":
        return f"${{{argument}}}"
    if name == "Fn::GetAtt":
        return "${" + (argument if isinstance(argument, str) else ".".join(map(str, argument))) + "}"
    if name == "Fn::Join" and isinstance(argument, list) and len(argument) == 2 and isinstance(argument[1], list):
        return str(argument[0]).join(_text(part) for part in argument[1])
    if name == "Fn::Sub":
        return str(argument[0] if isinstance(argument, list) and argument else argument)
    return f"{name.removeprefix('Fn::')}({_text(argument)})"


def _plain(value: Any) -> Any:
    """Functions inside a larger value as text too."""
    if is_function(value):
        return _text(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value
