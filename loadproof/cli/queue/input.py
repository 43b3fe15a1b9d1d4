"""What `loadproof queue send` is given: checked whole before anything is sent, then read a line at a time."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from loadproof.errors import InputError
from loadproof.invocation import GenerationRequest
from loadproof.invocation.buffer.message import Message, read_object
from loadproof.invocation.prompt_file import (
    MOST_LINE_BYTES,
    MOST_PROBLEMS,
    MOST_TOKENS,
    messages_of,
    refuse_stream,
    short,
    text_of,
)
from loadproof.wire.message import FIELDS

Payload = Callable[[GenerationRequest, bool], dict[str, object]]
_OURS: Final = ("prompt", "messages", "max_tokens", *FIELDS)
_WHAT: Final = ("prompt", "messages", "request", "request_s3")


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for lines that do not say it themselves, and how a payload is made of a prompt."""

    payload: Payload
    max_tokens: int
    fields: dict[str, Any]  # of Message: deadline_ms, priority, tenant, callback
    callbacks: tuple[str, ...] = ()  # those that the profile allows


def check_lines(path: Path, defaults: Defaults) -> int:
    """Read a file once through; how many lines it has to send. Raises InputError with every bad line (20 are shown)."""
    problems, keys, count = [], dict[str, int](), 0
    for number, message in _read(path, defaults):
        count += 1
        if isinstance(message, str):
            problems.append(f"{path}:{number}: {message}")
        elif message.key is not None and (first := keys.setdefault(message.key, number)) != number:
            problems.append(f"{path}:{number}: key {message.key!r} is that of line {first} already; give each its own")
    if problems:
        more = len(problems) - MOST_PROBLEMS
        raise InputError("\n".join([*problems[:MOST_PROBLEMS], *([f"… and {more} more"] if more > 0 else [])]))
    if not count:
        raise InputError(f'{path}: nothing to send; expected one object a line, like {{"prompt": "…"}}')
    return count


def messages_in(path: Path, defaults: Defaults) -> Iterator[Message]:
    """The messages of a file that was checked."""
    for number, message in _read(path, defaults):
        if isinstance(message, str):
            raise InputError(f"{path}:{number}: {message}; the file has changed since it was checked")
        yield message


def message_of_prompt(prompt: str, key: str | None, defaults: Defaults) -> Message:
    """Raises InputError."""
    try:
        return _message({"prompt": prompt} | ({"key": key} if key is not None else {}), defaults)
    except ValueError as error:
        raise InputError(str(error)) from None


def _read(path: Path, defaults: Defaults) -> Iterator[tuple[int, Message | str]]:
    """Each line that is not empty as a message, or what is wrong with it."""
    refuse_stream(path)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        yield number, _message(_object(line), defaults)
                    except (ValueError, InputError) as error:
                        yield number, str(error)
    except OSError as error:
        raise InputError(f"--input {path}: cannot be read ({error.strerror})") from None


def _object(line: bytes) -> dict[str, object]:
    if len(line) > MOST_LINE_BYTES:
        raise ValueError(f"{len(line):,} bytes; at most {MOST_LINE_BYTES:,}, SageMaker's limit on a payload")
    try:
        return read_object(line.decode())
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None


def _message(row: dict[str, Any], defaults: Defaults) -> Message:
    """Raises ValueError or MessageError, messages for people. Fields that are not ours are the caller's own."""
    for name in row:
        if name not in _OURS and (near := difflib.get_close_matches(name, _OURS, 1, 0.85)):
            raise ValueError(f"field `{name}`: did you mean `{near[0]}`?")
    if len([name for name in _WHAT if name in row]) != 1:
        raise ValueError("expected one of `prompt`, a text, `messages`, a list, and `request`, the model's own payload")
    fields = defaults.fields | {name: row[name] for name in FIELDS if name in row}
    if "prompt" in row or "messages" in row:
        fields["request"] = _payload(row, defaults)
    elif "max_tokens" in row:
        raise ValueError("max_tokens goes with `prompt` and `messages`; a `request` says it in the model's own words")
    message = Message(**fields)
    if message.callback is not None and message.callback not in defaults.callbacks:
        raise ValueError("`callback` is not among the profile's buffer.callbacks; add it there and deploy")
    return message


def _payload(row: dict[str, object], defaults: Defaults) -> dict[str, object]:
    max_tokens = row.get("max_tokens", defaults.max_tokens)
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or not 1 <= max_tokens <= MOST_TOKENS:
        raise ValueError(f"max_tokens {short(max_tokens)}: expected a whole number from 1 to {MOST_TOKENS:,}")
    chat = "messages" in row
    history, prompt = messages_of(row["messages"]) if chat else ((), text_of("prompt", row["prompt"]))
    return defaults.payload(GenerationRequest(prompt, max_tokens, history=history), chat)
