"""The input of `loadproof run`: checked whole before anything is sent, then read a line at a time."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import orjson

from loadproof.errors import InputError
from loadproof.invocation import ChatMessage, GenerationRequest
from loadproof.invocation.chains import Item
from loadproof.invocation.journal import Journal

MOST_LINE_BYTES = 6_291_456  # SageMaker's own limit on a payload
MOST_TOKENS = 1_000_000
MOST_PROBLEMS = 20
_FIELDS = ("prompt", "messages", "key", "max_tokens")
_KEY = re.compile(r"[A-Za-z0-9._-]{1,128}")
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Shape:
    """How an input is to be read: where it lies, by which field its sessions go, how long answers may be by default."""

    path: Path
    chain_by: str | None
    max_tokens: int


@dataclass(slots=True)
class Input:
    """What is known of an input once it was checked. `sessions`: how many items each has."""

    shape: Shape
    items: int = 0
    has_messages: bool = False
    sessions: Counter[str] = field(default_factory=Counter)


class _Line(NamedTuple):
    item: Item
    chat: bool  # it has `messages`


def request_sha256(item: Item) -> str:
    """What an item asks, to tell later whether a stored result still answers it."""
    request = item.request
    parts = [request.prompt, [list(message) for message in request.history], request.max_output_tokens, item.chain]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:32]


def check_input(shape: Shape) -> Input:
    """Read it once through. Raises InputError with every bad line (up to 20 are shown)."""
    checked, problems, known = Input(shape), [], dict[str, int]()
    for number, line in _parsed(shape):
        if isinstance(line, str):
            problems.append(f"{shape.path}:{number}: {line}")
            continue
        item = line.item
        first = known.setdefault(item.key, number)
        if first != number:
            problems.append(
                f"{shape.path}:{number}: key {item.key!r} is that of line {first} already; give each its own"
            )
        checked.items += 1
        checked.has_messages = checked.has_messages or line.chat
        if item.chain is not None:
            checked.sessions[item.chain] += 1
    if problems:
        more = len(problems) - MOST_PROBLEMS
        shown = [*problems[:MOST_PROBLEMS], f"… and {more} more"] if more > 0 else problems
        raise InputError("\n".join(shown))
    if not checked.items:
        raise InputError(f'{shape.path}: nothing to send; expected one object a line, like {{"prompt": "…"}}')
    return checked


def check_stored(checked: Input, journal: Journal, target: str) -> None:
    """Raises InputError where a stored result answers another request than its key's line asks now, or is another
    `target`'s."""
    changed, others = [], dict[str, None]()
    for number, item in _items(checked):
        place = journal.stored.get(item.key)
        if place is not None and place.request != request_sha256(item):
            changed.append(number)
        if place is not None and place.target and place.target != target:
            others[place.target] = None
    if others:
        raise InputError(
            f"{journal.path}: holds answers of {', '.join(others)}, and {target} is asked now; continue with the first "
            "run's target and --model, or give another --output"
        )
    if changed:
        places = ", ".join(map(str, changed[:MOST_PROBLEMS])) + (" …" if len(changed) > MOST_PROBLEMS else "")
        raise InputError(
            f"{checked.shape.path}: {len(changed)} lines ask something else than {journal.path} holds the results of "
            f"(lines {places}); continue with the first run's input, --chain-by and --max-tokens, or give another "
            "--output"
        )


def read_items(checked: Input, journal: Journal, *, retry_failed: bool) -> Iterator[Item]:
    """What is left to send; of sessions all of it, with the answers stored before."""
    left = Counter(checked.sessions)
    for _, item in _items(checked):
        stored = journal.stored.get(item.key)
        answered = stored is not None and stored.answered
        failed = stored is not None and not stored.answered and not retry_failed
        if item.chain is not None:
            left[item.chain] -= 1
            text = str(journal.row(item.key)["text"]) if answered else None
            yield replace(item, stored=text, failed=failed, last=left[item.chain] == 0)
        elif not answered and not failed:
            yield item


