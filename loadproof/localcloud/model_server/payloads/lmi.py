"""LMI (DJL Serving, asynchronous vLLM): `inputs` like TGI, `prompt` as completions, `messages` as chat.

Streams are jsonlines: each line is the OpenAI or TGI-like event without `data:`, and there is no `[DONE]`. Details come
only when asked for; streamed ones count one token too many, as the real handler does. Bad input is answered 424.
Source: djl-serving `lmi_vllm/request_response_utils.py` (0.33 and later).
"""

from __future__ import annotations

import orjson

from loadproof.localcloud.model_server.payloads import openai
from loadproof.localcloud.model_server.payloads.ask import (
    Ask,
    FieldError,
    RefusalError,
    ServerLimits,
    Writer,
    json_object,
)
from loadproof.localcloud.model_server.payloads.generated import GeneratedText, read_inputs
from loadproof.wire.documents import Document

DEFAULT_MAX_NEW_TOKENS = 30
# The streaming handler reports completion_tokens + 1 in `details.generated_tokens`.
_STREAM_SURPLUS_TOKENS = 1


class LmiDialect:
    """Requests and refusals of one LMI container."""

    def __init__(self, limits: ServerLimits, model: str) -> None:
        self._limits = limits
        self._model = model

    def read(self, body: bytes) -> tuple[Ask, Writer]:
        most = self._limits.max_total_tokens
        try:
            fields = json_object(body)
            ask, writer = self._tgi_like(fields) if "inputs" in fields else self._openai(fields)
            if ask.input_tokens + ask.output_tokens > most:
                raise FieldError(
                    f"This model's maximum context length is {most} tokens. However, you requested {ask.output_tokens} "
                    f"output tokens and your prompt contains {ask.input_tokens} input tokens."
                )
        except FieldError as error:
            raise RefusalError(424, orjson.dumps({"error": str(error), "code": 424})) from None
        return ask, writer

    def overloaded(self, *, stream: bool) -> RefusalError:
        body = {"code": 503, "type": "WlmCapacityException", "message": "Worker queue capacity is exceeded"}
        return RefusalError(503, orjson.dumps(body))

    def _tgi_like(self, fields: Document) -> tuple[Ask, Writer]:
        ask, parameters = read_inputs(fields, DEFAULT_MAX_NEW_TOKENS)
        full_text = parameters.get("return_full_text") is True
        return ask, LmiWriter(ask, details=parameters.get("details") is True, full_text=full_text)

    def _openai(self, fields: Document) -> tuple[Ask, Writer]:
        ask, writer = openai.read(fields, self._model, default_tokens=None, max_total=self._limits.max_total_tokens)
        return ask, JsonLinesWriter(writer)


class LmiWriter(GeneratedText):
    """The TGI-like answer."""

    stream_content_type = "application/jsonlines"

    def token(self, index: int) -> bytes:
        # `index` is that of the choice, not of the token.
        return orjson.dumps(self.event(index, 0, _STREAM_SURPLUS_TOKENS)) + b"\n"

    def unary(self) -> bytes:
        # The handler puts vLLM's stop_reason into finish_reason: null unless a stop string matched.
        return orjson.dumps(self.whole(finish_reason=None))


class JsonLinesWriter:
    """An OpenAI answer as LMI streams it: one JSON document a line, nothing else."""

    stream_content_type = "application/jsonlines"

    def __init__(self, writer: openai.OpenAiWriter) -> None:
        self._writer = writer

    @property
    def ask(self) -> Ask:
        return self._writer.ask

    @ask.setter
    def ask(self, ask: Ask) -> None:
        self._writer.ask = ask

    def opening(self) -> bytes:
        return _as_lines(self._writer.opening())

    def token(self, index: int) -> bytes:
        return _as_lines(self._writer.token(index))

    def closing(self) -> bytes:
        return _as_lines(self._writer.closing())

    def unary(self) -> bytes:
        return self._writer.unary()


def _as_lines(events: bytes) -> bytes:
    documents = (event.removeprefix(b"data: ") for event in events.split(b"\n\n") if event)
    return b"".join(document + b"\n" for document in documents if document != b"[DONE]")
