"""The SageMaker runtime on loopback: InvokeEndpoint and InvokeEndpointWithResponseStream as boto3 speaks them."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import orjson
from aiohttp import web

from loadproof.localcloud.directory import ComponentView, ContainerView, Directory, VariantView
from loadproof.localcloud.model_server import backend
from loadproof.localcloud.model_server.backend_adapters import adapter_problem
from loadproof.localcloud.model_server.clock import WallClock
from loadproof.localcloud.model_server.container import CannotStartError, Container, ContainerRequest
from loadproof.localcloud.model_server.contract import NoSuchRoute, Place, ignores_adapters, loads_adapters
from loadproof.localcloud.model_server.named import with_model
from loadproof.localcloud.model_server.start import check_image, start_twin, twin_deployment
from loadproof.localcloud.model_server.weight_files import Stored, check_weights
from loadproof.localcloud.runtime import capture, errors, target
from loadproof.localcloud.runtime.answer import (
    CUSTOM_ATTRIBUTES_HEADER,
    Answerer,
    ClientGoneError,
    Limits,
    MidStreamError,
    read_body,
    while_connected,
)
from loadproof.localcloud.runtime.asynchronous import AsynchronousInference
from loadproof.localcloud.runtime.capture import Capture
from loadproof.localcloud.runtime.errors import InvokeError
from loadproof.localcloud.runtime.fleet import Copy, Fleet
from loadproof.localcloud.runtime.metrics import Collected, Metrics
from loadproof.localcloud.runtime.outside import Outside, OutsideError
from loadproof.localcloud.runtime.target import Target
from loadproof.localcloud.scratch import scratch_folder

log = logging.getLogger(__name__)
Answer = Callable[[Target, Copy, ContainerRequest], Awaitable[web.StreamResponse]]

_SWEEP_S = 1.0
_CHAT = "/openai/v1/chat/completions"


class Runtime:
    """All of the runtime service. `backend_url` puts one real HTTP model server behind every component.

    Payload parts are cut at arbitrary offsets, as on AWS: parts never promise whole lines. `outside` is S3 and SNS for
    asynchronous inference and data capture, `now_s` the cloud's clock.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        account: str = "123456789012",
        region: str = "us-east-1",
        backend_url: str | None = None,
        limits: Limits | None = None,
        outside: Outside | None = None,
        stored: Stored | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._account = account
        self._backend_url = backend_url.rstrip("/") if backend_url else None
        self._clock = WallClock()
        logs_arn = f"arn:aws:logs:{region}:{account}:log-group:"
        self._answerer = Answerer(limits or Limits(), random.Random(0), logs_arn)
        self._queued_answerer = Answerer(Limits(unary_s=3600.0), None, logs_arn)  # the queue's own limits are shorter
        self._fleet = Fleet(self._start_container)
        self._metrics = Metrics(directory)
        self._outside = outside
        self._stored = stored
        self._adapters: Path | None = None  # of a backend: where the server finds them
        self._capture = Capture()
        self._asynchronous = AsynchronousInference(directory, outside, self._invoke_queued, now_s)
        self._session: aiohttp.ClientSession | None = None
        self._sweeper: asyncio.Task[None] | None = None

    # -------------------------------------------------------------------------------------------------- server hooks

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/endpoints/{endpoint}/invocations", self.invoke),
            web.post("/endpoints/{endpoint}/invocations-response-stream", self.invoke_with_response_stream),
            web.post("/endpoints/{endpoint}/async-invocations", self.invoke_async),
            web.post(f"/endpoints/{{endpoint}}{_CHAT}", self.chat_completions),
            web.post(f"/endpoints/{{endpoint}}/inference-components/{{component}}{_CHAT}", self.chat_completions),
        ]

    def setup(self, app: web.Application) -> None:
        """Add the routes, and start and stop with the application."""
        app.add_routes(self.routes())
        app.on_startup.append(self.start)
        app.on_cleanup.append(self.stop)

    async def start(self, app: web.Application | None = None) -> None:
        self._session = backend.new_session()
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep_forever())

    async def stop(self, app: web.Application | None = None) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await self._asynchronous.stop()
        await self._fleet.close()
        if self._session is not None:
            await self._session.close()
        if self._adapters is not None:
            shutil.rmtree(self._adapters, ignore_errors=True)

    def check_startable(self, view: ComponentView | VariantView) -> str | None:
        """Why the container behind this component or plain variant cannot start; None when it can. May take seconds.

        Callable from any thread. With a backend: what a known image refuses, then the server's health check; else:
        whether the twin can stand for the image.
        """
        if view.container is None:
            return None
        try:
            if isinstance(view, ComponentView):
                place = Place(view.instance_type, view.accelerators_per_copy)
            else:
                place = target.whole_instance(view.instance_type)
            if self._backend_url is not None:
                check_image(view.container, place)
                return backend.health_problem(self._backend_url) or self._adapter_problem(
                    self._backend_url, view.container
                )
            self._check_twin(view.container, place)
        except CannotStartError as error:
            return str(error)
        return None

    def _adapter_problem(self, url: str, view: ContainerView) -> str | None:
        """Asks the server behind everything to load an adapter, where the image that it stands for would."""
        name = view.adapter_name
        if name is None or not loads_adapters(view) or ignores_adapters(view):
            return None
        read = self._stored.read if self._stored is not None else None
        if self._adapters is None:
            self._adapters = scratch_folder("adapters")
        return adapter_problem(url, name, view.model_data_s3_uri, self._adapters, read)

    def _check_twin(self, view: ContainerView, place: Place) -> None:
        named = self._named(view)
        _, deployment = twin_deployment(named, place)
        if self._stored is not None:
            check_weights(named, deployment.architecture, self._stored)

    def _named(self, view: ContainerView) -> ContainerView:
        return with_model(view, self._stored.read if self._stored is not None else lambda s3_uri: None)

    @property
    def fleet(self) -> Fleet:
        return self._fleet

    def take_metrics(self) -> Collected:
        """What was counted since the last call, for `publish_metrics`. On the event loop's thread."""
        return self._metrics.take()

    def publish_metrics(self, collected: Collected, at_s: float | None = None) -> None:
        """Hand CloudWatch data to the directory, at `at_s` of the cloud's clock. From any thread."""
        self._metrics.hand_over(collected, self._targets(), at_s)
        for endpoint in self._directory.endpoints():
            if endpoint.asynchronous is not None:
                for name, value in self._asynchronous.backlog(endpoint):
                    where = {"EndpointName": endpoint.name}
                    self._directory.record_metric("AWS/SageMaker", name, value, where, unit="Count", at_s=at_s)

    # ------------------------------------------------------------------------------------------------------ handlers

    async def invoke(self, request: web.Request) -> web.StreamResponse:
        """POST /endpoints/{E}/invocations"""
        return await self._serve(request, self._captured)

    async def invoke_with_response_stream(self, request: web.Request) -> web.StreamResponse:
        """POST /endpoints/{E}/invocations-response-stream"""

        async def streamed(found: Target, copy: Copy, call: ContainerRequest) -> web.StreamResponse:
            return await self._answerer.stream(request, found, copy, call)

        return await self._serve(request, streamed)

    async def chat_completions(self, request: web.Request) -> web.StreamResponse:
        """POST /endpoints/{E}[/inference-components/{IC}]/openai/v1/chat/completions: the container's own answer."""

        async def answered(found: Target, copy: Copy, call: ContainerRequest) -> web.StreamResponse:
            if _wants_stream(call.body):
                return await self._answerer.bare_stream(request, found, copy, call)
            return await self._captured(found, copy, call)

        return await self._serve(request, answered)

    async def invoke_async(self, request: web.Request) -> web.Response:
        """POST /endpoints/{E}/async-invocations"""
        try:
            body = await read_body(request)
            endpoint = target.serving_endpoint(self._directory, self._account, request.match_info["endpoint"])
            return self._asynchronous.accept(endpoint, request.headers, body)
        except InvokeError as fault:
            return fault.response()

    async def _invoke_queued(self, endpoint_name: str, call: ContainerRequest) -> web.StreamResponse:
        """A request whose turn in the asynchronous queue has come. Raises InvokeError."""
        endpoint = target.serving_endpoint(self._directory, self._account, endpoint_name)
        found = target.variant_target(endpoint, target.pick_variant(endpoint, None))
        if found.copies < 1:
            raise errors.no_capacity()
        return await self._counted(found, call, self._queued_answerer.unary)

    # ------------------------------------------------------------------------------------------------ one invocation

    async def _captured(self, found: Target, copy: Copy, call: ContainerRequest) -> web.StreamResponse:
        """A whole answer, of which data capture keeps its sample."""
        answer = await self._answerer.unary(found, copy, call)
        if found.capture is not None and isinstance(answer, web.Response) and isinstance(answer.body, bytes):
            body = (answer.headers["Content-Type"], answer.body)
            self._capture.record(found.capture, found.endpoint_name, found.variant_name, call, body)
        return answer

    async def _serve(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        try:
            found, call = await self._accept(request)
            async with while_connected(request):
                return await self._counted(found, call, answer)
        except InvokeError as fault:
            return fault.response()
        except (ClientGoneError, ConnectionResetError):
            return web.Response(status=499)  # never seen: the connection is closed

    async def _accept(self, request: web.Request) -> tuple[Target, ContainerRequest]:
        body = await read_body(request)
        component = request.match_info.get("component")
        headers = request.headers if component is None else {target.COMPONENT_HEADER: component}
        found = target.resolve(self._directory, self._account, request.match_info["endpoint"], headers)
        if found.copies < 1:
            if found.component_name is not None:
                self._metrics.no_capacity(found.component_name)
            raise errors.no_capacity()
        call = ContainerRequest(
            body=body,
            content_type=request.headers.get("Content-Type", "application/octet-stream"),
            accept=request.headers.get("X-Amzn-SageMaker-Accept", request.headers.get("Accept", "*/*")),
            custom_attributes=request.headers.get(CUSTOM_ATTRIBUTES_HEADER),
        )
        return found, call

    async def _counted(self, found: Target, call: ContainerRequest, answer: Answer) -> web.StreamResponse:
        """Run one invocation on a copy; keep the copy's outstanding count and the metrics right whatever happens."""
        with self._metrics.counting(found) as counted:
            copy = self._pick(found)
            copy.outstanding += 1
            counted.handed_s = time.perf_counter()
            try:
                return await answer(found, copy, call)
            except InvokeError as fault:
                counted.errors = fault.metrics
                raise
            except MidStreamError as broken:
                counted.errors = ("MidStreamErrors",)
                return broken.response
            finally:
                copy.outstanding -= 1

    def _pick(self, found: Target) -> Copy:
        try:
            return self._fleet.pick(found.side(), at_random=found.random_routing)
        except CannotStartError as error:
            if found.component_name is not None:
                self._directory.fail_component(found.component_name, str(error))
            raise errors.model_error(0, str(error), self._answerer.log_arn(found)) from None

    # ---------------------------------------------------------------------------------------------------- containers

    def _start_container(self, view: ContainerView, place: Place) -> Container:
        if self._backend_url is None:
            return start_twin(self._named(view), place, self._clock)
        if self._session is None:
            raise CannotStartError("the runtime is not started")
        if view.adapter and not loads_adapters(view):
            return NoSuchRoute()
        return backend.HttpContainer(self._backend_url, self._session, view.adapter_name)

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            try:
                self._sweep()
                files = self._capture.take()
                if files and self._outside is not None:
                    await asyncio.to_thread(capture.write, self._outside, files)
            except OutsideError as error:
                log.warning("captured data could not be stored: %s", error)
            except Exception:
                log.exception("the runtime's housekeeping failed; it goes on")

    def _sweep(self) -> None:
        """Let go of containers whose component or endpoint is gone, and of copies scaled in."""
        wanted = {group.key: group for one in self._targets() for group in (*one.wanted, *one.following)}
        for key in list(self._fleet.groups):
            if key in wanted:
                self._fleet.reconcile(wanted[key])
            else:
                self._fleet.retire(key)

    def _targets(self) -> list[Target]:
        """Everything that can be invoked."""
        targets: list[Target] = []
        for endpoint in self._directory.endpoints():
            targets += [target.variant_target(endpoint, one) for one in endpoint.variants if one.container is not None]
            components = map(self._directory.component, endpoint.component_names)
            targets += [target.component_target(endpoint, one) for one in components if one is not None]
        return targets


def _wants_stream(body: bytes) -> bool:
    """Whether an OpenAI request asks for a stream; the container itself refuses what is no request."""
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(request, dict) and request.get("stream") is True
