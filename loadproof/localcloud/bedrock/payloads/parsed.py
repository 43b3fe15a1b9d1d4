"""What every request comes down to: how much is read, how much is written and why it ends there.

The twin writes as many tokens as it may. A prompt that asks for "in N words" is answered with N tokens, and one
without a limit with 256: both end by themselves (`end_turn`), so that what a client reserved is more than it used.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from loadproof.catalog.bedrock import BedrockModel
from loadproof.localcloud.bedrock.errors import BedrockError, invalid
from loadproof.localcloud.model_server import tokens

StopReason = Literal["end_turn", "max_tokens", "stop_sequence"]

# The twin reads no pictures: each image, document, video or sound counts this much.
ATTACHMENT_TOKENS: Final = 1000
UNLIMITED_ANSWER_TOKENS: Final = 256
_OWN_LENGTH = re.compile(r"\bin (\d{1,5}) words\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """One generation. `reserved_tokens` is what quotas hold for the answer; `text` what the caller gets to see."""

    input_tokens: int
    reserved_tokens: int
    output_tokens: int
    stop_reason: StopReason
    stop_sequence: str | None
    seed: int
    text: str

    def pieces(self) -> Iterator[str]:
        """The text token by token; nothing of a stop sequence is shown."""
        left = len(self.text)
        for index in range(self.output_tokens):
            piece = tokens.token_text(self.seed, index)[:left]
            left -= len(piece)
            yield piece


@dataclass(frozen=True, slots=True)
class Timing:
    """Of one answer, in ms since the request came in; the first token's is the last one's where nothing streams."""

    first_token_ms: float
    last_token_ms: float


class Writer(Protocol):
    """Writes one answer in one format."""

    def opening(self) -> bytes:
        """Frames that come with the first token, before it; may be empty."""
        ...

    def token(self, text: str, index: int) -> bytes: ...

    def closing(self, timing: Timing) -> bytes: ...

    def unary(self, timing: Timing) -> bytes:
        """The whole answer as one JSON document."""
        ...


def parsed_request(
    model: BedrockModel,
    prompt: str,
    *,
    attachments: int = 0,
    max_tokens: int | None,
    stop_sequences: Sequence[str] = (),
) -> ParsedRequest:
    """Raises BedrockError where the model's limits do not allow it."""
    if max_tokens is not None and max_tokens > model.max_output_tokens:
        most = model.max_output_tokens
        raise invalid(
            f"The maximum tokens you requested exceeds the model limit of {most}. Try again with a maximum tokens "
            f"value that is lower than {most}."
        )
    input_tokens = tokens.count_tokens(prompt) + attachments * ATTACHMENT_TOKENS
    room = model.context_tokens - input_tokens
    if room < (max_tokens or 1):
        raise invalid("Input is too long for requested model.")
    limit = max_tokens or min(model.max_output_tokens, room)
    output_tokens, reason = _length(prompt, limit, limited=max_tokens is not None)
    seed = zlib.crc32(prompt.encode())
    return _stopped(input_tokens, limit, output_tokens, reason, seed, stop_sequences)


def _length(prompt: str, limit: int, *, limited: bool) -> tuple[int, StopReason]:
    asked = [int(number) for number in _OWN_LENGTH.findall(prompt)]
    own = max(1, asked[-1]) if asked else None
    if own is None:
        return (limit, "max_tokens") if limited else (min(limit, UNLIMITED_ANSWER_TOKENS), "end_turn")
    return (own, "end_turn") if own <= limit else (limit, "max_tokens")


def _stopped(
    input_tokens: int, limit: int, output_tokens: int, reason: StopReason, seed: int, stop_sequences: Sequence[str]
) -> ParsedRequest:
    """The answer, cut before the first stop sequence that would occur in it."""
    text = tokens.answer_text(seed, output_tokens)
    places = [(text.find(one), one) for one in stop_sequences if one and one in text]
    if not places:
        return ParsedRequest(input_tokens, limit, output_tokens, reason, None, seed, text)
    place, found = min(places)
    needed = place + len(found)
    written = length = 0
    while length < needed:
        length += len(tokens.token_text(seed, written))
        written += 1
    return ParsedRequest(input_tokens, limit, written, "stop_sequence", found, seed, text[:place])


def malformed(reason: str) -> BedrockError:
    """A body that InvokeModel cannot read."""
    return invalid(f"Malformed input request: {reason}, please reformat your input and try again.")
