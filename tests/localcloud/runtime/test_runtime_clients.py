"""Loadproof's own transports against the runtime: the OpenAI-compatible path, and asynchronous inference."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from runtime_harness import LocalRuntime, container, local_runtime

from loadproof.invocation import (
    AsynchronousTransport,
    GenerationRequest,
    Invocation,
    Invoker,
    OutcomeKind,
    Transport,
    codec_for,
)
from loadproof.invocation.credentials import fixed
from loadproof.invocation.openai_path import OpenAiPathTransport
from loadproof.invocation.sigv4 import Credentials
from loadproof.localcloud.directory import AsynchronousView
from loadproof.localcloud.runtime.outside import OutsideError

KEYS = fixed(Credentials("AKID", "secret"))


@dataclass
class Memory:
    """One S3 for the cloud (which raises for what is not there) and for its client (which is told None)."""

    objects: dict[str, bytes] = field(default_factory=dict)

    def read(self, s3_uri: str) -> bytes:
        if s3_uri not in self.objects:
            raise OutsideError("An error occurred (NoSuchKey)")
        return self.objects[s3_uri]

    def write(self, s3_uri: str, body: bytes, content_type: str = "", kms_key_id: str | None = None) -> None:
        self.objects[s3_uri] = body

    def publish(self, topic_arn: str, message: str) -> None: ...


@dataclass
class Client:
    memory: Memory

    def read(self, uri: str) -> bytes | None:
        return self.memory.objects.get(uri)

    def write(self, uri: str, body: bytes) -> None:
        self.memory.objects[uri] = body


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory()


@pytest.fixture(scope="module")
def cloud(memory: Memory) -> Iterator[LocalRuntime]:
    with local_runtime(outside=memory) as running:
        running.directory.add_component("chat", "chat-main", container("vllm"))
        running.directory.add_plain("plain", container("vllm"))
        running.directory.add_plain("later", container("tgi", {"MAX_INPUT_TOKENS": "64"}))
        found = running.directory.known_endpoints["later"]
        places = AsynchronousView("s3://answers/", "s3://failures", None, None, None, 2)
        running.directory.known_endpoints["later"] = replace(found, asynchronous=places)
        yield running


def invoke(transport: Transport, protocol: str, request: GenerationRequest) -> Invocation:
    async def main() -> Invocation:
        invoker = Invoker(transport, codec_for(protocol))
        try:
            return await invoker.invoke(request)
        finally:
            await invoker.close()

    return asyncio.run(main())


@pytest.mark.parametrize(("endpoint", "component"), [("chat", "chat-main"), ("plain", None)])
@pytest.mark.parametrize("stream", [True, False])
def test_chat_completions_by_the_openai_path(
    cloud: LocalRuntime, endpoint: str, component: str | None, stream: bool
) -> None:
    """A component or a whole endpoint answers there, with tokens of their own times where it streams."""
    transport = OpenAiPathTransport(
        endpoint, component=component, region="us-east-1", credentials=KEYS, endpoint_url=cloud.url
    )
    invocation = invoke(transport, "openai-chat", GenerationRequest("one two three", 5, stream=stream))
    assert (invocation.outcome.kind, invocation.output_tokens) == (OutcomeKind.OK, 5)
    assert (len(invocation.arrival_ns), invocation.token_source) == (5 if stream else 0, "server")


def test_the_paths_errors_are_the_runtimes(cloud: LocalRuntime) -> None:
    """A component that is not there, and one that is not named."""
    for component, said in (("gone", "gone of endpoint chat not found"), (None, "header is required")):
        transport = OpenAiPathTransport(
            "chat", component=component, region="us-east-1", credentials=KEYS, endpoint_url=cloud.url
        )
        invocation = invoke(transport, "openai-chat", GenerationRequest("one", 2))
        assert (invocation.outcome.kind, invocation.outcome.http_status) == (OutcomeKind.VALIDATION, 400)
        assert said in invocation.outcome.message


def _later(cloud: LocalRuntime, memory: Memory, request: GenerationRequest) -> Invocation:
    transport = AsynchronousTransport(
        "later",
        region="us-east-1",
        credentials=KEYS,
        endpoint_url=cloud.url,
        objects=Client(memory),
        input_uri="s3://requests/",
        look_every_s=0.02,
    )
    return invoke(transport, "tgi", request)


def test_a_queued_request_comes_back_whole(cloud: LocalRuntime, memory: Memory) -> None:
    """Through the runtime's own queue and S3; sent, and found later."""
    invocation = _later(cloud, memory, GenerationRequest("one two three", 4, stream=False))
    assert (invocation.outcome.kind, invocation.output_tokens) == (OutcomeKind.OK, 4)
    assert invocation.sent_ns is not None and invocation.sent_ns < invocation.end_ns


def test_a_large_queued_request_is_read_from_s3_and_its_failure_found(cloud: LocalRuntime, memory: Memory) -> None:
    """A prompt of 130,000 bytes goes by S3; the model refuses its length, and those words are the outcome."""
    before = set(memory.objects)
    invocation = _later(cloud, memory, GenerationRequest("word " * 26_000, 4, stream=False))
    stored: Any = [uri for uri in set(memory.objects) - before if uri.startswith("s3://requests/")]
    assert len(stored) == 1 and json.loads(memory.objects[stored[0]])["parameters"]["max_new_tokens"] == 4
    assert invocation.outcome.kind is OutcomeKind.MODEL_ERROR
    assert invocation.outcome.retry == "poison", invocation.outcome.message
