"""Anthropic's Claude behind Bedrock's InvokeModel. Source: "Anthropic Claude Messages API", Bedrock user guide."""

from __future__ import annotations

from typing import Final

from loadproof.invocation.codecs.lines import LineDecoder, whole_answer
from loadproof.invocation.codecs.types import Completion, GenerationRequest, JsonCodec, PayloadProtocol
from loadproof.invocation.codecs.values import count_of, data_image, dump, list_of, object_of, refuse_error, text_of

_VERSION = "bedrock-2023-05-31"  # the one value that Bedrock takes


class ClaudeDecoder(LineDecoder):
    """Events of the Messages API, from `message_start` to `message_stop`."""

    end_marker = "message_stop"

    def _take(self, event: dict[str, object]) -> tuple[str, str]:
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


class ClaudeCodec(JsonCodec):
    """Messages of Anthropic's models."""

    def encode(self, request: GenerationRequest) -> bytes:
        content: list[dict[str, object]] = [{"type": "text", "text": request.prompt}]
        for kind, data in map(data_image, request.images):
            source = {"type": "base64", "media_type": f"image/{kind}", "data": data}
            content.append({"type": "image", "source": source})
        history: list[dict[str, object]] = [{"role": role, "content": text} for role, text in request.history]
        payload: dict[str, object] = {
            "anthropic_version": _VERSION,
            "max_tokens": request.max_output_tokens,
            "messages": [*history, {"role": "user", "content": content}],
        }
        if request.temperature is not None:
            payload["temperature"] = request.temperature
        return dump(payload)

    def stream_decoder(self) -> ClaudeDecoder:
        return ClaudeDecoder()

    def decode_unary(self, body: bytes) -> Completion:
        answer, finish_reason = whole_answer(body)
        usage = object_of(answer.get("usage") or {})
        blocks = [_texts_of_block(object_of(block)) for block in list_of(answer.get("content"))]
        return Completion.whole(
            "".join(text for text, _ in blocks),
            finish_reason,
            thought="".join(thought for _, thought in blocks),
            output_tokens=count_of(usage.get("output_tokens")),
            input_tokens=_prompt_tokens(usage),
        )


def _texts_of_block(block: dict[str, object]) -> tuple[str, str]:
    """Text or a tool's call, and thinking: whole, or a delta of one."""
    text = "".join(text_of(block.get(name)) for name in ("text", "name", "partial_json"))
    return text + (dump(object_of(block["input"])).decode() if block.get("input") else ""), text_of(
        block.get("thinking")
    )


def _prompt_tokens(usage: dict[str, object]) -> int | None:
    """`input_tokens` leaves out what the prompt cache had or took: the prompt is all three."""
    new = count_of(usage.get("input_tokens"))
    cached = (count_of(usage.get(f"cache_{way}_input_tokens")) or 0 for way in ("read", "creation"))
    return None if new is None else new + sum(cached)


PROTOCOL: Final = PayloadProtocol(lambda model, service_tier: ClaudeCodec(), path=None, bedrock_models="anthropic.")
