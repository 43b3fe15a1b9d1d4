"""InvokeModel's bodies: each provider's own request and answer, and the chunks that a stream of it is made of."""

from __future__ import annotations

import base64
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial

import orjson

from loadproof.catalog.bedrock import BedrockModel
from loadproof.localcloud.bedrock.payloads.attachments import unsupported
from loadproof.localcloud.bedrock.payloads.bodies import check_anthropic, check_meta, check_mistral, check_nova
from loadproof.localcloud.bedrock.payloads.converse import ConverseWriter, event_frame
from loadproof.localcloud.bedrock.payloads.images import check_claude_image, check_image
from loadproof.localcloud.bedrock.payloads.parsed import ParsedRequest, Timing, Writer, malformed, parsed_request
from loadproof.wire.documents import Document

_CHECKS = {"meta": check_meta, "mistral": check_mistral, "nova": check_nova}
_DEFAULT_TOKENS = {"meta": 512, "mistral": 512}


def read(model: BedrockModel, body: bytes) -> tuple[ParsedRequest, Writer]:
    """Raises BedrockError for a body that the model's provider does not take."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise malformed(f"not valid JSON ({error})") from None
    if not isinstance(fields, dict):
        raise malformed("expected type: JSONObject")
    if model.payload in _CHECKS:
        _CHECKS[model.payload](fields)
    elif model.payload == "anthropic":
        check_anthropic(fields, model.model_id)
    if model.payload in ("meta", "mistral"):
        name = "max_gen_len" if model.payload == "meta" else "max_tokens"
        prompt = _text(fields.get("prompt"), "prompt")
        most = _count(fields, name) or min(_DEFAULT_TOKENS[model.payload], model.max_output_tokens)
        parsed = parsed_request(model, prompt, max_tokens=most, stop_sequences=fields.get("stop") or ())
        return parsed, MetaWriter(parsed) if model.payload == "meta" else MistralWriter(parsed)
    prompt, attachments = _conversation(fields)
    _check_images(model, fields["messages"])
    writer: Callable[[ParsedRequest], Writer]
    if model.payload == "nova":
        config = fields.get("inferenceConfig") or {}
        limit = _count(config, "maxTokens") or _count(config, "max_new_tokens")
        stops, writer = config.get("stopSequences") or (), NovaWriter
    elif model.payload == "anthropic":
        if "max_tokens" not in fields:
            raise malformed("#: required key [max_tokens] not found")
        limit, stops = _count(fields, "max_tokens"), fields.get("stop_sequences") or ()
        writer = partial(AnthropicWriter, model_id=model.model_id)
    else:
        limit, stop = _count(fields, "max_completion_tokens") or _count(fields, "max_tokens"), fields.get("stop") or ()
        stops, writer = (stop,) if isinstance(stop, str) else stop, partial(OpenAiWriter, model_id=model.model_id)
    if attachments and not model.image_input:
        raise unsupported("image")
    parsed = parsed_request(model, prompt, attachments=attachments, max_tokens=limit, stop_sequences=stops)
    return parsed, writer(parsed)


class _Chunks(ABC):
    """A stream is JSON documents in `chunk` events; the last one carries Bedrock's own metrics."""

    def __init__(self, parsed: ParsedRequest) -> None:
        self.parsed = parsed

    def opening(self) -> bytes:
        return b"".join(map(_chunk, self.heads()))

    def token(self, text: str, index: int) -> bytes:
        return _chunk(self.piece(text, index)) if text else b""

    def closing(self, timing: Timing) -> bytes:
        *before, last = self.tails()
        metrics = {
            "inputTokenCount": self.parsed.input_tokens,
            "outputTokenCount": self.parsed.output_tokens,
            "invocationLatency": round(timing.last_token_ms),
            "firstByteLatency": round(timing.first_token_ms),
        }
        return b"".join(map(_chunk, (*before, {**last, "amazon-bedrock-invocationMetrics": metrics})))

    def unary(self, timing: Timing) -> bytes:
        return orjson.dumps(self.whole())

    def heads(self) -> Iterable[Document]:
        return ()

    @abstractmethod
    def piece(self, text: str, index: int) -> Document:
        """Of one token's text; `index` counts from 0."""

    @abstractmethod
    def tails(self) -> Iterable[Document]:
        """What follows the last token; at least one."""

    @abstractmethod
    def whole(self) -> Document:
        """The answer to who asked for no stream."""


class MetaWriter(_Chunks):
    def piece(self, text: str, index: int) -> Document:
        counted = self.parsed.input_tokens if index == 0 else None
        return self._document(text, counted, index + 1, None)

    def tails(self) -> Iterable[Document]:
        return (self._document("", None, self.parsed.output_tokens, _finish(self.parsed)),)

    def whole(self) -> Document:
        return self._document(
            self.parsed.text, self.parsed.input_tokens, self.parsed.output_tokens, _finish(self.parsed)
        )

    def _document(self, text: str, read: int | None, written: int, reason: str | None) -> Document:
        return {
            "generation": text,
            "prompt_token_count": read,
            "generation_token_count": written,
            "stop_reason": reason,
        }


