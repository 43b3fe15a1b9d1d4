"""Real payloads of the model servers, one module a protocol: what they accept, what they answer, how they refuse."""

from __future__ import annotations

import zlib
from dataclasses import replace

from loadproof.localcloud.model_server.payloads.ask import Ask, Dialect, RefusalError, ServerLimits, Writer
from loadproof.localcloud.model_server.payloads.lmi import LmiDialect
from loadproof.localcloud.model_server.payloads.openai import ChatDialect, OpenAiDialect
from loadproof.localcloud.model_server.payloads.tgi import TgiDialect
from loadproof.wire.payloads import ContainerProtocol


class Adapted:
    """The same server with an adapter: other words to the same prompt."""

    def __init__(self, base: Dialect, adapter: str) -> None:
        self._base, self._own = base, zlib.crc32(adapter.encode())

    def read(self, body: bytes) -> tuple[Ask, Writer]:
        ask, writer = self._base.read(body)
        writer.ask = replace(ask, seed=ask.seed ^ self._own)
        return writer.ask, writer

    def overloaded(self, *, stream: bool) -> RefusalError:
        return self._base.overloaded(stream=stream)


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
