"""Production's own records as times and lengths: SageMaker's data capture, Bedrock's invocation logs.

Nothing of a prompt or an answer leaves this module but how long it is, which turn of a conversation it is, and a keyed
hash of what it begins with, whose key nobody keeps. Tokens are the server's own count where the answer says one; else
characters stand for them, four to a token, and the request counts as estimated.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import orjson

from loadproof.bench.workload.traces import MOST_TOKENS
from loadproof.wire.documents import Document, Json

CHARACTERS_A_TOKEN: Final = 4
# Of a prompt, of an answer, and of what is no part of the first: tokens read from a cache of prompts, or written to it.
_COUNTS: Final = (
    ("prompt_tokens", "completion_tokens", ()),
    ("inputTokens", "outputTokens", ("cacheReadInputTokens", "cacheWriteInputTokens")),
    ("input_tokens", "output_tokens", ("cache_read_input_tokens", "cache_creation_input_tokens")),
)
_LOGGED_APART: Final = ("cacheReadInputTokenCount", "cacheWriteInputTokenCount")
_CARRIERS: Final = (  # of texts, in answers and messages
    *("content", "text", "generated_text", "message", "choices", "delta", "output"),
    *("contentBlockDelta", "contentBlockStart", "start", "content_block", "partial_json"),
    *("tool_calls", "function", "function_call", "toolUse", "toolResult"),
    *("reasoningContent", "reasoningText", "thinking"),
)
_MEDIA: Final = frozenset(
    ("image_url", "image", "video_url", "video", "audio_url", "input_audio", "audio", "document", "source")
)
_HALF: Final = re.compile(r"\\ud[89a-f]", re.IGNORECASE)  # of a character, as JSON writes it
_FIRST_YEAR: Final = 2000  # of a century of dates
_TEXTS: Final = ("inputs", "prompt", "messages", "system")


@dataclass(frozen=True, slots=True)
class Request:
    """One recorded request. `estimated`: at least one of its lengths is reckoned from characters.

    `turn` counts from 1, and is 0 where a payload has no messages to tell it by; `new_tokens` of the prompt came since
    the answer before, and `pause_s` passed, if a trace tells it. `prefix` is a keyed hash of the system prompt, of
    `prefix_tokens`; 0 without one. `model`: as a log that holds several names it.
    """

    at_s: float
    input_tokens: int
    output_tokens: int
    estimated: bool = False
    turn: int = 0
    new_tokens: int = 0
    prefix: int = 0
    prefix_tokens: int = 0
    model: str = ""
    pause_s: float | None = None


def request_of(line: Document, key: bytes) -> Request | None:
    """The request of one line; None where no answer came. Raises ValueError with what is wrong, never what was said.

    `key`: of the hashes; hashes of one key are equal where what they are of is.
    """
    if "captureData" in line:
        return _captured(line, key)
    return _logged(line, key)


def _captured(line: Document, key: bytes) -> Request | None:
    data, event = _map(line.get("captureData")), _map(line.get("eventMetadata"))
    at_s = _seconds(event.get("inferenceTime"), "eventMetadata.inferenceTime")
    if "endpointInput" not in data:
        raise ValueError("captureData has no endpointInput; capture both Input and Output")
    if not data.get("endpointOutput"):
        return None
    prompt = _json(_payload(_map(data["endpointInput"]), "endpointInput"))
    answer = _payload(_map(data["endpointOutput"]), "endpointOutput")
    return _request(at_s, prompt, list(_events(answer)), key)


def _logged(line: Document, key: bytes) -> Request | None:
    """Bedrock counts tokens itself, whether it keeps the texts or not."""
    at_s = _seconds(line.get("timestamp"), "timestamp")
    prompt, answer = _map(line.get("input")), _map(line.get("output"))
    given, made = _count(prompt, "inputTokenCount", _LOGGED_APART), _count(answer, "outputTokenCount")
    if line.get("errorCode") or not answer:
        return None
    body = answer.get("outputBodyJson")
    events = body if isinstance(body, list) else [body]
    read = _request(at_s, prompt.get("inputBodyJson"), events, key, (given, made))
    return replace(read, model=str(line.get("modelId", "")).encode(errors="replace").decode()) if read else None


def _request(
    at_s: float, prompt: object, events: list[object], key: bytes, logged: tuple[int | None, int | None] = (None, None)
) -> Request | None:
    """`logged`: tokens of prompt and answer as a log says them, beside what the answer says."""
    maps = [event for event in events if isinstance(event, dict)]
    if (not maps and None in logged) or any(map(_is_error, maps)):
        return None
    given, made = (said if of_log is None else of_log for of_log, said in zip(logged, _counted(maps), strict=True))
    sent = _map(prompt)
    reckoned_in = _tokens(sum(_characters(sent.get(name)) for name in _TEXTS))
    repeated = _characters(sent.get("inputs")) if _map(sent.get("parameters")).get("return_full_text") is True else 0
    characters = sum(map(_characters, maps)) - repeated
    reckoned_out = sum(1 for event in maps if "token" in event) or _tokens(max(0, characters))
    input_tokens, output_tokens = given or reckoned_in, made or reckoned_out
    if input_tokens < 1 or output_tokens < 1:
        if given is None and made is None and not any(name in event for event in maps for name in _CARRIERS):
            raise ValueError("neither tokens nor texts of a known payload: expected TGI, LMI, OpenAI or Converse")
        return None  # an empty prompt, an empty answer, an embedding: no sample of what an answer takes
    if max(input_tokens, output_tokens) > MOST_TOKENS:
        raise ValueError(f"a request of more than {MOST_TOKENS:,} tokens")
    beside = _Beside.of(sent, input_tokens, key)
    return Request(
        at_s,
        input_tokens,
        output_tokens,
        given is None or made is None,
        beside.turn,
        beside.new_tokens,
        beside.prefix,
        beside.prefix_tokens,
    )


def _is_error(event: Document) -> bool:
    """An `error` that says something (some write `null` beside answers), vLLM's and LMI's `message` of words alone, or
    the end of LMI's stream."""
    finished = _map(event.get("details")).get("finish_reason")
    return bool(event.get("error")) or isinstance(event.get("message"), str) or finished == "error"


