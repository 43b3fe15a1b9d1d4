"""Meta's Llama behind Bedrock's InvokeModel. Source: "Meta Llama models", Amazon Bedrock user guide."""

from __future__ import annotations

from typing import Final

from loadproof.invocation.codecs.lines import LineDecoder, whole_answer
from loadproof.invocation.codecs.types import Completion, GenerationRequest, JsonCodec, PayloadProtocol
from loadproof.invocation.codecs.values import count_of, dump, refuse_error, refuse_images, text_of


class LlamaDecoder(LineDecoder):
    """`{generation, prompt_token_count, generation_token_count, stop_reason}`; the last has a `stop_reason`."""

    end_marker = "a stop_reason"

    def _take(self, event: dict[str, object]) -> tuple[str, str]:
        refuse_error(event)
        output_tokens = count_of(event.get("generation_token_count"))
        input_tokens = count_of(event.get("prompt_token_count"))
        self._output_tokens = self._output_tokens if output_tokens is None else output_tokens
        self._input_tokens = self._input_tokens if input_tokens is None else input_tokens
        self._finish_reason = text_of(event.get("stop_reason")) or self._finish_reason
        self._ended = bool(self._finish_reason)
        return text_of(event.get("generation")), ""


class LlamaCodec(JsonCodec):
    """Prompts of Meta's Llama models. The prompt goes out as it is: the chat template is the caller's."""

    def encode(self, request: GenerationRequest) -> bytes:
        refuse_images(request.images)
        payload: dict[str, object] = {"prompt": request.prompt, "max_gen_len": request.max_output_tokens}
        if request.temperature is not None:
            payload["temperature"] = request.temperature
        return dump(payload)

    def stream_decoder(self) -> LlamaDecoder:
        return LlamaDecoder()

    def decode_unary(self, body: bytes) -> Completion:
        answer, finish_reason = whole_answer(body)
        return Completion.whole(
            text_of(answer.get("generation")),
            finish_reason,
            output_tokens=count_of(answer.get("generation_token_count")),
            input_tokens=count_of(answer.get("prompt_token_count")),
        )


PROTOCOL: Final = PayloadProtocol(lambda model, service_tier: LlamaCodec(), path=None, bedrock_models="meta.llama")
