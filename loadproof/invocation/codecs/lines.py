"""Models' own payloads behind Bedrock's InvokeModel, one JSON event a line: what their modules share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from loadproof.invocation.codecs.types import Completion, StreamDecoder, TokenChunk
from loadproof.invocation.codecs.values import load_at_end, load_object, refuse_error, text_of
from loadproof.invocation.faults import TruncatedStreamError
from loadproof.invocation.sse import JsonLines


class LineDecoder(StreamDecoder, ABC):
    """What both decoders share: lines in, chunks out, counts that run, and an end that must have been said."""

    end_marker: str

    def __init__(self) -> None:
        self._lines = JsonLines()
        self._counted = 0
        self._text_length = 0
        self._finish_reason = ""
        self._output_tokens: int | None = None
        self._input_tokens: int | None = None
        self._ended = False

    def feed(self, data: bytes) -> Iterator[TokenChunk]:
        for line in self._lines.feed(data):
            before = self._output_tokens or 0
            said, thought = self._take(load_object(line))
            if text := said + thought:
                tokens = max(1, (self._output_tokens or 0) - before)
                self._counted += tokens
                self._text_length += len(text)
                yield TokenChunk(text, tokens, thought)

    def finish(self) -> Completion:
        for line in self._lines.flush():
            self._take(load_at_end(line))
        if not self._ended:
            raise TruncatedStreamError(f"the stream ended after {self._counted} tokens without {self.end_marker}")
        counts = self._counted, self._output_tokens, self._input_tokens
        return Completion.streamed(self._text_length, self._finish_reason, *counts)

    @abstractmethod
    def _take(self, event: dict[str, object]) -> tuple[str, str]:
        """What an event says and what it thinks, if anything."""


def whole_answer(body: bytes) -> tuple[dict[str, object], str]:
    """A whole answer and why it ended. Raises InBandError, PayloadError, TruncatedStreamError."""
    answer = load_object(body)
    refuse_error(answer)
    finish_reason = text_of(answer.get("stop_reason"))
    if not finish_reason:
        raise TruncatedStreamError("the answer has no stop_reason")
    return answer, finish_reason
