"""What of a target's address may be told: servers quote what they were asked for, and files outlive their run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import parse_qsl, quote, unquote_plus

from loadproof.errors import InputError
from loadproof.secret_forms import is_secret_value, is_typed_by_nobody

LEFT_OUT: Final = "…"
_LEAST: Final = 6  # characters that are a secret's: what is shorter stands in any sentence
_BEGINNING: Final = 8  # so much of a secret is cut out, too: messages are cut to a length
_NAMED: Final = re.compile(  # in a query
    r"(?i)(?:key|token|secret|sig|signature|code|auth|authorization|pass|passwd|password|passphrase|pwd|credential"
    r"|bearer|jwt)s?$"
)
_PARTS: Final = re.compile(r"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?")
_USER: Final = re.compile(r"//[^/]*@")


def refuse_credentials(url: str, option: str) -> None:
    """Raises InputError for a query with a value that looks like a secret by its name or its form; never shows it."""
    pairs = parse_qsl(_query(url), keep_blank_values=True)
    if any(_NAMED.search(name) or _is_secret(name) or _is_secret(value) for name, value in pairs):
        raise InputError(
            f"{option} with a credential in its query, which servers and logs quote: name a server that asks for none, "
            "such as a proxy on this machine that adds it"
        )


def shown_url(url: str) -> str:
    """The address without its query, its user and the parts of its path that look like a secret: `…` for each."""
    found = _PARTS.match(url)
    assert found is not None  # of any text
    path = _USER.sub(f"//{LEFT_OUT}@", found["path"], count=1)
    path = "/".join(LEFT_OUT if _is_secret(part) else part for part in path.split("/"))
    return path + (f"?{LEFT_OUT}" if found["query"] else "")


def hider(url: str) -> Callable[[str], str]:
    """What cuts out of a text all that `shown_url` leaves out of this address, however a server quotes it."""
    hidden = {form for part in _left_out(url) for form in _forms(part) if len(form) >= _LEAST}
    if not hidden:
        return str
    beginning = re.compile("|".join(sorted({re.escape(secret[:_BEGINNING]) for secret in hidden})))

    def hide(text: str) -> str:
        shown, end = [], 0
        while found := beginning.search(text, end):
            shown += [text[end : found.start()], LEFT_OUT]
            end = max(_end_of(secret, text, found.start()) for secret in hidden)
        return "".join([*shown, text[end:]])

    return hide


def _end_of(secret: str, text: str, at: int) -> int:
    """Where the text from there on stops to be the secret's beginning; `at` where that is too short to tell."""
    if not text.startswith(secret[:_BEGINNING], at):
        return at
    length = min(_BEGINNING, len(secret))
    while length < len(secret) and text[at + length : at + length + 1] == secret[length]:
        length += 1
    return at + length


def _left_out(url: str) -> Iterator[str]:
    found = _PARTS.match(url)
    assert found is not None
    yield from filter(_is_secret, found["path"].split("/"))
    query = _query(url)
    yield query
    for pair in query.split("&"):
        yield pair
        yield pair.partition("=")[2]


def _forms(part: str) -> tuple[str, ...]:
    """As it was given, as a server decodes it, and as libraries encode it again."""
    plain = unquote_plus(part)
    return part, plain, quote(plain), quote(plain, safe=""), plain.replace("/", "\\/")


def _query(url: str) -> str:
    found = _PARTS.match(url)
    assert found is not None
    return found["query"] or ""


def _is_secret(text: str) -> bool:
    plain = unquote_plus(text)
    return is_secret_value(plain) or is_typed_by_nobody(plain)