@dataclass(frozen=True, slots=True)
class _Beside:
    """What a prompt shares with others, by its characters: its conversation's history, and its system prompt."""

    turn: int
    new_tokens: int
    prefix: int
    prefix_tokens: int

    @classmethod
    def of(cls, sent: Document, tokens: int, key: bytes) -> _Beside:
        messages = sent.get("messages")
        rows = [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
        begins = sent.get("system") or (rows[0] if rows and rows[0].get("role") in ("system", "developer") else None)
        whole = sum(_characters(row) for row in rows) + _characters(sent.get("system"))
        if not rows or not whole:
            return cls(0, tokens, 0, 0)
        answers = [at for at, row in enumerate(rows) if row.get("role") == "assistant"]
        since = rows[answers[-1] + 1 :] if answers else rows
        # A picture has tokens and no characters: all pictures share what the texts leave, each as much as another.
        pictures, a_character = sum(map(_pictures, rows)), tokens / whole
        of_pictures = 0.0
        if pictures:
            a_character = min(a_character, 1 / CHARACTERS_A_TOKEN)
            of_pictures = (tokens - whole * a_character) * sum(map(_pictures, since)) / pictures
        new = sum(map(_characters, since)) * a_character + of_pictures if answers else tokens
        hashed = hashlib.blake2b(_text(begins).encode(), key=key, digest_size=7).digest() if begins else b""
        return cls(
            turn=len(answers) + 1,
            new_tokens=max(1, round(new)),
            prefix=int.from_bytes(hashed, "big"),
            prefix_tokens=round(_characters(begins) * a_character) if begins else 0,
        )


def _pictures(message: Document) -> int:
    """Or sounds, films, documents: parts of a message that have no text of their own."""
    parts = message.get("content")
    return (
        sum(isinstance(part, dict) and not _MEDIA.isdisjoint(part) for part in parts) if isinstance(parts, list) else 0
    )


def _counted(events: list[Document]) -> tuple[int | None, int | None]:
    """Tokens of prompt and answer as the server says them, the last word of a stream standing."""
    given: int | None = None
    made: int | None = None
    for event in events:
        holders = event, _map(event.get("metadata")), _map(event.get("message"))  # a stream's of Converse, of Claude
        usage = next((found for one in holders if (found := _map(one.get("usage")))), {})
        details = _map(event.get("details"))
        for prompt, answer, apart in _COUNTS:
            given, made = _count(usage, prompt, apart, given), _count(usage, answer, (), made)
        prefill = details.get("prefill")
        given = len(prefill) if isinstance(prefill, list) and prefill else given
        given = _count(details, "input_length", (), given)
        made = _count(details, "generated_tokens", (), made)
    return given, made


def _count(found: Document, name: str, apart: Sequence[str] = (), otherwise: int | None = None) -> int | None:
    """Tokens under this name and those that are counted `apart`; `otherwise` where it is none."""
    if not _whole(found.get(name)):
        return otherwise
    return sum(int(str(found[one])) for one in (name, *apart) if _whole(found.get(one)))


def _payload(side: Document, name: str) -> str:
    data, encoding = side.get("data"), side.get("encoding")
    if not isinstance(data, str):
        raise ValueError(f"{name}.data is missing; expected the payload as text")
    if encoding != "BASE64":
        return data
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "replace")
    except binascii.Error:
        raise ValueError(f"{name}.data is not the BASE64 that its encoding says") from None


