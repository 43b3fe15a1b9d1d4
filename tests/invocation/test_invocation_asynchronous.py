"""Asynchronous inference: what is asked, and what the object in S3 (or the lack of it) amounts to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import boto3
import orjson
import pytest
from botocore.stub import Stubber
from invocation_fakes import KEYS, PATIENT, Script, Server, answer, sends, serving

from loadproof.errors import InputError
from loadproof.invocation import GenerationRequest, Invocation, Invoker, OutcomeKind, RetryClass, Timeouts, codec_for
from loadproof.invocation.asynchronous import AsynchronousTransport
from loadproof.invocation.s3_objects import S3Objects

OUTPUT, FAILURE = "s3://out/answers/1.out", "s3://out/failures/1-error.out"
WHOLE = b'[{"generated_text":"abc","details":{"finish_reason":"length","generated_tokens":3}}]'
REQUEST = GenerationRequest("Once", 3, stream=False)
BRIEF = Timeouts(connect_s=5.0, first_byte_s=5.0, idle_s=5.0, total_s=0.2)


@dataclass
class Memory:
    """S3 in memory. What `later` holds is there after `looks` reads in vain, which raise `fails` if that is set."""

    later: dict[str, bytes] = field(default_factory=dict)
    looks: int = 2
    fails: str = ""
    written: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def read(self, uri: str) -> bytes | None:
        self.asked.append(uri)
        if len(self.asked) > self.looks:
            return self.later.get(uri)
        if self.fails:
            raise OSError(self.fails)
        return None

    def write(self, uri: str, body: bytes) -> None:
        if self.fails:
            raise OSError(self.fails)
        self.written[uri] = body


def accepts(failure: bool = True) -> Script:
    """SageMaker's 202 with the places where the answer will be."""
    places = {"x-amzn-sagemaker-outputlocation": OUTPUT}
    if failure:
        places["x-amzn-sagemaker-failurelocation"] = FAILURE
    return sends(answer(202, b'{"InferenceId":"i"}', **places))


def asked(
    memory: Memory,
    script: Script | None = None,
    request: GenerationRequest = REQUEST,
    timeouts: Timeouts = PATIENT,
    disturb: Callable[[Invoker], None] | None = None,
    **options: Any,
) -> tuple[Invocation, Server]:
    """One request, waited for with looks 10 ms apart; `disturb` happens after 50 ms."""

    async def main() -> tuple[Invocation, Server]:
        async with serving(script or accepts()) as server:
            transport = AsynchronousTransport(
                "ep",
                region="eu-west-1",
                credentials=KEYS,
                endpoint_url=server.url,
                objects=memory,
                look_every_s=0.01,
                **options,
            )
            invoker = Invoker(transport, codec_for("tgi"), timeouts=timeouts)
            if disturb is not None:
                asyncio.get_running_loop().call_later(0.05, disturb, invoker)
            try:
                return await invoker.invoke(request), server
            finally:
                await invoker.close()

    return asyncio.run(main())


def test_a_queued_request_ends_like_any_other() -> None:
    """Path and headers are InvokeEndpointAsync's; the object is decoded as InvokeEndpoint's answer would be."""
    memory = Memory({OUTPUT: WHOLE}, looks=4)
    invocation, server = asked(memory, ttl_s=600, invocation_timeout_s=120)
    sent = server.requests[0]
    assert sent.target == "/endpoints/ep/async-invocations"
    assert orjson.loads(sent.body)["inputs"] == "Once"
    names = ("content-type", "accept", "requestttlseconds", "invocationtimeoutseconds")
    values = [sent.headers[f"x-amzn-sagemaker-{name}"] for name in names]
    assert values == ["application/json", "application/json", "600", "120"]
    assert sent.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert invocation.outcome.kind is OutcomeKind.OK
    assert (invocation.output_tokens, invocation.text_length, invocation.first_token_ns) == (3, 3, None)
    assert invocation.sent_ns is not None and invocation.sent_ns < invocation.end_ns
    assert memory.asked == [OUTPUT, FAILURE, OUTPUT, FAILURE, OUTPUT], "both places, until one has something"
    assert len(server.requests) == 1


def test_the_request_is_boto3_s() -> None:
    """The same path and headers as a stubbed client builds, by botocore's service model."""
    model = boto3.client("sagemaker-runtime", region_name="eu-west-1").meta.service_model
    members = model.operation_model("InvokeEndpointAsync").input_shape.members
    known = {shape.serialization["name"].lower() for shape in members.values() if "name" in shape.serialization}
    memory = Memory({OUTPUT: WHOLE})
    big = GenerationRequest("x" * 128_000, 3, stream=False)
    for request in (REQUEST, big):
        _, server = asked(memory, request=request, ttl_s=60, invocation_timeout_s=1, input_uri="s3://inputs/put")
        ours = {name for name in server.requests[0].headers if name.startswith("x-amzn-")}
        assert ours <= known
        assert ("x-amzn-sagemaker-inputlocation" in ours) == (request is big)


def test_a_large_request_goes_by_s3() -> None:
    """128,000 bytes are inline; one more is an object under the prefix, named in a header, and the body is empty."""
    empty = len(codec_for("tgi").encode(GenerationRequest("", 3, stream=False)))
    for size, inline in ((128_000 - empty, True), (128_001 - empty, False)):
        memory = Memory({OUTPUT: WHOLE})
        request = GenerationRequest("x" * size, 3, stream=False)
        invocation, server = asked(memory, request=request, input_uri="s3://inputs/requests")
        place = server.requests[0].headers.get("x-amzn-sagemaker-inputlocation")
        assert invocation.outcome.ok
        assert (place is None, len(server.requests[0].body) > 0) == (inline, inline)
        if place is not None:
            assert place.startswith("s3://inputs/requests/")
            assert memory.written == {place: codec_for("tgi").encode(request)}


