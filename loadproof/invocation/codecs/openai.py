"""OpenAI's completions and chat completions, as vLLM, SGLang, TGI and llama.cpp write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.invocation.codecs.events import EventDecoder
from loadproof.invocation.codecs.types import (
    Completion,
    GenerationRequest,
    JsonCodec,
    PayloadProtocol,
    TokenChunk,
)
from loadproof.invocation.codecs.values import (
    count_of,
    dump,
    list_of,
    load_at_end,
    load_object,
    object_of,
    refuse_error,
    refuse_failed,
    refuse_images,
    text_of,
)
from loadproof.invocation.faults import PayloadError, TruncatedStreamError
from loadproof.invocation.sse import ServerSentEvents
from loadproof.wire.payloads import ANSWER_FIELDS, THOUGHT_FIELDS

_BEDROCK_METRICS = "amazon-bedrock-invocationMetrics"  # the counts of a stream behind InvokeModel


class OpenAiDecoder(EventDecoder):
    """Decoder of `chat.completion.chunk` and `text_completion` events.

    The end marker is a `finish_reason` and, among server-sent events, `[DONE]` too: between the two come the token
    counts. LMI's bare JSON lines have no `[DONE]`.

    An event without text (the first one, with the role only) is no token. An event may carry several tokens: unless it
    brings a running `usage`, it is counted as one and the closing `usage` gives the true total.
    """

    def __init__(self) -> None:
        self._lines = ServerSentEvents()
        super().__init__(self._lines)
        self._done = False
        self._finish_reason: str | None = None
        self._output_tokens: int | None = None
        self._input_tokens: int | None = None

    @property
    def _ended(self) -> bool:
        return self._done

    @staticmethod
    def _usual_text(event: dict[str, object]) -> str | None:
        """What its one choice says, where it says something and the event nothing else."""
        choices = event.get("choices")
        if not isinstance(choices, list) or len(choices) != 1:
            return None
        if event.get("usage") is not None or event.get(_BEDROCK_METRICS) is not None:
            return None
        choice = choices[0]
        if not isinstance(choice, dict) or choice.get("finish_reason") is not None:
            return None
        said = choice.get("delta")
        if isinstance(said, dict) and len(said) == 1:
            text = said.get("content")
        elif said is None and choice.get("message") is None:
            text = choice.get("text")
        else:
            return None
        return text if isinstance(text, str) and text else None

    def feed(self, data: bytes) -> Iterator[TokenChunk]:
        for payload in self._splitter.feed(data):
            if self._done or payload == b"[DONE]":  # what comes after it is no part of the answer
                self._done = True
            elif chunk := self._take(load_object(payload)):
                yield chunk

    def finish(self) -> Completion:
        for payload in self._splitter.flush():
            if self._done or payload == b"[DONE]":
                self._done = True
            else:
                self._take(load_at_end(payload))
        if self._finish_reason is None:
            raise TruncatedStreamError(f"the stream ended after {self._counted} tokens without a finish_reason")
        refuse_failed(self._finish_reason)
        if self._lines.framed and not self._done:
            raise TruncatedStreamError(f"the stream ended after {self._counted} tokens without [DONE]")
        counts = self._counted, self._output_tokens, self._input_tokens
        return Completion.streamed(self._text_length, self._finish_reason, *counts)

    def _take(self, event: dict[str, object]) -> TokenChunk | None:
        refuse_error(event)
        said, thought = "", ""
        for choice in list_of(event.get("choices")):
            part = object_of(choice)
            more_said, more_thought = _texts_of_choice(part)
            said, thought = said + more_said, thought + more_thought
            if part.get("finish_reason") is not None:
                self._finish_reason = text_of(part["finish_reason"])
        before = self._output_tokens
        usage = event.get("usage")
        if usage is None and (metrics := event.get(_BEDROCK_METRICS)) is not None:
            found = object_of(metrics)
            usage = {"completion_tokens": found.get("outputTokenCount"), "prompt_tokens": found.get("inputTokenCount")}
        if usage is not None:
            self._take_usage(object_of(usage))
        if not (text := said + thought):
            return None
        tokens = _grown(before, self._output_tokens) if usage is not None else 1
        self._counted += tokens
        self._text_length += len(text)
        return TokenChunk(text, tokens, thought)

    def _take_usage(self, usage: dict[str, object]) -> None:
        output_tokens, input_tokens = count_of(usage.get("completion_tokens")), count_of(usage.get("prompt_tokens"))
        self._output_tokens = self._output_tokens if output_tokens is None else output_tokens
        self._input_tokens = self._input_tokens if input_tokens is None else input_tokens


def _grown(before: int | None, after: int | None) -> int:
    return max(1, (after or 0) - (before or 0))


def _texts_of_choice(choice: dict[str, object]) -> tuple[str, str]:
    """What is said, tools' calls included, and what is thought."""
    delta = choice.get("delta") or choice.get("message")
    if delta is None:
        return text_of(choice.get("text")), ""
    fields = object_of(delta)
    text = "".join(text_of(fields.get(name)) for name in ANSWER_FIELDS)
    for call in list_of(fields.get("tool_calls")):
        function = object_of(object_of(call).get("function") or {})
        text += text_of(function.get("name")) + text_of(function.get("arguments"))
    return text, "".join(text_of(fields.get(name)) for name in THOUGHT_FIELDS)


