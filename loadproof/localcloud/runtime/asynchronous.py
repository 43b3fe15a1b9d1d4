"""Asynchronous inference: requests wait in a queue, answers are objects in S3, topics tell how each one ended.

Sources: SageMaker developer guide, asynchronous inference; API reference: InvokeEndpointAsync, AsyncInferenceConfig.
Waiting is measured on the cloud's clock, as scaling is; answering takes the model server's own time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from aiohttp import web

from loadproof.localcloud.directory import AsynchronousView, Directory, EndpointView
from loadproof.localcloud.model_server.container import ContainerRequest
from loadproof.localcloud.runtime.answer import CUSTOM_ATTRIBUTES_HEADER
from loadproof.localcloud.runtime.errors import InvokeError
from loadproof.localcloud.runtime.outside import Outside, OutsideError

log = logging.getLogger(__name__)

MAX_INLINE_BYTES = 128_000
_PREFIX = "X-Amzn-SageMaker-"
_DEFAULT_TTL_S, _DEFAULT_TIMEOUT_S = 21_600, 900
# Where a configuration names no limit SageMaker chooses one and does not say which.
_DEFAULT_CONCURRENT_PER_INSTANCE = 4
_LOOK_S = 0.1

Invoke = Callable[[str, ContainerRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Request:
    """One accepted request. `body` is None where it lies at `input_uri`."""

    inference_id: str
    endpoint: str
    input_uri: str | None
    body: bytes | None
    call: ContainerRequest
    output_uri: str
    failure_uri: str | None
    received_s: float  # on the cloud's clock
    ttl_s: float
    timeout_s: float
    received: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(slots=True)
class _Queue:
    waiting: deque[Request] = field(default_factory=deque)
    running: set[asyncio.Task[None]] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.waiting) + len(self.running)


class AsynchronousInference:
    """The queues of all asynchronous endpoints. Belongs to one event loop."""

    def __init__(
        self, directory: Directory, outside: Outside | None, invoke: Invoke, now_s: Callable[[], float]
    ) -> None:
        self._directory, self._outside = directory, outside
        self._invoke = invoke
        self._now_s = now_s
        self._queues: dict[str, _Queue] = {}
        self._worker: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        tasks = [task for queue in self._queues.values() for task in queue.running]
        tasks += [self._worker] if self._worker else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def accept(self, endpoint: EndpointView, headers: Mapping[str, str], body: bytes) -> web.Response:
        """Put one request into its queue. Raises InvokeError."""
        request = _accepted(endpoint, headers, body, self._now_s())
        self._queues.setdefault(endpoint.name, _Queue()).waiting.append(request)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._work())
        places = {f"{_PREFIX}OutputLocation": request.output_uri}
        if request.failure_uri is not None:
            places[f"{_PREFIX}FailureLocation"] = request.failure_uri
        return web.json_response({"InferenceId": request.inference_id}, status=202, headers=places)

    def backlog(self, endpoint: EndpointView) -> Iterator[tuple[str, float]]:
        """The metrics by which an asynchronous endpoint is scaled. From any thread."""
        queue = self._queues.get(endpoint.name)
        size = len(queue) if queue else 0
        instances = sum(variant.instances for variant in endpoint.variants)
        yield "ApproximateBacklogSize", float(size)
        yield "ApproximateBacklogSizePerInstance", size / max(1, instances)
        yield "HasBacklogWithoutCapacity", float(size > 0 and instances == 0)

    async def _work(self) -> None:
        """Start what may start, until nothing waits any more."""
        while self._queues:
            for name, queue in list(self._queues.items()):
                try:
                    self._start(name, queue)
                except Exception:
                    log.exception("the asynchronous queue of %s failed; it goes on", name)
            await asyncio.sleep(_LOOK_S)

    def _start(self, name: str, queue: _Queue) -> None:
        endpoint = self._directory.endpoint(name)
        if endpoint is None or endpoint.asynchronous is None or not len(queue):
            del self._queues[name]
            return
        settings = endpoint.asynchronous
        for expired in [one for one in queue.waiting if self._now_s() - one.received_s > one.ttl_s]:
            queue.waiting.remove(expired)
            self._run(queue, self._failed(settings, expired, "RequestTTLExpired: the request expired in the queue."))
        each = settings.max_concurrent_per_instance or _DEFAULT_CONCURRENT_PER_INSTANCE
        allowed = each * sum(variant.instances for variant in endpoint.variants)
        while queue.waiting and len(queue.running) < allowed:
            self._run(queue, self._answer(settings, queue.waiting.popleft()))

    def _run(self, queue: _Queue, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        queue.running.add(task)
        task.add_done_callback(queue.running.discard)

    async def _answer(self, settings: AsynchronousView, request: Request) -> None:
        assert self._outside is not None
        try:
            body = request.body
            if body is None:
                body = await asyncio.to_thread(self._outside.read, request.input_uri or "")
            call = replace(request.call, body=body)
            async with asyncio.timeout(request.timeout_s):
                answer = await self._invoke(request.endpoint, call)
            assert isinstance(answer, web.Response)
            assert isinstance(answer.body, bytes)
            await asyncio.to_thread(
                self._outside.write, request.output_uri, answer.body, answer.content_type, settings.kms_key_id
            )
        except InvokeError as error:
            await self._failed(settings, request, f"{error.error_type}: {error.message}")
        except TimeoutError:
            reason = f"ModelInvocationTimeExceeded: no answer within {request.timeout_s:g} seconds."
            await self._failed(settings, request, reason)
        except OutsideError as error:
            await self._failed(settings, request, f"ClientError: {error}")
        else:
            told = {"contentType": answer.content_type, "outputLocation": request.output_uri}
            await self._tell(settings.success_topic, request, {"invocationStatus": "Completed"}, told)

    async def _failed(self, settings: AsynchronousView, request: Request, reason: str) -> None:
        """The failure's object and message; that a bucket or topic is not there can only be logged."""
        assert self._outside is not None
        log.info("asynchronous request %s of %s failed: %s", request.inference_id, request.endpoint, reason)
        if request.failure_uri is not None:
            try:
                await asyncio.to_thread(
                    self._outside.write, request.failure_uri, reason.encode(), "text/plain", settings.kms_key_id
                )
            except OutsideError as error:
                log.warning("the failure of %s could not be stored: %s", request.inference_id, error)
        told = {"failureLocation": request.failure_uri} if request.failure_uri is not None else {}
        status = {"invocationStatus": "Failed", "failureReason": reason}
        await self._tell(settings.error_topic, request, status, told)

    async def _tell(
        self, topic_arn: str | None, request: Request, status: dict[str, str], response: dict[str, str]
    ) -> None:
        if topic_arn is None or self._outside is None:
            return
        source = {"inputLocation": request.input_uri} if request.input_uri else {}
        message = {
            "awsRegion": topic_arn.split(":")[3],
            "eventTime": _stamp(datetime.now(UTC)),
            "receivedTime": _stamp(request.received),
            **status,
            "requestParameters": {
                "contentType": request.call.content_type,
                "endpointName": request.endpoint,
                **source,
            },
            "responseParameters": response,
            "inferenceId": request.inference_id,
            "eventVersion": "1.0",
            "eventSource": "aws:sagemaker",
            "eventName": "InferenceResult",
        }
        try:
            await asyncio.to_thread(self._outside.publish, topic_arn, json.dumps(message))
        except OutsideError as error:
            log.warning("topic %s was not told: %s", topic_arn, error)


