"""OpenAI chat completions and completions, as vLLM and SGLang serve them (and TGI and LMI beside their own payload).

Streams are SSE chunks closed by `data: [DONE]`; usage has a chunk of its own if `stream_options.include_usage` asks.
"""

from __future__ import annotations

import time
import uuid

import orjson

from loadproof.localcloud.model_server import tokens
from loadproof.localcloud.model_server.payloads.ask import (
    Ask,
    FieldError,
    RefusalError,
    ServerLimits,
    Writer,
    count_field,
    json_object,
    map_field,
    seed_of,
)
from loadproof.wire.documents import Document, Json

# vLLM's completions default; chat fills the context instead.
DEFAULT_COMPLETION_TOKENS = 16
_NO_MESSAGES = "1 validation error: {'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}"


def read(
    fields: Document, model: str, *, default_tokens: int | None, max_total: int | None
) -> tuple[Ask, OpenAiWriter]:
    """A chat (`messages`) or completions (`prompt`) request. Raises FieldError.

    `default_tokens` None: chat may fill what `max_total` leaves, completions gets vLLM's 16.
    """
    chat = "messages" in fields
    prompt, input_tokens = _chat_prompt(fields) if chat else _completion_prompt(fields)
    room = max(1, max_total - input_tokens) if max_total is not None else None
    default = default_tokens or (room if chat and room else DEFAULT_COMPLETION_TOKENS)
    name = "max_completion_tokens" if fields.get("max_completion_tokens") is not None else "max_tokens"
    ask = Ask(
        input_tokens=input_tokens,
        output_tokens=count_field(fields, name, default),
        stream=fields.get("stream") is True,
        prompt=prompt,
        seed=seed_of(fields, prompt),
    )
    usage = map_field(fields, "stream_options").get("include_usage") is True
    requested = fields.get("model")
    return ask, OpenAiWriter(ask, requested if isinstance(requested, str) else model, chat=chat, include_usage=usage)


def _chat_prompt(fields: Document) -> tuple[str, int]:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) and "role" in m for m in messages):
        raise FieldError("`messages` must be a non-empty list of objects with `role` and `content`")
    return orjson.dumps(messages).decode(), tokens.count_message_tokens(messages)


def _completion_prompt(fields: Document) -> tuple[str, int]:
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        return prompt, tokens.count_tokens(prompt)
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return " ".join(map(str, prompt)), len(prompt)
    raise FieldError("`prompt` must be a string or a list of token ids; `messages` asks for a chat")


class OpenAiDialect:
    """Requests and refusals of one vLLM or SGLang container."""

    def __init__(self, limits: ServerLimits, model: str) -> None:
        self._limits = limits
        self._model = model

    def read(self, body: bytes) -> tuple[Ask, Writer]:
        most = self._limits.max_total_tokens
        try:
            ask, writer = read(json_object(body), self._model, default_tokens=None, max_total=most)
        except FieldError as error:
            raise refusal(400, "BadRequestError", str(error)) from None
        if ask.input_tokens + ask.output_tokens > most:
            raise refusal(
                400,
                "BadRequestError",
                f"This model's maximum context length is {most} tokens. However, you requested {ask.output_tokens} "
                f"output tokens and your prompt contains {ask.input_tokens} input tokens. Please reduce either.",
            )
        return ask, writer

    def overloaded(self, *, stream: bool) -> RefusalError:
        return refusal(503, "ServiceUnavailableError", "The server's queue is full")


class ChatDialect(OpenAiDialect):
    """SGLang's /invocations is its chat route: a prompt without messages is refused as FastAPI validates it."""

    def read(self, body: bytes) -> tuple[Ask, Writer]:
        ask, writer = super().read(body)
        if "messages" not in json_object(body):
            said = {"object": "error", "message": _NO_MESSAGES, "type": "Bad Request", "param": None, "code": 400}
            raise RefusalError(400, orjson.dumps(said))
        return ask, writer


def refusal(status: int, error_type: str, message: str) -> RefusalError:
    """vLLM's error document; the status is real also for streams, since vLLM validates before it streams."""
    error = {"message": message, "type": error_type, "param": None, "code": status}
    return RefusalError(status, orjson.dumps({"error": error}))


class OpenAiWriter:
    """Chat completions when `chat`, else completions."""

    stream_content_type = "text/event-stream; charset=utf-8"

    def __init__(self, ask: Ask, model: str, *, chat: bool, include_usage: bool) -> None:
        self.ask = ask
        self._chat = chat
        self._include_usage = include_usage
        self._head = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}",
            "object": ("chat.completion" if chat else "text_completion"),
            "created": int(time.time()),
            "model": model,
        }
        self._chunk_head = self._head | ({"object": "chat.completion.chunk"} if chat else {})

    def opening(self) -> bytes:
        if not self._chat:
            return b""
        return self._chunk([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])

    def token(self, index: int) -> bytes:
        text = tokens.token_text(self.ask.seed, index)
        finish = "length" if index + 1 == self.ask.output_tokens else None
        content: Document = {"delta": {"content": text}} if self._chat else {"text": text}
        return self._chunk([{"index": 0, **content, "logprobs": None, "finish_reason": finish}])

    def closing(self) -> bytes:
        usage = self._chunk([], usage=self._usage()) if self._include_usage else b""
        return usage + b"data: [DONE]\n\n"

    def unary(self) -> bytes:
        text = tokens.answer_text(self.ask.seed, self.ask.output_tokens)
        content: Document = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": "length"}
        return orjson.dumps({**self._head, "choices": [choice], "usage": self._usage()})

    def _chunk(self, choices: list[Document], **more: Json) -> bytes:
        return b"data: " + orjson.dumps({**self._chunk_head, "choices": choices, **more}) + b"\n\n"

    def _usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.ask.input_tokens,
            "completion_tokens": self.ask.output_tokens,
            "total_tokens": self.ask.input_tokens + self.ask.output_tokens,
        }