def _events(text: str) -> Iterator[object]:
    """A whole answer, a list of them, or the events of a stream (SSE, or an object a line)."""
    try:
        whole = read_json(text)
    except ValueError:
        for line in text.split("\n"):  # other ends of a line that Unicode knows may stand in a text
            data = line.removeprefix("data:").strip()
            if data.startswith("{"):
                yield _json(data)
    else:
        yield from whole if isinstance(whole, list) else [whole]


def _json(text: str) -> object:
    try:
        found: object = read_json(text)
    except ValueError:
        raise ValueError("a payload is not JSON (cut off, or of another kind)") from None
    return found


def read_json(text: str | bytes) -> Json:
    r"""As orjson has it; half of a character (`\ud83d`, where a client cut one in two) as the standard library does.

    Raises ValueError.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        whole = text.decode() if isinstance(text, bytes) else text
        if not _HALF.search(whole):
            raise
        with suppress(RecursionError):
            return json.loads(whole)
        raise


def _text(value: object) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # half of a character
        return json.dumps(value)


def _characters(value: object) -> int:
    """Of all texts in what a payload carries, calls of tools and reasoning too; names of roles and types are none."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):  # a whole number is a token's id
        return sum(CHARACTERS_A_TOKEN if isinstance(one, int) else _characters(one) for one in value)
    if not isinstance(value, dict):
        return 0
    reasoning = value.get("reasoning_content") or value.get("reasoning")  # vLLM writes it under both
    return sum(_characters(value.get(name)) for name in _CARRIERS) + _characters(reasoning) + _called(value)


def _called(value: Document) -> int:
    """Of a tool's call: its name and what it is called with, as text (OpenAI, `arguments`) or an object (`input`)."""
    if "arguments" not in value and "input" not in value:
        return 0
    given = value.get("arguments") or value.get("input") or ""
    text = given if isinstance(given, str) else _text(given)
    return _characters(value.get("name")) + len(text)


def _tokens(characters: int) -> int:
    return max(1, round(characters / CHARACTERS_A_TOKEN)) if characters else 0


def _seconds(found: object, name: str) -> float:
    try:
        read = datetime.fromisoformat(str(found))
    except ValueError:
        raise ValueError(f"{name}: expected a date such as 2026-01-05T08:00:00Z") from None
    if not _FIRST_YEAR <= read.year < _FIRST_YEAR + 100:
        raise ValueError(f"{name}: found a date of the year {read.year}; expected one of this century")
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _map(value: object) -> Document:
    return value if isinstance(value, dict) else {}
