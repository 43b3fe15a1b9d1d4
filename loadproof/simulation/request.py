"""A request inside a scheduler."""

from __future__ import annotations

from typing import Any, Final

NOT_DECODING: Final = -1


class Request:
    """Its identity is the object's own; times are in ms on the caller's clock.

    While it decodes, `ends_at` is the decode round that brings its last token and `generated` is as of its prefill.
    """

    __slots__ = (
        "blocks",
        "cached",
        "ends_at",
        "first_ms",
        "generated",
        "input_tokens",
        "kept",
        "name",
        "output_tokens",
        "put_back",
        "sent_ms",
        "turn",
    )

    def __init__(self, name: str, input_tokens: int, output_tokens: int, sent_ms: float) -> None:
        self.name = name
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.sent_ms = sent_ms
        self.first_ms = 0.0
        self.generated = 0
        self.kept = 0  # prompt tokens that are cached wherever it goes (chunked only)
        self.cached = 0  # prompt tokens whose KV is computed (chunked only)
        self.put_back = False  # out of a batch whose memory was full (chunked only)
        self.ends_at = NOT_DECODING
        self.turn: Any = None  # the fleet's own note: the session and its step
        self.blocks: Any = ()  # ids of the prompt's blocks and its answer's, for caches of prompts
