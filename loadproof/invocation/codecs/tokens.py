"""TGI's token events, which LMI writes too: `{token{id,text}, generated_text, details}`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import orjson

from loadproof.invocation.budgets import parsed_json
from loadproof.invocation.codecs.events import EventDecoder
from loadproof.invocation.codecs.types import Completion, GenerationRequest, JsonCodec, TokenChunk
from loadproof.invocation.codecs.values import (
    count_of,
    dump,
    load_at_end,
    load_object,
    object_of,
    refuse_error,
    refuse_failed,
    refuse_images,
    text_of,
)
from loadproof.invocation.faults import PayloadError, TruncatedStreamError
from loadproof.invocation.sse import Splitter


class TokenEventDecoder(EventDecoder):
    """Decoder of token events, one token an event. The end marker is non-null `generated_text` or `details`.

    `one_over`: the server's `generated_tokens` may be one more than it generated. LMI's vLLM handler adds one to vLLM's
    own count, its older handlers did not; so where the report is exactly one above the events, the events are right.
    """

    __slots__ = ("_end", "_one_over")

    def __init__(self, splitter: Splitter, *, one_over: bool = False) -> None:
        super().__init__(splitter)
        self._one_over = one_over
        self._end: dict[str, object] | None = None

    @property
    def _ended(self) -> bool:
        return self._end is not None

    @staticmethod
    def _usual_text(event: dict[str, object]) -> str | None:
        token = event.get("token")
        if not isinstance(token, dict) or event.get("details") is not None or event.get("generated_text") is not None:
            return None
        text = token.get("text")
        return text if isinstance(text, str) else None

    def feed(self, data: bytes) -> Iterator[TokenChunk]:
        for payload in self._splitter.feed(data):
            if payload != b"[DONE]" and (chunk := self._take(load_object(payload))):
                yield chunk

    def finish(self) -> Completion:
        for payload in self._splitter.flush():
            if payload != b"[DONE]":
                self._take(load_at_end(payload))
        if self._end is None:
            raise TruncatedStreamError(f"the stream ended after {self._counted} tokens without its last event")
        details = self._end
        finish_reason = text_of(details.get("finish_reason"))
        refuse_failed(finish_reason)
        reported = count_of(details.get("generated_tokens"))
        if self._one_over and self._counted and reported == self._counted + 1:
            reported = None
        input_tokens = count_of(details.get("input_length"))
        return Completion.streamed(self._text_length, finish_reason, self._counted, reported, input_tokens)

    def _take(self, event: dict[str, object]) -> TokenChunk | None:
        refuse_error(event)
        ended = self._end is not None
        details = event.get("details")
        if details is not None:
            self._end = object_of(details)
        elif event.get("generated_text") is not None:
            self._end = self._end or {}
        token = event.get("token")
        if token is None or ended:  # what comes after the end is no part of the answer
            return None
        text = text_of(object_of(token).get("text"))
        self._counted += 1
        self._text_length += len(text)
        return TokenChunk(text, 1)


class TokenCodec(JsonCodec, ABC):
    """What TGI and LMI share: the request's shape and the unary answer."""

    def encode(self, request: GenerationRequest) -> bytes:
        refuse_images(request.images)
        parameters: dict[str, object] = {"max_new_tokens": request.max_output_tokens, "details": True}
        if request.temperature is not None:
            parameters["do_sample"] = request.temperature > 0
            if request.temperature > 0:
                parameters["temperature"] = request.temperature
        if request.seed is not None:
            parameters["seed"] = request.seed
        self._extend(parameters, request)
        return dump({"inputs": request.prompt, "parameters": parameters, "stream": request.stream})

    @abstractmethod
    def _extend(self, parameters: dict[str, object], request: GenerationRequest) -> None: ...

    def decode_unary(self, body: bytes) -> Completion:
        answer = _unwrapped(body)
        refuse_error(answer)
        if "generated_text" not in answer:
            raise PayloadError("no `generated_text` in the answer")
        text = text_of(answer["generated_text"])
        details = object_of(answer.get("details") or {})
        finish_reason = text_of(details.get("finish_reason"))
        refuse_failed(finish_reason)
        return Completion.whole(
            text,
            finish_reason,
            output_tokens=count_of(details.get("generated_tokens")),
            input_tokens=count_of(details.get("input_length")),
        )


def _unwrapped(body: bytes) -> dict[str, object]:
    """TGI answers on `/invocations` with a list of one, on `/generate` with the object itself."""
    try:
        value = parsed_json(body)
    except orjson.JSONDecodeError as error:
        raise PayloadError(f"{len(body)} bytes that are not JSON: {error}") from error
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return object_of(value)
