"""Text Generation Inference on `/invocations`: `inputs` + `parameters`, chat or completions; SSE with `data:{...}`.

Streamed refusals arrive inside the event stream with status 200, as TGI's router sends them; unary ones with their own.
Sources: TGI router (`server.rs`, `validation.rs`, `sagemaker.rs`), 3.3.
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

DEFAULT_MAX_NEW_TOKENS = 100

_STATUS = {"validation": 422, "overloaded": 429, "generation": 424, "incomplete_generation": 500}


def refusal(error_type: str, message: str, *, stream: bool) -> RefusalError:
    """TGI's error document: `{"error": ..., "error_type": ...}`."""
    document = orjson.dumps({"error": message, "error_type": error_type})
    if stream:
        return RefusalError(200, b"data:" + document + b"\n\n", content_type="text/event-stream", in_band=True)
    return RefusalError(_STATUS[error_type], document)


class TgiDialect:
    """Requests and refusals of one TGI container."""

    def __init__(self, limits: ServerLimits, model: str) -> None:
        self._limits = limits
        self._model = model

    def read(self, body: bytes) -> tuple[Ask, Writer]:
        if self._limits.max_body_bytes is not None and len(body) > self._limits.max_body_bytes:
            text = b"Failed to buffer the request body: length limit exceeded"
            raise RefusalError(413, text, content_type="text/plain; charset=utf-8")
        try:
            fields = json_object(body)
        except FieldError as error:
            raise RefusalError(400, f"Failed to parse the request body as JSON: {error}".encode()) from None
        stream = fields.get("stream") is True
        try:
            ask, writer = self._generate(fields) if "inputs" in fields else self._openai(fields)
            self._check(ask)
        except FieldError as error:
            raise refusal("validation", f"Input validation error: {error}", stream=stream) from None
        return ask, writer

    def overloaded(self, *, stream: bool) -> RefusalError:
        return refusal("overloaded", "Model is overloaded", stream=stream)

    def _generate(self, fields: Document) -> tuple[Ask, Writer]:
        ask, parameters = read_inputs(fields, DEFAULT_MAX_NEW_TOKENS)
        # On SageMaker TGI repeats the prompt before the answer unless told not to.
        full_text = parameters.get("return_full_text") is not False
        return ask, TgiWriter(ask, details=parameters.get("details") is True, full_text=full_text)

    def _openai(self, fields: Document) -> tuple[Ask, Writer]:
        return openai.read(fields, self._model, default_tokens=DEFAULT_MAX_NEW_TOKENS, max_total=None)

    def _check(self, ask: Ask) -> None:
        most = self._limits.max_input_tokens
        if most is not None and ask.input_tokens > most:
            raise FieldError(f"`inputs` must have less than {most} tokens. Given: {ask.input_tokens}")
        if ask.input_tokens + ask.output_tokens > self._limits.max_total_tokens:
            raise FieldError(
                f"`inputs` tokens + `max_new_tokens` must be <= {self._limits.max_total_tokens}. "
                f"Given: {ask.input_tokens} `inputs` tokens and {ask.output_tokens} `max_new_tokens`"
            )


class TgiWriter(GeneratedText):
    """`/generate` and `/generate_stream`."""

    stream_content_type = "text/event-stream"

    def token(self, index: int) -> bytes:
        # TGI counts its stream from 1.
        return b"data:" + orjson.dumps(self.event(index, index + 1)) + b"\n\n"

    def unary(self) -> bytes:
        return orjson.dumps([self.whole(finish_reason="length")])

    def token_document(self, index: int) -> Document:
        return {**super().token_document(index), "special": False}
