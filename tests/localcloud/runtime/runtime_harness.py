"""A runtime on a free port in a thread, over a directory held in memory; boto3 is the client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import boto3
from aiohttp import web
from botocore.config import Config

from loadproof.localcloud.directory import ComponentView, ContainerView, EndpointView, VariantView
from loadproof.localcloud.runtime import Runtime

T = TypeVar("T")
REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
IMAGES = {
    "tgi": f"{REGISTRY}/huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04",
    "lmi": f"{REGISTRY}/djl-inference:0.38.0-lmi29.0.0-cu130",
    "vllm": f"{REGISTRY}/vllm:0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker",
    "sglang": f"{REGISTRY}/sglang:0.5.20-gpu-py312-cu130-ubuntu24.04-sagemaker",
}
# A model so small that its predicted step time is the server's own overhead: wall-clock tests stay short.
TINY = "layers=2 hidden=64 heads=4 kv_heads=4 head_dim=16 intermediate=128 vocab=1000 context=2048 parameters_b=0.001"


def container(family: str = "tgi", environment: dict[str, str] | None = None) -> ContainerView:
    tags = {"loadproof:model-id": "tests/tiny", "loadproof:architecture": TINY}
    host = "al2023-ami-sagemaker-inference-gpu-4-1" if "cu130" in IMAGES[family] else None
    return ContainerView(IMAGES[family], environment or {}, None, tags, host)


@dataclass(frozen=True)
class Deployed:
    """One TGI component to state facts about, here or on AWS."""

    client: Any
    endpoint: str
    component: str


class FakeDirectory:
    """What a control plane would know, set by hand."""

    def __init__(self) -> None:
        self.known_endpoints: dict[str, EndpointView] = {}
        self.known_components: dict[str, ComponentView] = {}
        self.metrics: list[tuple[str, str, float, dict[str, str]]] = []
        self.failures: dict[str, str] = {}

    def endpoint(self, name: str) -> EndpointView | None:
        return self.known_endpoints.get(name)

    def component(self, name: str) -> ComponentView | None:
        return self.known_components.get(name)

    def endpoints(self) -> tuple[EndpointView, ...]:
        return tuple(self.known_endpoints.values())

    def record_metric(self, namespace: str, name: str, value: float, dimensions: Any, **_: Any) -> None:
        self.metrics.append((namespace, name, value, dict(dimensions)))

    def fail_component(self, name: str, reason: str) -> None:
        self.failures[name] = reason

    def add_component(self, endpoint: str, name: str, view: ContainerView, copies: int = 1) -> None:
        variant = VariantView("AllTraffic", "ml.g5.2xlarge", 1, None, 1, "LEAST_OUTSTANDING_REQUESTS")
        found = self.known_endpoints.get(endpoint, EndpointView(endpoint, "InService", (variant,), ()))
        self.known_endpoints[endpoint] = replace(found, component_names=(*found.component_names, name))
        self.known_components[name] = ComponentView(
            name, endpoint, "AllTraffic", "InService", copies, 1, "ml.g5.2xlarge", view, 1
        )

    def add_plain(self, endpoint: str, view: ContainerView) -> None:
        variant = VariantView("AllTraffic", "ml.g5.2xlarge", 1, view, 1)
        self.known_endpoints[endpoint] = EndpointView(endpoint, "InService", (variant,), ())


class LocalRuntime:
    """Everything a test touches: the directory to set, the client to call with, the loop to look into."""

    def __init__(self, directory: FakeDirectory, runtime: Runtime, port: int, loop: asyncio.AbstractEventLoop) -> None:
        self.directory = directory
        self.runtime = runtime
        self.url = f"http://127.0.0.1:{port}"
        self._loop = loop

    def client(self) -> Any:
        return boto3.client(
            "sagemaker-runtime",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(retries={"total_max_attempts": 1}, read_timeout=30, proxies={}),
        )

    def look(self, question: Callable[[], T]) -> T:
        """Ask something on the server's own thread."""

        async def ask() -> T:
            return question()

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result(10)


@contextmanager
def local_runtime(**options: Any) -> Iterator[LocalRuntime]:
    directory = FakeDirectory()
    ready: list[tuple[Runtime, int, asyncio.AbstractEventLoop, asyncio.Event]] = []
    started = threading.Event()

    async def serve() -> None:
        runtime = Runtime(directory, **options)
        app = web.Application()
        runtime.setup(app)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        stop = asyncio.Event()
        port = runner.addresses[0][1]
        ready.append((runtime, port, asyncio.get_running_loop(), stop))
        started.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(60), "the runtime did not start"
    runtime, port, loop, stop = ready[0]
    try:
        yield LocalRuntime(directory, runtime, port, loop)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        assert not thread.is_alive()
