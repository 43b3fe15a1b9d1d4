"""Recorded conversations: ShareGPT's format, OpenAI's messages, or plain prompts.

A JSON file holds a list, a JSON Lines file one object a line. An object is one of

    {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}, ...]}      ShareGPT
    {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}, ...]}
    {"prompt": "...", "output_tokens": 64}             output_tokens, or "answer", or neither: the workload's own

Of a conversation the user's turns are sent; the recorded answers say how long answers are asked to be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from loadproof.errors import InputError

MOST_ROWS = 1_000_000
MOST_PROBLEMS = 20
_USERS, _MODELS = {"human", "user"}, {"gpt", "assistant", "model", "chatgpt", "bing", "bard"}


@dataclass(frozen=True, slots=True)
class DatasetTurn:
    """One turn of the user, and what the recorded answer was (None: nothing is recorded)."""

    prompt: str
    answer: str | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Conversations with at least one turn of the user's each. `skipped` rows had none."""

    conversations: tuple[tuple[DatasetTurn, ...], ...]
    skipped: int
    sha256: str


def read_dataset(path: Path) -> Dataset:
    """Raises InputError with every row that is none of the three (up to 20)."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a JSON or JSON Lines file") from None
    conversations: list[tuple[DatasetTurn, ...]] = []
    problems: list[str] = []
    skipped = 0
    for place, row in _rows(path, body):
        try:
            turns = _turns(row)
        except ValueError as error:
            problems.append(f"{place}: {error}")
            if len(problems) >= MOST_PROBLEMS:
                break
            continue
        if turns:
            conversations.append(turns)
        else:
            skipped += 1
        if len(conversations) >= MOST_ROWS:
            break
    if problems:
        raise InputError("\n".join(problems))
    if not conversations:
        raise InputError(f"{path}: nothing to send; expected rows with `prompt`, `messages` or `conversations`")
    return Dataset(tuple(conversations), skipped, hashlib.sha256(body).hexdigest())


def _rows(path: Path, body: bytes) -> Iterator[tuple[str, object]]:
    if body.lstrip()[:1] == b"[":
        try:
            rows = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise InputError(f"{path}: not JSON ({error}); give a list of objects, or one object a line") from None
        yield from ((f"{path}: item {number}", row) for number, row in enumerate(rows, start=1))
        return
    for number, line in enumerate(body.splitlines(), start=1):
        if line.strip():
            try:
                yield f"{path}:{number}", orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(f"{path}:{number}: not JSON ({error}); one object a line") from None


def _turns(row: object) -> tuple[DatasetTurn, ...]:
    """The user's turns of one row. Raises ValueError, a message for people."""
    if not isinstance(row, Mapping):
        raise ValueError("expected an object with `prompt`, `messages` or `conversations`")
    if "prompt" in row:
        return (_single(row),)
    for key, role, text in (("conversations", "from", "value"), ("messages", "role", "content")):
        if key in row:
            return _conversation(row[key], key, role, text)
    raise ValueError(f"none of `prompt`, `messages`, `conversations`; found {', '.join(sorted(row)[:5]) or 'no key'}")


def _single(row: Mapping[str, object]) -> DatasetTurn:
    prompt, answer, tokens = row["prompt"], row.get("answer"), row.get("output_tokens")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError("prompt: expected a text that is not empty")
    if answer is not None and not isinstance(answer, str):
        raise ValueError("answer: expected a text")
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1):
        raise ValueError(f"output_tokens {tokens!r}: expected a whole number from 1")
    return DatasetTurn(prompt, answer, tokens)


def _conversation(said: object, key: str, role: str, text: str) -> tuple[DatasetTurn, ...]:
    if not isinstance(said, list):
        raise ValueError(f"{key}: expected a list")
    turns: list[DatasetTurn] = []
    for number, message in enumerate(said, start=1):
        if not isinstance(message, Mapping) or not isinstance(message.get(text), str):
            raise ValueError(f"{key}: item {number}: expected `{role}` and `{text}`, a text")
        speaker, words = message.get(role), message[text]
        if speaker in _USERS and words.strip():
            turns.append(DatasetTurn(words))
        elif speaker in _MODELS and turns and turns[-1].answer is None:
            turns[-1] = DatasetTurn(turns[-1].prompt, words)
    return tuple(turns)