def _messages(request: GenerationRequest) -> list[dict[str, object]]:
    content: object = request.prompt
    if request.images:
        pictures = [{"type": "image_url", "image_url": {"url": url}} for url in request.images]
        content = [{"type": "text", "text": request.prompt}, *pictures]
    history: list[dict[str, object]] = [{"role": role, "content": text} for role, text in request.history]
    return [*history, {"role": "user", "content": content}]


class OpenAiCodec(JsonCodec):
    """Requests for `/v1/completions` or, with `chat`, `/v1/chat/completions`; both kinds of answers are read.

    `model` may stay None behind SageMaker, whose vLLM and SGLang containers serve one model. `ignore_eos` is an
    extension of vLLM and SGLang and is sent only when asked for.
    """

    def __init__(self, *, chat: bool, model: str | None = None) -> None:
        self._chat = chat
        self._model = model

    def accept(self, stream: bool) -> str:
        return "text/event-stream" if stream else "application/json"

    def encode(self, request: GenerationRequest) -> bytes:
        payload: dict[str, object] = {} if self._model is None else {"model": self._model}
        if self._chat:
            payload["messages"] = _messages(request)
        else:
            refuse_images(request.images)
            payload["prompt"] = request.prompt
        payload |= {"max_tokens": request.max_output_tokens, "stream": request.stream}
        if request.stream:
            payload["stream_options"] = {"include_usage": True}
        if request.temperature is not None:
            payload["temperature"] = request.temperature
        if request.seed is not None:
            payload["seed"] = request.seed
        if request.ignore_eos:
            payload["ignore_eos"] = True
        return dump(payload)

    def stream_decoder(self) -> OpenAiDecoder:
        return OpenAiDecoder()

    def decode_unary(self, body: bytes) -> Completion:
        answer = load_object(body)
        refuse_error(answer)
        choices = list_of(answer.get("choices"))
        if not choices:
            raise PayloadError("no `choices` in the answer")
        choice = object_of(choices[0])
        if choice.get("finish_reason") is None:
            raise TruncatedStreamError("the answer has no finish_reason")
        finish_reason = text_of(choice["finish_reason"])
        refuse_failed(finish_reason)
        usage = object_of(answer.get("usage") or {})
        text, thought = _texts_of_choice(choice)
        return Completion.whole(
            text,
            finish_reason,
            thought=thought,
            output_tokens=count_of(usage.get("completion_tokens")),
            input_tokens=count_of(usage.get("prompt_tokens")),
        )


PROTOCOL: Final = PayloadProtocol(
    lambda model, service_tier: OpenAiCodec(chat=False, model=model), path="/v1/completions", bedrock_models=None
)
CHAT: Final = PayloadProtocol(
    lambda model, service_tier: OpenAiCodec(chat=True, model=model),
    path="/v1/chat/completions",
    bedrock_models="openai.",
)
