"""What every payload comes down to: an `Ask` the engine can run, a `Writer` for its answer, or a `RefusalError`."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Protocol

import orjson

from loadproof.wire.documents import Document


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one container admits. `max_input_tokens` is None where the server bounds only the sum."""

    max_total_tokens: int
    max_input_tokens: int | None
    max_admitted_requests: int
    max_body_bytes: int | None


@dataclass(frozen=True, slots=True)
class Ask:
    """One generation. The twin always produces exactly `output_tokens` tokens: it has no end-of-sequence of its own."""

    input_tokens: int
    output_tokens: int
    stream: bool
    prompt: str
    seed: int


class RefusalError(Exception):
    """The server will not generate. `in_band`: it says so inside a 200 event stream, as TGI does when streaming."""

    def __init__(
        self, status: int, body: bytes, *, content_type: str = "application/json", in_band: bool = False
    ) -> None:
        super().__init__(body.decode(errors="replace"))
        self.status = 200 if in_band else status
        self.body = body
        self.content_type = content_type


class Writer(Protocol):
    """Writes one answer in one payload format."""

    ask: Ask
    stream_content_type: str

    def opening(self) -> bytes:
        """What is sent with the first token's arrival, before it; may be empty."""
        ...

    def token(self, index: int) -> bytes:
        """The event of token `index`, 0-based; the last one carries what the server puts on its last event."""
        ...

    def closing(self) -> bytes:
        """What follows the last token at once; may be empty."""
        ...

    def unary(self) -> bytes:
        """The whole answer as one JSON document."""
        ...


class Dialect(Protocol):
    """How one server family reads requests and words its refusals."""

    def read(self, body: bytes) -> tuple[Ask, Writer]:
        """Raises RefusalError."""
        ...

    def overloaded(self, *, stream: bool) -> RefusalError:
        """More requests than the server admits."""
        ...


class FieldError(Exception):
    """A request field has the wrong type or value; the text says which."""


def json_object(body: bytes) -> Document:
    """The request body as a JSON object. Raises FieldError."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise FieldError(f"request body is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise FieldError(f"request body must be a JSON object, found {type(document).__name__}")
    return document


def text_field(fields: Document, name: str) -> str:
    """A required string. Raises FieldError."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise FieldError(f"`{name}` must be a string, found {type(value).__name__}")
    return value


def count_field(fields: Document, name: str, default: int) -> int:
    """An optional positive integer; null counts as absent. Raises FieldError."""
    value = fields.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise FieldError(f"`{name}` must be strictly positive, found {value!r}")
    return value


def map_field(fields: Document, name: str) -> Document:
    """An optional object; null counts as absent. Raises FieldError."""
    value = fields.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FieldError(f"`{name}` must be an object, found {type(value).__name__}")
    return value


def seed_of(fields: Document, prompt: str) -> int:
    """The request's own seed, else one from its prompt: the same prompt gets the same text again."""
    seed = fields.get("seed")
    return seed if isinstance(seed, int) and not isinstance(seed, bool) else zlib.crc32(prompt.encode())
