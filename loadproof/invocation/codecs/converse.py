"""Bedrock's Converse and ConverseStream: one shape for every model's messages.

Source: the service model `bedrock-runtime` of botocore, whose parser is the oracle in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from loadproof.errors import InputError
from loadproof.invocation.codecs.types import (
    Completion,
    GenerationRequest,
    JsonCodec,
    PayloadProtocol,
    StreamDecoder,
    TokenChunk,
)
from loadproof.invocation.codecs.values import count_of, data_image, dump, list_of, load_object, object_of, text_of
from loadproof.invocation.eventstream import FrameDecoder, refuse
from loadproof.invocation.faults import InBandError, PayloadError, TruncatedStreamError
from loadproof.wire.converse import FAILED_REASONS, prompt_tokens

SERVICE_TIERS = ("default", "priority", "flex", "reserved")
_EVENTS = frozenset({"contentBlockStart", "contentBlockDelta", "messageStop", "metadata"})


class ConverseCodec(JsonCodec):
    """Requests for Converse and ConverseStream. Neither has a seed or a way to go on past the model's own end."""

    def __init__(self, *, service_tier: str | None = None) -> None:
        """`service_tier` None leaves the field out, which AWS reads as default. Raises InputError."""
        check_service_tier(service_tier)
        self._service_tier = service_tier

    def accept(self, stream: bool) -> str:
        return "application/vnd.amazon.eventstream" if stream else "application/json"

    def encode(self, request: GenerationRequest) -> bytes:
        content: list[dict[str, object]] = [{"text": request.prompt}, *map(_image_block, request.images)]
        # Converse has a place of its own for what OpenAI's messages call the system's.
        system = [{"text": text} for role, text in request.history if role == "system"]
        history = [{"role": role, "content": [{"text": text}]} for role, text in request.history if role != "system"]
        inference: dict[str, object] = {"maxTokens": request.max_output_tokens}
        if request.temperature is not None:
            inference["temperature"] = request.temperature
        payload: dict[str, object] = {
            "messages": [*history, {"role": "user", "content": content}],
            "inferenceConfig": inference,
        }
        if system:
            payload["system"] = system
        if self._service_tier is not None:
            payload["serviceTier"] = {"type": self._service_tier}
        return dump(payload)

    def stream_decoder(self) -> ConverseDecoder:
        return ConverseDecoder()

    def decode_unary(self, body: bytes) -> Completion:
        answer = load_object(body)
        message = object_of(object_of(answer.get("output")).get("message"))
        blocks = [_texts_of_block(object_of(block)) for block in list_of(message.get("content"))]
        text, thought = "".join(said for said, _ in blocks), "".join(thought for _, thought in blocks)
        stop_reason = text_of(answer.get("stopReason"))
        if not stop_reason:
            raise TruncatedStreamError("the answer has no stopReason")
        completion = _completion(len(text) + len(thought), stop_reason, object_of(answer.get("usage")))
        return replace(completion, text=text, thought=thought)


class ConverseDecoder(StreamDecoder):
    """Decoder of ConverseStream's frames: each holds one JSON event, named by the header `:event-type`.

    The end marker is `messageStop` with a `stopReason`, and `metadata` with the token counts after it. A block's delta
    may carry several tokens and is counted as one; the metadata gives the true total.
    """

    __slots__ = ("_counted", "_frames", "_stop_reason", "_text_length", "_usage")

    def __init__(self) -> None:
        self._frames = FrameDecoder()
        self._counted = 0
        self._text_length = 0
        self._stop_reason = ""
        self._usage: dict[str, object] | None = None

    def feed(self, data: bytes) -> Iterator[TokenChunk]:
        for frame in self._frames.feed(data):
            name = frame.headers.get(":event-type")
            if frame.headers.get(":message-type") != "event" or not isinstance(name, str):
                refuse(frame)
            elif name in _EVENTS:
                said, thought = self._take(name, load_object(frame.payload))
                if text := said + thought:
                    self._counted += 1
                    self._text_length += len(text)
                    yield TokenChunk(text, 1, thought)

    def finish(self) -> Completion:
        self._frames.finish()
        if not self._stop_reason:
            raise TruncatedStreamError(f"the stream ended after {self._counted} tokens without messageStop")
        if self._usage is None:
            raise TruncatedStreamError(f"the stream ended after {self._counted} tokens without metadata")
        return _completion(self._text_length, self._stop_reason, self._usage)

    def _take(self, name: str, event: dict[str, object]) -> tuple[str, str]:
        """What an event says and what it thinks, if anything."""
        if name == "contentBlockDelta":
            return _texts_of_block(object_of(event.get("delta")))
        if name == "contentBlockStart":
            return text_of(object_of(object_of(event.get("start")).get("toolUse") or {}).get("name")), ""
        if name == "messageStop":
            self._stop_reason = text_of(event.get("stopReason"))
        else:
            self._usage = object_of(event.get("usage"))
        return "", ""


def check_service_tier(tier: str | None) -> None:
    """Raises InputError for a tier that Bedrock does not have."""
    if tier is not None and tier not in SERVICE_TIERS:
        raise InputError(f"service tier `{tier}`: expected {', '.join(SERVICE_TIERS)}")


def _texts_of_block(block: dict[str, object]) -> tuple[str, str]:
    """A block's text and reasoning, whole or a delta; of a tool's call its name and its input as it is written."""
    text, thought = text_of(block.get("text")), ""
    if (reasoning := block.get("reasoningContent")) is not None:
        fields = object_of(reasoning)
        thought = text_of(fields.get("text")) + text_of(object_of(fields.get("reasoningText") or {}).get("text"))
    if (call := block.get("toolUse")) is not None:
        fields = object_of(call)
        written = fields.get("input")
        text += text_of(fields.get("name"))
        text += written if isinstance(written, str) else dump(object_of(written or {})).decode()
    return text, thought


def _completion(text_length: int, stop_reason: str, usage: dict[str, object]) -> Completion:
    if stop_reason in FAILED_REASONS:
        raise InBandError(stop_reason, f"the model ended the generation with stop reason `{stop_reason}`")
    output_tokens = count_of(usage.get("outputTokens"))
    if output_tokens is None:
        raise PayloadError("no `outputTokens` in the answer's usage")
    read, written = count_of(usage.get("cacheReadInputTokens")), count_of(usage.get("cacheWriteInputTokens"))
    new = count_of(usage.get("inputTokens"))
    return Completion(
        text_length=text_length,
        finish_reason=stop_reason,
        output_tokens=output_tokens,
        input_tokens=None if new is None else prompt_tokens(new, read, written),
        token_source="server",
    )


def _image_block(uri: str) -> dict[str, object]:
    kind, data = data_image(uri)
    return {"image": {"format": kind, "source": {"bytes": data}}}


PROTOCOL: Final = PayloadProtocol(
    lambda model, service_tier: ConverseCodec(service_tier=service_tier), path=None, bedrock_models=None
)
