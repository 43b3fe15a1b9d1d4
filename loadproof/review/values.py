"""A template's values as a reviewer reads them: functions in words, assets by a short hash, never a secret."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from loadproof.profiles.secrets import HIDDEN, is_secret_key, is_secret_value, shown
from loadproof.review.definitions import WITH
from loadproof.review.references import is_function

_LONGEST: Final = 100  # characters of one value; the rest is cut where both sides are still alike
_KEPT_BEFORE: Final = 20  # characters of the common beginning that stay
_HASH: Final = r"[0-9a-f]{64}"
_ASSET: Final = re.compile(rf"({_HASH})\.[a-z0-9]{{1,8}}\Z|\${{AssetParameters({_HASH})\w*}}\Z")
_IMAGE_ASSET: Final = re.compile(rf"(container-assets[^:@]*):({_HASH})\Z")
_BARE_HASH: Final = re.compile(rf"({_HASH})\Z")
_VARIABLES: Final = frozenset({"Environment", "Variables"})
_SHOWN_HASH: Final = 12  # digits


def readable(value: object) -> object:
    """Numbers, booleans and None as they are; text, functions, lists and maps as one text, without secrets."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = _text(value)
    if asset := _ASSET.match(text):
        return f"asset {(asset.group(1) or asset.group(2))[:_SHOWN_HASH]}"
    if image := _IMAGE_ASSET.search(text):
        return f"{text[: image.start(2)]}asset {image.group(2)[:_SHOWN_HASH]}"
    return f"{text[:_SHOWN_HASH]}…" if _BARE_HASH.match(text) else text


def shown_pair(before: object, after: object, path: tuple[str, ...]) -> tuple[object, object]:
    """Both sides of a change as a reviewer may see them: hidden if secret, cut where they are alike."""
    if any(is_secret_key(step) for step in path):
        return _hidden(before), _hidden(after)
    if _VARIABLES & set(path):  # a variable's text may name a secret anywhere: `--api-key ...`
        before, after = (HIDDEN if isinstance(one, str) and shown(one) == HIDDEN else one for one in (before, after))
    return shortened(readable(before), readable(after))


def shortened(old: object, new: object) -> tuple[object, object]:
    """Long texts cut: first what they have in common, then their ends."""
    if not isinstance(old, str) or not isinstance(new, str):
        return _cut(old, 0), _cut(new, 0)
    alike = next(
        (at for at, (one, two) in enumerate(zip(old, new, strict=False)) if one != two), min(len(old), len(new))
    )
    start = alike - _KEPT_BEFORE if max(len(old), len(new)) > _LONGEST and alike > 2 * _KEPT_BEFORE else 0
    return _cut(old, start), _cut(new, start)


def _cut(value: object, start: int) -> object:
    if not isinstance(value, str):
        return value
    text = ("…" if start else "") + value[start:]
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _hidden(value: object) -> object:
    return value if value is None or isinstance(value, bool) else HIDDEN


def _text(value: Any) -> str:
    if isinstance(value, str):
        # Only what is written out: a logical id has the look of a key, and is none.
        return HIDDEN if is_secret_value(value) else value
    if is_function(value):
        ((name, argument),) = value.items()
        return _function(str(name), argument)
    if isinstance(value, list | dict):
        return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)
    return str(value)


def _function(name: str, argument: Any) -> str:
    given = argument[1] if isinstance(argument, list) and len(argument) == 2 else None
    if isinstance(given, dict) and list(given) == [WITH]:
        return f"{_function(name, argument[0])} with {_text(given[WITH])}"
    if name == "Ref":
        return f"${{{argument}}}"
    if name == "Fn::GetAtt":
        return "${" + (".".join(map(str, argument)) if isinstance(argument, list) else str(argument)) + "}"
    if name == "Fn::Join" and isinstance(argument, list) and len(argument) == 2 and isinstance(argument[1], list):
        return str(argument[0]).join(_text(part) for part in argument[1])
    if name == "Fn::Sub":
        return _text(argument[0] if isinstance(argument, list) and argument else argument)
    return f"{name.removeprefix('Fn::')}({_text(argument)})"


def _plain(value: object, key: str = "") -> object:
    """Functions inside a larger value as text too, secrets hidden."""
    if is_function(value) or isinstance(value, str):
        return HIDDEN if key and is_secret_key(key) else _text(value)
    if isinstance(value, list):
        return [_plain(item, key) for item in value]
    return {name: _plain(item, str(name)) for name, item in value.items()} if isinstance(value, dict) else value