class MistralWriter(_Chunks):
    def piece(self, text: str, index: int) -> Document:
        return {"outputs": [{"text": text, "stop_reason": None}]}

    def tails(self) -> Iterable[Document]:
        return ({"outputs": [{"text": "", "stop_reason": _finish(self.parsed)}]},)

    def whole(self) -> Document:
        return {"outputs": [{"text": self.parsed.text, "stop_reason": _finish(self.parsed)}]}


class NovaWriter(_Chunks):
    def heads(self) -> Iterable[Document]:
        return ({"messageStart": {"role": "assistant"}},)

    def piece(self, text: str, index: int) -> Document:
        return {"contentBlockDelta": {"delta": {"text": text}, "contentBlockIndex": 0}}

    def tails(self) -> Iterable[Document]:
        usage = ConverseWriter(self.parsed, None).usage()
        return (
            {"contentBlockStop": {"contentBlockIndex": 0}},
            {"messageStop": {"stopReason": self.parsed.stop_reason}},
            {"metadata": {"usage": usage, "metrics": {}, "trace": {}}},
        )

    def whole(self) -> Document:
        message = {"role": "assistant", "content": [{"text": self.parsed.text}]}
        usage = ConverseWriter(self.parsed, None).usage()
        return {"output": {"message": message}, "stopReason": self.parsed.stop_reason, "usage": usage}


class AnthropicWriter(_Chunks):
    def __init__(self, parsed: ParsedRequest, model_id: str) -> None:
        super().__init__(parsed)
        self._message: Document = {
            "id": f"msg_bdrk_{uuid.uuid4().hex[:24]}",
            "type": "message",
            "role": "assistant",
            "model": model_id.partition(".")[2],
        }

    def heads(self) -> Iterable[Document]:
        usage = {"input_tokens": self.parsed.input_tokens, "output_tokens": 1}
        message = {**self._message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        return (
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        )

    def piece(self, text: str, index: int) -> Document:
        return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}

    def tails(self) -> Iterable[Document]:
        delta = {"stop_reason": self.parsed.stop_reason, "stop_sequence": self.parsed.stop_sequence}
        return (
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": delta, "usage": {"output_tokens": self.parsed.output_tokens}},
            {"type": "message_stop"},
        )

    def whole(self) -> Document:
        return {
            **self._message,
            "content": [{"type": "text", "text": self.parsed.text}],
            "stop_reason": self.parsed.stop_reason,
            "stop_sequence": self.parsed.stop_sequence,
            "usage": {"input_tokens": self.parsed.input_tokens, "output_tokens": self.parsed.output_tokens},
        }


class OpenAiWriter(_Chunks):
    def __init__(self, parsed: ParsedRequest, model_id: str) -> None:
        super().__init__(parsed)
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model_id}

    def piece(self, text: str, index: int) -> Document:
        return self._streamed({"role": "assistant", "content": text}, None)

    def tails(self) -> Iterable[Document]:
        return (self._streamed({}, _finish(self.parsed)),)

    def whole(self) -> Document:
        message = {"role": "assistant", "content": self.parsed.text}
        usage = {
            "prompt_tokens": self.parsed.input_tokens,
            "completion_tokens": self.parsed.output_tokens,
            "total_tokens": self.parsed.input_tokens + self.parsed.output_tokens,
        }
        choice = {"index": 0, "message": message, "finish_reason": _finish(self.parsed)}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage}

    def _streamed(self, delta: Document, reason: str | None) -> Document:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}


def _chunk(document: Document) -> bytes:
    return event_frame("chunk", {"bytes": base64.b64encode(orjson.dumps(document)).decode()})


def _finish(parsed: ParsedRequest) -> str:
    return "length" if parsed.stop_reason == "max_tokens" else "stop"


def _conversation(fields: Document) -> tuple[str, int]:
    """Every text of system prompt and messages, and how many other things they carry."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise malformed("#: required key [messages] not found")
    texts: list[str] = []
    attachments = 0
    for content in (fields.get("system"), *(message.get("content") for message in messages)):
        for block in [content] if isinstance(content, str) else content or []:
            text = block if isinstance(block, str) else block.get("text") if isinstance(block, dict) else None
            if isinstance(text, str):
                texts.append(text)
            else:
                attachments += 1
    return "\n".join(texts), attachments


def _check_images(model: BedrockModel, messages: list[Document]) -> None:
    for at, message in enumerate(messages):
        content = message.get("content")
        for position, block in enumerate(content if isinstance(content, list) else []):
            place = f"messages.{at}.content.{position}"
            if model.payload == "anthropic":
                check_claude_image(block, place)
            elif model.payload == "nova" and isinstance(block, dict):
                check_image(model, block.get("image"), place)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise malformed(f"#: required key [{name}] not found")
    return value


def _count(fields: Document, name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise malformed(f"#/{name}: expected a positive integer, found {value!r}")
    return value
