"""Large Model Inference (DJL Serving): token events as JSON lines."""

from __future__ import annotations

from typing import Final

from loadproof.invocation.codecs.tokens import TokenCodec, TokenEventDecoder
from loadproof.invocation.codecs.types import GenerationRequest, PayloadProtocol
from loadproof.invocation.sse import JsonLines


class LmiCodec(TokenCodec):
    """Large Model Inference (DJL): JSON lines of the same events."""

    def accept(self, stream: bool) -> str:
        return "application/jsonlines" if stream else "application/json"

    def _extend(self, parameters: dict[str, object], request: GenerationRequest) -> None:
        if request.ignore_eos:
            parameters["ignore_eos_token"] = True

    def stream_decoder(self) -> TokenEventDecoder:
        return TokenEventDecoder(JsonLines(), one_over=True)


PROTOCOL: Final = PayloadProtocol(lambda model, service_tier: LmiCodec(), path="/invocations", bedrock_models=None)