def keys_of(checked: Input) -> Iterator[str]:
    """In the order of the input."""
    return (item.key for _, item in _items(checked))


def _items(checked: Input) -> Iterator[tuple[int, Item]]:
    for number, line in _parsed(checked.shape):
        if isinstance(line, str):
            raise InputError(f"{checked.shape.path}:{number}: {line}; the file has changed since it was checked")
        yield number, line.item


def refuse_stream(path: Path) -> None:
    """Raises InputError for a pipe or a device: what is checked whole is read again, and would then be empty."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(f"--input {path}: is no file but a stream; it is read several times: give a file")


def _parsed(shape: Shape) -> Iterator[tuple[int, _Line | str]]:
    """Each line that is not empty, by its number, or what is wrong with it."""
    refuse_stream(shape.path)
    try:
        with shape.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        yield number, _line(line, number, shape)
                    except ValueError as error:
                        yield number, str(error)
    except OSError as error:
        raise InputError(f"--input {shape.path}: cannot be read ({error.strerror})") from None


def _line(line: bytes, number: int, shape: Shape) -> _Line:
    """Raises ValueError, a message for people."""
    if len(line) > MOST_LINE_BYTES:
        raise ValueError(f"{len(line):,} bytes; at most {MOST_LINE_BYTES:,}, SageMaker's limit on a payload")
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error}); one object a line") from None
    if not isinstance(row, dict):
        raise ValueError('expected an object, like {"prompt": "…"}')
    _refuse_misspelled(row, shape.chain_by)
    key = row.get("key", str(number))
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ValueError(f"key {short(key)}: expected 1 to 128 of A-Z a-z 0-9 . _ -")
    max_tokens = row.get("max_tokens", shape.max_tokens)
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or not 1 <= max_tokens <= MOST_TOKENS:
        raise ValueError(f"max_tokens {short(max_tokens)}: expected a whole number from 1 to {MOST_TOKENS:,}")
    if ("prompt" in row) == ("messages" in row):
        raise ValueError(f"expected either `prompt`, a text, or `messages`, a list; found {short([*row])}")
    history, prompt = messages_of(row["messages"]) if "messages" in row else ((), text_of("prompt", row["prompt"]))
    request = GenerationRequest(prompt, max_tokens, history=history, keep_text=True)
    return _Line(Item(key, request, _session(row, shape.chain_by)), "messages" in row)


def _refuse_misspelled(row: dict[str, object], chain_by: str | None) -> None:
    """Other fields are the caller's own and left alone, but not one that was surely meant for us."""
    for name in row:
        if name not in _FIELDS and name != chain_by and (near := difflib.get_close_matches(name, _FIELDS, 1, 0.85)):
            raise ValueError(f"field `{name}`: did you mean `{near[0]}`?")


def messages_of(said: object) -> tuple[tuple[ChatMessage, ...], str]:
    """(what was said before, the user's newest turn)."""
    if not isinstance(said, list) or not said:
        raise ValueError("messages: expected a list of at least one object with `role` and `content`")
    messages = []
    for place, message in enumerate(said, start=1):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            raise ValueError(f"messages: item {place}: role {short(role)}: expected {', '.join(_ROLES)}")
        messages.append(ChatMessage(role, text_of(f"messages: item {place}: content", message.get("content"))))
    if messages[-1].role != "user":
        raise ValueError("messages: the last one must be the user's")
    return tuple(messages[:-1]), messages[-1].text


def _session(row: dict[str, object], chain_by: str | None) -> str | None:
    if chain_by is None:
        return None
    session = row.get(chain_by)
    if isinstance(session, bool) or not isinstance(session, (str, int)) or session == "":
        raise ValueError(f"{chain_by} {short(session)}: --chain-by needs a text or whole number in each line")
    return str(session)


def text_of(place: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{place}: expected a text that is not empty, found {short(value)}")
    return value


def short(value: object) -> str:
    """A value for a message; a prompt is never shown whole."""
    text = orjson.dumps(value).decode()
    return text if len(text) <= 40 else f"{text[:40]}…"
