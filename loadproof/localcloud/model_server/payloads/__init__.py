"""Real payloads of the model servers, one module a protocol: what they accept, what they answer, how they refuse."""

from __future__ import annotations

from loadproof.localcloud.model_server.payloads.ask import Dialect, ServerLimits
from loadproof.localcloud.model_server.payloads.lmi import LmiDialect
from loadproof.localcloud.model_server.payloads.openai import ChatDialect, OpenAiDialect
from loadproof.localcloud.model_server.payloads.tgi import TgiDialect
from loadproof.protocols import ContainerProtocol


def dialect_of(protocol: ContainerProtocol, limits: ServerLimits, model: str) -> Dialect:
    """The payloads of one container."""
    match protocol:
        case "tgi":
            return TgiDialect(limits, model)
        case "lmi":
            return LmiDialect(limits, model)
        case "openai":
            return OpenAiDialect(limits, model)
        case "openai-chat":
            return ChatDialect(limits, model)
