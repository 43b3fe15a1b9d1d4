"""What a message may show: never a secret, never more than a line, never a character that acts on a terminal."""

from __future__ import annotations

import re
from typing import Final

from loadproof.secret_forms import RANDOM_WORD, SHAPES, looks_random
from loadproof.secret_forms import is_secret_value as is_secret_value

HIDDEN: Final = "(value hidden)"
_LONGEST_SHOWN: Final = 60

# Words of a key that name a secret, alone or before `key`.
_SECRET_WORDS: Final = frozenset(
    """token secret secrets password passwd passphrase pwd pass credential credentials authorization bearer
    apikey accesskey secretkey privatekey""".split()  # noqa: SIM905
)
_KEY_OWNERS: Final = frozenset(("api", "access", "secret", "private", "signing", "encryption", "account"))
# `eos_token`, `num_experts_per_token` and `pad_token_id` speak of text, not of secrets.
_TEXT_TOKENS: Final = frozenset(["per", "eos", "bos", "pad", "unk", "stop", "mask", "sep", "cls"])
_WORD_BREAK: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
# A secret named beside its value (`password=...`, `--api-key ...`): no profile text has one, so it is not shown.
_NAMED_SECRET: Final = re.compile(
    r"(?i:token|secret|password|passwd|passphrase|pwd|credential|(?:api|access|private)[_-]?key)s?[\"']?\s*[=:\s]\s*\S"
)
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_./:-]{1,60}\Z")


def is_secret_key(key: str) -> bool:
    """True when a key's name says that its value is a secret (`HF_TOKEN`, `db-password`, `apiKey`)."""
    words = [word.lower() for word in _WORD_BREAK.split(key[:200]) if word]
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        if word == "key" and before in _KEY_OWNERS:
            return True
        if word in _SECRET_WORDS and not (word == "token" and before in _TEXT_TOKENS):
            return True
    return False


def redacted(text: str) -> str:
    """A finished message without whatever in it has the shape of a credential."""
    text = SHAPES.sub(HIDDEN, text)
    return RANDOM_WORD.sub(lambda word: HIDDEN if looks_random(word.group()) else word.group(), text)


def shown(text: str, path: tuple[str | int, ...] = ()) -> str:
    """`text` as a message may quote it. Hidden when the path or the text itself looks secret.

    Values under any `environment` map are always hidden: what a variable holds is nobody's business in a log.
    """
    keys = [step for step in path if isinstance(step, str)]
    in_environment = "environment" in keys[:-1] or keys[-2:] == ["container", "environment"]
    if in_environment or any(is_secret_key(key) or is_secret_value(key) for key in keys) or _speaks(text):
        return HIDDEN
    return _printable(text)


def shown_path(path: tuple[str | int, ...]) -> str:
    """`path` in dotted form; keys that are not plain words are quoted, secret-looking ones hidden."""
    dotted = ""
    for step in path:
        if isinstance(step, int):
            dotted += f"[{step}]"
        else:
            dotted += ("." if dotted else "") + shown_key(step)
    return dotted


def shown_key(key: str) -> str:
    """A key as a message may show it."""
    if _speaks(key):
        return "(key hidden)"
    return key if _PLAIN_KEY.match(key) else f'"{_printable(key)}"'


def _speaks(text: str) -> bool:
    return is_secret_value(text) or _NAMED_SECRET.search(text) is not None


def _printable(text: str) -> str:
    # Cut first: a message about a megabyte of text costs no more than one about a word.
    cut = text[: _LONGEST_SHOWN + 1]
    escaped = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in cut)
    return escaped if len(escaped) <= _LONGEST_SHOWN else escaped[: _LONGEST_SHOWN - 1] + "…"
