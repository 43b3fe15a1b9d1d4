"""Text Generation Inference: server-sent token events."""

from __future__ import annotations

from typing import Final

from loadproof.invocation.codecs.tokens import TokenCodec, TokenEventDecoder
from loadproof.invocation.codecs.types import GenerationRequest, PayloadProtocol
from loadproof.invocation.sse import ServerSentEvents


class TgiCodec(TokenCodec):
    """Text Generation Inference: server-sent events, `details` in the last one."""

    def accept(self, stream: bool) -> str:
        return "text/event-stream" if stream else "application/json"

    def _extend(self, parameters: dict[str, object], request: GenerationRequest) -> None:
        parameters["decoder_input_details"] = False

    def stream_decoder(self) -> TokenEventDecoder:
        return TokenEventDecoder(ServerSentEvents())


PROTOCOL: Final = PayloadProtocol(lambda model, service_tier: TgiCodec(), path="/invocations", bedrock_models=None)
