"""What a message may show: never a secret, never more than a line, never a character that acts on a terminal."""

from __future__ import annotations

import re
from typing import Final

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
_SECRET_SHAPES: Final = re.compile(
    r"hf_[A-Za-z0-9]{8,}"  # Hugging Face
    r"|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}"  # AWS key ids
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|sk-[A-Za-z0-9_-]{16,}|xox[abprs]-[\w-]{8,}|AIza[\w-]{30,}|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{20,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}"  # JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|://[^/\s:@]+:[^/\s@]+@"  # user:password in a URL
    r"|(?i:bearer\s+)[\w.~+/=-]{16,}"
    r"|\{\{resolve:(?:secretsmanager|ssm-secure):"  # would be readable in DescribeModel
)
# A secret named beside its value (`password=...`, `--api-key ...`): no profile text has one, so it is not shown.
_NAMED_SECRET: Final = re.compile(
    r"(?i:token|secret|password|passwd|passphrase|pwd|credential|(?:api|access|private)[_-]?key)s?[\"']?\s*[=:\s]\s*\S"
)
_RANDOM_WORD: Final = re.compile(r"(?<![\w/+=-])[A-Za-z0-9/+=_-]{32,}(?![\w/+=-])")
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_UNBROKEN: Final = re.compile(r"[A-Za-z0-9+]+")
_TURN: Final = re.compile(r"(?<=[a-z])[^a-z]|(?<=[A-Z])[^A-Z]|(?<=[0-9])[^0-9]")
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


def is_secret_value(text: str) -> bool:
    """True when a text has the shape of a credential: a known prefix, or one long random-looking word."""
    return _SECRET_SHAPES.search(text) is not None or any(_looks_random(word) for word in _RANDOM_WORD.findall(text))


def redacted(text: str) -> str:
    """A finished message without whatever in it has the shape of a credential."""
    text = _SECRET_SHAPES.sub(HIDDEN, text)
    return _RANDOM_WORD.sub(lambda word: HIDDEN if _looks_random(word.group()) else word.group(), text)


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


def _looks_random(word: str) -> bool:
    """True for 32 characters or more that no person chose: they change between kinds all the time.

    Names change at most a few times a word (`DeepSeek-R1-Distill-Qwen-32B`), and break into short words.
    """
    if _HEXADECIMAL.fullmatch(word):
        return len(word) not in (32, 40, 64)
    kinds = (str.islower, str.isupper, str.isdigit)
    if not all(any(kind(char) for char in word) for kind in kinds) or len(set(word)) < len(word) / 3:
        return False
    parts = [(len(part), len(_TURN.findall(part))) for part in _UNBROKEN.findall(word)]
    return sum(turns for _, turns in parts) > 0.45 * len(word) or any(
        length >= 16 and turns >= length / 4 for length, turns in parts
    )
