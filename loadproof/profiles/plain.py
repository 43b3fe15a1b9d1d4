"""What an unquoted YAML word means, and the refusal of every word that means something surprising.

YAML 1.1 reads `no` as false, `12:30` as 750 and `010` as 8; YAML 1.2 readers, editors and people disagree. Only
words that every reader takes alike are accepted: `true`, `false`, `null`, decimal numbers, and plain text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from loadproof.profiles.tree import ScalarValue

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+\Z")
_MOST_DIGITS: Final = 18  # fits 64 bits; nothing in a profile is longer


@dataclass(frozen=True, slots=True)
class Surprise:
    """`reads_as` is what YAML would make of the word, `instead` what to write."""

    reads_as: str
    instead: str


def plain_value(text: str) -> ScalarValue | Surprise:
    """The value of an unquoted word, or why it is refused."""
    if not text or text[0] not in _SUSPECT_FIRST:
        return text or Surprise("null", "write the value, or delete the key")
    if text in ("true", "false"):
        return text == "true"
    if text == "null":
        return None
    if _INTEGER.match(text):
        return int(text) if len(text) <= _MOST_DIGITS else _too_long(text)
    if _DECIMAL.match(text):
        return float(text) if len(text) <= _MOST_DIGITS else _too_long(text)
    for pattern, explain in _SURPRISES:
        if pattern.match(text):
            return explain(text)
    return text


def _too_long(text: str) -> Surprise:
    return Surprise(f"a number of {len(text)} digits", f"use at most {_MOST_DIGITS}, or quote it for text")


def _quoted(text: str) -> str:
    return f'write "{text}" for text'


def _truth(text: str) -> Surprise:
    value = "true" if text.lower() in ("yes", "on", "y", "true") else "false"
    return Surprise(value, f"write {value}, or {_quoted(text).removeprefix('write ')}")


def _nothing(text: str) -> Surprise:
    return Surprise("null", f"write null, or {_quoted(text).removeprefix('write ')}")


def _base_60(text: str) -> Surprise:
    sign = -1 if text.startswith("-") else 1
    value = 0.0
    for part in text.lstrip("+-").replace("_", "").split(":")[:12]:
        value = value * 60 + float(part)
    seconds = f"{sign * value:.15g}"
    return Surprise(f"{seconds} (base 60)", f"{_quoted(text)}, or {seconds} for the number")


def _base_8(text: str) -> Surprise:
    digits = text.lstrip("+-").replace("_", "").replace("o", "")
    if set(digits) <= set("01234567"):
        value = int(digits[:_MOST_DIGITS] or "0", 8)
        return Surprise(f"{value} (octal)", f"write {_stripped(text)}, or {_quoted(text).removeprefix('write ')}")
    return Surprise("text to YAML 1.1 and a number to YAML 1.2", f"write {_stripped(text)}, or quote it for text")


def _stripped(text: str) -> str:
    sign = "-" if text.startswith("-") else ""
    return sign + (text.lstrip("+-").replace("_", "").lstrip("0o") or "0")


def _other_base(text: str) -> Surprise:
    digits = text.lstrip("+-").replace("_", "")
    base, name = (16, "hexadecimal") if digits[1] in "xX" else (2, "binary")
    value = int(digits[2 : 2 + 15] or "0", base)
    return Surprise(f"{value} ({name})", f"write {value}, or {_quoted(text).removeprefix('write ')}")


def _underscores(text: str) -> Surprise:
    plain = text.replace("_", "")
    if "." in plain:
        plain = f"{float(plain):.15g}"
    return Surprise(plain, f"write {plain}, or {_quoted(text).removeprefix('write ')}")


def _exponent(text: str) -> Surprise:
    exponent = int(re.split("[eE]", text)[1][:6] or "0")
    written = f"write {float(text):.15g}" if abs(exponent) < 15 else "write a finite number in full"
    return Surprise("text to YAML 1.1 and a number to YAML 1.2", f"{written}, or quote it for text")


def _loose_decimal(text: str) -> Surprise:
    value = float(text)
    written = f"{value:.15g}" if abs(value) < 1e15 else "the number in full"
    return Surprise("a number to some readers only", f"write {written}, or quote it for text")


def _not_a_number(text: str) -> Surprise:
    return Surprise("not a number" if "nan" in text.lower() else "infinity", "write a finite number")


def _date(text: str) -> Surprise:
    return Surprise("a date", _quoted(text))


def _merge(_: str) -> Surprise:
    return Surprise("a merge", "write the keys out")


def _default(text: str) -> Surprise:
    return Surprise("YAML's default value", _quoted(text))


_SURPRISES: Final = (
    (re.compile(r"(?:y|Y|n|N|(?:[yY]es|YES|[nN]o|NO|[oO]n|ON|[oO]ff|OFF|True|TRUE|False|FALSE))\Z"), _truth),
    (re.compile(r"(?:~|Null|NULL)\Z"), _nothing),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z"), _not_a_number),
    (re.compile(r"<<\Z"), _merge),
    (re.compile(r"=\Z"), _default),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?\Z"), _date),
    (re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z"), _base_60),
    (re.compile(r"[-+]?0[xX][0-9a-fA-F_]+\Z|[-+]?0b[01_]+\Z"), _other_base),
    (re.compile(r"[-+]?0o?[0-9_]+\Z"), _base_8),
    (re.compile(r"[-+]?(?=[0-9.]*_)(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)\Z"), _underscores),
    (re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+\Z"), _exponent),
    (re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)\Z|\+[0-9]+\Z"), _loose_decimal),
)
_SUSPECT_FIRST: Final = frozenset("0123456789-+.~=<yYnNoOtTfF")
