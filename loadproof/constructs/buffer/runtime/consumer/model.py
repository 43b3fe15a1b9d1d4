"""The two kinds of models: a SageMaker endpoint, and Bedrock's Converse. One call here is one HTTP request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from loadproof.wire.documents import Document
from loadproof.wire.payloads import ContainerProtocol, payload_of

from .answer import AnswerBuilder, StreamError, choices_asked
from .clock import Clock
from .converse import ConverseAnswer, converse_request
from .failures import Kind, ModelFailure
from .generation import CutOffError, Heard


class SageMakerModel:
    """A model behind InvokeEndpointWithResponseStream, so that the 60 s of InvokeEndpoint do not bind."""

    def __init__(
        self,
        runtime: Any,
        clock: Clock,
        *,
        endpoint: str,
        component: str | None,
        protocol: ContainerProtocol,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._target = {"EndpointName": endpoint} | ({"InferenceComponentName": component} if component else {})
        self._payload = payload_of(protocol)

    def answer(self, request: Document, *, deadline_s: float, heard: Heard = lambda parts: None) -> Document:
        """The whole answer (docs/buffer.md); `heard` is told how many events came with each part.

        Raises ModelFailure, CutOffError, and whatever broke.
        """
        payload = self._payload.streaming(request)
        response = self._runtime.invoke_endpoint_with_response_stream(
            ContentType="application/json", Body=json.dumps(payload).encode(), **self._target
        )
        builder = AnswerBuilder(choices_asked(request))
        for event in _events(response["Body"], self._clock, deadline_s):
            if "PayloadPart" not in event:
                raise _broken(event)
            heard(builder.feed(event["PayloadPart"]["Bytes"]))
        return builder.finish()


class ConverseModel:
    """A model or inference profile behind ConverseStream. A request is Converse's own, without `modelId`."""

    def __init__(self, runtime: Any, clock: Clock, *, model_id: str) -> None:
        self._runtime = runtime
        self._clock = clock
        self._model_id = model_id

    def answer(self, request: Document, *, deadline_s: float, heard: Heard = lambda parts: None) -> Document:
        """As SageMakerModel.answer; a request that botocore refuses is poison."""
        arguments = converse_request(request) | {"modelId": self._model_id}
        response = self._runtime.converse_stream(**arguments)
        answer = ConverseAnswer()
        for event in _events(response["stream"], self._clock, deadline_s):
            answer.feed(event)
            heard(1)
        return answer.finish()


def _events(stream: Iterable[Mapping[str, Any]], clock: Clock, deadline_s: float) -> Iterator[Mapping[str, Any]]:
    with _closed(getattr(stream, "close", None)):
        for event in stream:
            yield event
            if clock.now_s() > deadline_s:
                raise ModelFailure(Kind.TIMED_OUT, "the answer took longer than the invocation timeout")
            if clock.drained:
                raise CutOffError


@contextmanager
def _closed(close: Callable[[], None] | None) -> Iterator[None]:
    """A stream that is left in the middle must not be read to its end."""
    try:
        yield
    finally:
        if close is not None:
            close()


def _broken(event: Mapping[str, Any]) -> ModelFailure:
    """An exception that came as an event: ModelStreamError, InternalStreamFailure, or one nobody knows yet."""
    for name, detail in event.items():
        code = detail.get("ErrorCode", "") if isinstance(detail, Mapping) else ""
        if code == "ModelInvocationTimeExceeded":
            return ModelFailure(Kind.TIMED_OUT, "the model's time was over")
        return StreamError(f"the stream broke ({name})")
    return StreamError("the stream broke (empty event)")
