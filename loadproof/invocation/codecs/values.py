"""Reading untrusted JSON without surprises: every wrong type is a PayloadError.

Messages say what was found by type, size and place, never by content, which may be a user's text; but where a server
speaks plain words in place of JSON, those are the message.
"""

from __future__ import annotations

import re

import orjson

from loadproof.errors import InputError
from loadproof.invocation.budgets import parsed_json
from loadproof.invocation.faults import InBandError, PayloadError, TruncatedStreamError
from loadproof.wire.payloads import FAILED_REASONS, error_of

_QUOTED_BYTES = 300
_MOST_TOKENS = 2**31  # no answer and no prompt has so many
_IMAGE = re.compile(r"data:image/(png|jpe?g|gif|webp);base64,([A-Za-z0-9+/]+=*)")


def dump(payload: dict[str, object]) -> bytes:
    try:
        return orjson.dumps(payload)
    except (TypeError, ValueError) as error:  # lone surrogates: no UTF-8 can carry them
        raise InputError(f"the prompt cannot be written as JSON: {error}; remove invalid characters") from error


def data_image(uri: str) -> tuple[str, str]:
    """Format (`png`, `jpeg`, `gif`, `webp`) and base64 of a `data:` URI. Raises InputError for any other image."""
    found = _IMAGE.fullmatch(uri)
    if found is None:
        raise InputError("images for Bedrock are `data:image/png;base64,…` (png, jpeg, gif or webp): it fetches no URL")
    return found[1].replace("jpg", "jpeg"), found[2]


def refuse_images(images: tuple[str, ...]) -> None:
    """Raises InputError where a payload has no place for a picture: leaving it out would measure something else."""
    if images:
        raise InputError("images need chat messages: use protocol converse, or an OpenAI server's /v1/chat/completions")


def load_object(data: bytes) -> dict[str, object]:
    try:
        value = parsed_json(data)
    except orjson.JSONDecodeError as error:
        if data[:1] not in b'{["':  # words, where an event was due: what the server has to say
            raise PayloadError(f"not JSON but `{data[:_QUOTED_BYTES].decode('utf-8', 'replace')}`") from error
        raise PayloadError(f"{len(data)} bytes that are not JSON: {error}") from error
    if not isinstance(value, dict):
        raise PayloadError(f"expected a JSON object, found {type(value).__name__}")
    return value


def load_at_end(data: bytes) -> dict[str, object]:
    """The last, unterminated line of a stream: if it is not whole, the stream was cut."""
    try:
        return load_object(data)
    except PayloadError as error:
        raise TruncatedStreamError(f"the stream ended inside an event ({len(data)} bytes of it arrived)") from error


def text_of(value: object) -> str:
    """Text that may be absent. A lone surrogate cannot arrive: orjson refuses it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise PayloadError(f"expected text, found {type(value).__name__}")


def object_of(value: object) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    raise PayloadError(f"expected a JSON object, found {type(value).__name__}")


def list_of(value: object) -> list[object]:
    """A list that may be absent."""
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise PayloadError(f"expected a JSON array, found {type(value).__name__}")


def count_of(value: object) -> int | None:
    """A token count, or None where the server gives none."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS:
        return value
    raise PayloadError(f"expected a token count, found {type(value).__name__} or a number that is none")


def refuse_error(event: dict[str, object]) -> None:
    """Raise InBandError if the event is an error object of TGI, LMI, OpenAI or vLLM."""
    if (error := error_of(event)) is not None:
        codes, message = error
        raise InBandError(codes[0] if codes else "error", message)


def refuse_failed(finish_reason: str) -> None:
    if finish_reason in FAILED_REASONS:
        raise InBandError(finish_reason, f"the server ended the generation with finish reason `{finish_reason}`")