@pytest.mark.parametrize(
    ("words", "retry", "once"),
    [
        ('ModelError: Received server error (500) from primary with message "oh".', RetryClass.TRY_AGAIN, False),
        ('Received client error (422) from primary with message "bad".', RetryClass.POISON, False),
        ('Received server error (503) from primary with message "busy".', RetryClass.SLOW_DOWN, False),
        ("Your invocation timed out while waiting for a response from container primary.", RetryClass.TRY_AGAIN, True),
    ],
)
def test_a_failures_object_is_a_model_error(words: str, retry: RetryClass, once: bool) -> None:
    """Its words say which class it is, as a 424's fields would have."""
    invocation, _ = asked(Memory({FAILURE: words.encode()}))
    outcome = invocation.outcome
    assert (outcome.kind, outcome.code, outcome.message) == (OutcomeKind.MODEL_ERROR, "ModelError", words)
    assert (outcome.retry, outcome.retry_once) == (retry, once)


def test_a_refusal_is_what_it_is_elsewhere() -> None:
    """An endpoint that is not asynchronous refuses at once, and nothing is looked for."""
    memory = Memory()
    refusal = answer(400, b'{"Message":"Endpoint ep is not asynchronous."}', x_amzn_errortype="ValidationError")
    invocation, _ = asked(memory, sends(refusal))
    assert (invocation.outcome.kind, invocation.outcome.retry) == (OutcomeKind.VALIDATION, RetryClass.POISON)
    assert memory.asked == []


def test_an_answer_that_does_not_come_is_a_time_out() -> None:
    """Also where a failure has no place to be written to: after the limit, as `total`."""
    invocation, server = asked(Memory(), accepts(failure=False), timeouts=BRIEF)
    assert (invocation.outcome.kind, invocation.outcome.code) == (OutcomeKind.TIMEOUT, "total")
    assert (invocation.outcome.retry_once, len(server.requests)) == (True, 1)


def test_a_store_that_is_down_for_a_while_costs_nothing() -> None:
    """Looks that fail are repeated; one that never works says so."""
    invocation, server = asked(Memory({OUTPUT: WHOLE}, looks=3, fails="connection refused"))
    assert (invocation.outcome.kind, len(server.requests)) == (OutcomeKind.OK, 1)
    invocation, _ = asked(Memory(looks=10_000, fails="connection refused"), timeouts=BRIEF)
    assert (invocation.outcome.kind, invocation.outcome.code) == (OutcomeKind.CONNECTION, "s3")
    assert "cannot be read: connection refused" in invocation.outcome.message


def test_a_request_that_cannot_be_stored_is_not_sent() -> None:
    """Nothing was paid for, so it may be tried again."""
    memory, big = Memory(fails="denied"), GenerationRequest("x" * 130_000, 3, stream=False)
    invocation, server = asked(memory, request=big, input_uri="s3://inputs/x/")
    assert (invocation.outcome.code, invocation.outcome.retry) == ("s3", RetryClass.TRY_AGAIN)
    assert (invocation.sent_ns, server.requests) == (None, [])


def test_a_wait_can_be_ended() -> None:
    """`cancel_all` ends those that wait for S3 too."""
    invocation, _ = asked(Memory(), disturb=lambda invoker: invoker.cancel_all())
    assert (invocation.outcome.kind, invocation.outcome.retry) == (OutcomeKind.CANCELED, None)


def test_places_are_part_of_the_contract() -> None:
    """A 202 without an OutputLocation is not SageMaker's."""
    invocation, _ = asked(Memory(), sends(answer(202, b"{}")))
    assert invocation.outcome.code == "HttpProtocolFault"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: asked(Memory(), request=GenerationRequest("x", 3)), "stream=False"),
        (lambda: asked(Memory(), request=GenerationRequest("x" * 128_000, 3, stream=False)), "give an input_uri"),
        (lambda: asked(Memory(), ttl_s=59), "requestttlseconds 59: expected 60 to 21600"),
        (lambda: asked(Memory(), invocation_timeout_s=3601), "expected 1 to 3600"),
        (lambda: asked(Memory(), input_uri="https://in/x"), "expected s3://BUCKET/PREFIX/"),
    ],
)
def test_what_cannot_be_asked_is_bad_input(make: Callable[[], object], message: str) -> None:
    """Said by what to do instead."""
    with pytest.raises(InputError, match=message):
        make()


def test_s3_says_what_is_not_there_yet() -> None:
    """NoSuchKey, and AccessDenied for whoever may not list the bucket, mean `not yet`; anything else is an error."""
    objects = S3Objects("eu-west-1", "http://127.0.0.1:9")
    with Stubber(objects._s3) as stub:
        for code in ("NoSuchKey", "AccessDenied"):
            stub.add_client_error("get_object", code)
            assert objects.read("s3://out/key") is None
        stub.add_client_error("get_object", "NoSuchBucket")
        with pytest.raises(OSError, match="NoSuchBucket"):
            objects.read("s3://out/key")
        stub.add_response(
            "put_object", {}, {"Bucket": "inputs", "Key": "a/b", "Body": b"x", "ContentType": "application/json"}
        )
        objects.write("s3://inputs/a/b", b"x")
