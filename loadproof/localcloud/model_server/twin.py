"""The twin as a container: a model server's payloads in front, the simulated engine behind. No GPU, no weights.

It must always be labelled *predicted*: the tokens' times come from the planner's step model, not from a machine.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from loadproof.localcloud.model_server.container import ContainerRequest, ContainerResponse, whole
from loadproof.localcloud.model_server.engine import Engine, Generation, RejectedError
from loadproof.localcloud.model_server.payloads.ask import Ask, Dialect, RefusalError, Writer


class TwinContainer:
    """One copy. `max_admitted_requests` is the server's own admission limit (TGI MAX_CONCURRENT_REQUESTS)."""

    def __init__(self, engine: Engine, dialect: Dialect, max_admitted_requests: int) -> None:
        self._engine = engine
        self._dialect = dialect
        self._max_admitted_requests = max_admitted_requests

    @property
    def engine(self) -> Engine:
        return self._engine

    async def invoke(self, request: ContainerRequest) -> ContainerResponse:
        try:
            ask, writer = self._dialect.read(request.body)
            if self._engine.outstanding >= self._max_admitted_requests:
                raise self._dialect.overloaded(stream=ask.stream)
            try:
                generation = self._engine.submit(ask.input_tokens, ask.output_tokens)
            except RejectedError:
                raise self._dialect.overloaded(stream=ask.stream) from None
            return await self._answer(ask, writer, generation)
        except RefusalError as refusal:
            return ContainerResponse(refusal.status, refusal.content_type, whole(refusal.body))

    async def close(self) -> None:
        await self._engine.close()

    async def _answer(self, ask: Ask, writer: Writer, generation: Generation) -> ContainerResponse:
        if ask.stream:
            return ContainerResponse(200, writer.stream_content_type, self._stream(writer, generation))
        try:
            async for _ in generation:
                pass
        finally:
            self._engine.cancel(generation)
        return ContainerResponse(200, "application/json", whole(writer.unary()))

    async def _stream(self, writer: Writer, generation: Generation) -> AsyncGenerator[bytes, None]:
        head = writer.opening()
        last = generation.output_tokens - 1
        try:
            async for index in generation:
                part = head + writer.token(index)
                head = b""
                yield part + writer.closing() if index == last else part
        finally:
            self._engine.cancel(generation)