def _accepted(endpoint: EndpointView, headers: Mapping[str, str], body: bytes, now_s: float) -> Request:
    settings = endpoint.asynchronous
    if settings is None:
        raise InvokeError("ValidationError", f"Endpoint {endpoint.name} is not an asynchronous inference endpoint.")
    input_uri = headers.get(f"{_PREFIX}InputLocation")
    if bool(input_uri) == bool(body):
        raise InvokeError("ValidationError", "Exactly one of Body and InputLocation is required.")
    if input_uri and not (input_uri.startswith("s3://") and input_uri[5:].partition("/")[2]):
        raise InvokeError("ValidationError", f"InputLocation must be an S3 URI of an object, found {input_uri}.")
    if len(body) > MAX_INLINE_BYTES:
        raise InvokeError("ValidationError", f"Body must have length less than or equal to {MAX_INLINE_BYTES}.")
    inference_id = headers.get(f"{_PREFIX}Inference-Id") or str(uuid.uuid4())
    stem = str(uuid.uuid4())
    path = "/".join(filter(None, [settings.output_uri.rstrip("/"), headers.get(f"{_PREFIX}S3OutputPathExtension")]))
    failure = f"{settings.failure_uri.rstrip('/')}/{stem}-error.out" if settings.failure_uri else None
    return Request(
        inference_id=inference_id,
        endpoint=endpoint.name,
        input_uri=input_uri,
        body=body or None,
        call=ContainerRequest(
            body=b"",
            content_type=headers.get(f"{_PREFIX}Content-Type", "application/octet-stream"),
            accept=headers.get(f"{_PREFIX}Accept", "*/*"),
            custom_attributes=headers.get(CUSTOM_ATTRIBUTES_HEADER),
        ),
        output_uri=f"{path}/{headers.get(f'{_PREFIX}Filename') or f'{stem}.out'}",
        failure_uri=failure,
        received_s=now_s,
        ttl_s=_seconds(headers, "RequestTTLSeconds", _DEFAULT_TTL_S, 60, 21_600),
        timeout_s=_seconds(headers, "InvocationTimeoutSeconds", _DEFAULT_TIMEOUT_S, 1, 3600),
    )


def _seconds(headers: Mapping[str, str], name: str, default: int, low: int, high: int) -> float:
    text = headers.get(f"{_PREFIX}{name}")
    if text is None:
        return float(default)
    if not text.isdigit() or not low <= int(text) <= high:
        raise InvokeError("ValidationError", f"{name} must be between {low} and {high} seconds, found {text}.")
    return float(text)


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
