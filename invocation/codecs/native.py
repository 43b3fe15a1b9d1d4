"""Models' own payloads behind Bedrock's InvokeModel: Meta's Llama and Anthropic's Claude, one JSON event a line.

Sources: "Meta Llama models" and "Anthropic Claude Messages API", Amazon Bedrock user guide. OpenAI's models take what
`OpenAiCodec` writes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from invocation.codecs.types import Completion, GenerationRequest, TokenChunk
from invocation.codecs.values import (
    count_of,
    data_image,
    dump,
    list_of,
    load_at_end,
    load_object,
    object_of,
    refuse_error,
    refuse_images,
    text_of,
)
from invocation.faults import TruncatedStreamError
from invocation.sse import JsonLines

_CLAUDE_VERSION = "bedrock-2023-05-31"  # the one value that Bedrock takes


class _LineDecoder(ABC):
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
        known = self._output_tokens is not None
        return Completion(
            text_length=self._text_length,
            finish_reason=self._finish_reason,
            output_tokens=self._output_tokens if known else self._counted or None,
            input_tokens=self._input_tokens,
            token_source="server" if known else "chunks" if self._counted else "none",
        )

    @abstractmethod
    def _take(self, event: dict[str, Any]) -> tuple[str, str]:
        """What an event says and what it thinks, if anything."""


class LlamaDecoder(_LineDecoder):
    """`{generation, prompt_token_count, generation_token_count, stop_reason}`; the last has a `stop_reason`."""

    end_marker = "a stop_reason"

    def _take(self, event: dict[str, Any]) -> tuple[str, str]:
        refuse_error(event)
        output_tokens = count_of(event.get("generation_token_count"))
        input_tokens = count_of(event.get("prompt_token_count"))
        self._output_tokens = self._output_tokens if output_tokens is None else output_tokens
        self._input_tokens = self._input_tokens if input_tokens is None else input_tokens
        self._finish_reason = text_of(event.get("stop_reason")) or self._finish_reason
        self._ended = bool(self._finish_reason)
        return text_of(event.get("generation")), ""


class LlamaCodec:
    """Prompts of Meta's Llama models. The prompt goes out as it is: the chat template is the caller's."""

    content_type = "application/json"

    def accept(self, stream: bool) -> str:
        return "application/json"

    def encode(self, request: GenerationRequest) -> bytes:
        refuse_images(request.images)
        payload: dict[str, Any] = {"prompt": request.prompt, "max_gen_len": request.max_output_tokens}
        if request.temperature is not None:
            payload["temperature"] = request.temperature
        return dump(payload)

    def stream_decoder(self) -> LlamaDecoder:
        return LlamaDecoder()

    def decode_unary(self, body: bytes) -> Completion:
        answer, finish_reason = _whole(body)
        return Completion.whole(
            text_of(answer.get("generation")),
            finish_reason,
            output_tokens=count_of(answer.get("generation_token_count")),
            input_tokens=count_of(answer.get("prompt_token_count")),
        )


class ClaudeDecoder(_LineDecoder):
    """Events of the Messages API, from `message_start` to `message_stop`."""

    end_marker = "message_stop"

    def _take(self, event: dict[str, Any]) -> tuple[str, str]:
        refuse_error(event)
        match event.get("type"):
            case "message_start":
                self._input_tokens = _prompt_tokens(object_of(object_of(event.get("message")).get("usage") or {}))
            case "content_block_start":
                return _texts_of_block(object_of(event.get("content_block")))
            case "content_block_delta":
                return _texts_of_block(object_of(event.get("delta")))
            case "message_delta":
                self._finish_reason = text_of(object_of(event.get("delta") or {}).get("stop_reason"))
                self._output_tokens = count_of(object_of(event.get("usage") or {}).get("output_tokens"))
            case "message_stop":
                self._ended = bool(self._finish_reason)
        return "", ""


class ClaudeCodec:
    """Messages of Anthropic's models."""

    content_type = "application/json"

    def accept(self, stream: bool) -> str:
        return "application/json"

    def encode(self, request: GenerationRequest) -> bytes:
        content: list[dict[str, Any]] = [{"type": "text", "text": request.prompt}]
        for kind, data in map(data_image, request.images):
            source = {"type": "base64", "media_type": f"image/{kind}", "data": data}
            content.append({"type": "image", "source": source})
        history: list[dict[str, Any]] = [{"role": role, "content": text} for role, text in request.history]
        payload: dict[str, Any] = {
            "anthropic_version": _CLAUDE_VERSION,
            "max_tokens": request.max_output_tokens,
            "messages": [*history, {"role": "user", "content": content}],
        }
        if request.temperature is not None:
            payload["temperature"] = request.temperature
        return dump(payload)

    def stream_decoder(self) -> ClaudeDecoder:
        return ClaudeDecoder()

    def decode_unary(self, body: bytes) -> Completion:
        answer, finish_reason = _whole(body)
        usage = object_of(answer.get("usage") or {})
        blocks = [_texts_of_block(object_of(block)) for block in list_of(answer.get("content"))]
        return Completion.whole(
            "".join(text for text, _ in blocks),
            finish_reason,
            thought="".join(thought for _, thought in blocks),
            output_tokens=count_of(usage.get("output_tokens")),
            input_tokens=_prompt_tokens(usage),
        )


def _whole(body: bytes) -> tuple[dict[str, Any], str]:
    """A whole answer and why it ended. Raises InBandError, PayloadError, TruncatedStreamError."""
    answer = load_object(body)
    refuse_error(answer)
    finish_reason = text_of(answer.get("stop_reason"))
    if not finish_reason:
        raise TruncatedStreamError("the answer has no stop_reason")
    return answer, finish_reason


def _texts_of_block(block: dict[str, Any]) -> tuple[str, str]:
    """Text or a tool's call, and thinking: whole, or a delta of one."""
    text = "".join(text_of(block.get(name)) for name in ("text", "name", "partial_json"))
    return text + (dump(object_of(block["input"])).decode() if block.get("input") else ""), text_of(
        block.get("thinking")
    )


def _prompt_tokens(usage: dict[str, Any]) -> int | None:
    """`input_tokens` leaves out what the prompt cache had or took: the prompt is all three."""
    new = count_of(usage.get("input_tokens"))
    cached = (count_of(usage.get(f"cache_{way}_input_tokens")) or 0 for way in ("read", "creation"))
    return None if new is None else new + sum(cached)
