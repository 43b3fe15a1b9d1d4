"""Whole requests to Bedrock's runtime: as boto3 sends them, and what the answers amount to."""

from __future__ import annotations

import asyncio
import datetime
import socket
from collections.abc import Callable
from typing import Any

import boto3
import botocore.auth
import orjson
import pytest
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials as BotocoreCredentials
from invocation_fakes import (
    END,
    KEYS,
    PATIENT,
    QUICK,
    STREAM_HEAD,
    Exchange,
    Script,
    Server,
    answer,
    chunked,
    converse_frames,
    invoke_chunk,
    played,
    sends,
    serving,
)

from loadproof.errors import InputError
from loadproof.invocation import (
    BedrockTransport,
    GenerationRequest,
    Invocation,
    OutcomeKind,
    RetryClass,
    Timeouts,
    open_bedrock,
)
from loadproof.invocation.eventstream import encode_exception, encode_frame

LLAMA = "meta.llama3-1-8b-instruct-v1:0"
PROFILE_ARN = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abcdefghijkl"
PROVISIONED_ARN = "arn:aws:bedrock:eu-west-1:123456789012:provisioned-model/abcdefghijkl"
WHOLE = orjson.dumps(
    {
        "output": {"message": {"role": "assistant", "content": [{"text": "abc"}]}},
        "stopReason": "max_tokens",
        "usage": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10},
        "metrics": {"latencyMs": 5},
    }
)
FRAMES = converse_frames(["a", "b", "c"])


def bedrock(
    script: Script,
    request: GenerationRequest | None = None,
    *,
    model_id: str = LLAMA,
    timeouts: Timeouts = PATIENT,
    **options: Any,
) -> tuple[Invocation, Server]:
    """One request to a model of Bedrock's."""

    async def main() -> tuple[Invocation, Server]:
        async with serving(script) as server:
            known = {"region": "eu-west-1", "credentials": KEYS, "endpoint_url": server.url, "timeouts": timeouts}
            invoker = open_bedrock(model_id, **(known | options))
            try:
                return await invoker.invoke(request or GenerationRequest("Once", 3)), server
            finally:
                await invoker.close()

    return asyncio.run(main())


def _boto3_request(call: Callable[[Any], object], **keys: str) -> AWSRequest:
    """What boto3 would put on the wire."""
    config = Config(retries={"total_max_attempts": 1})
    client = boto3.client("bedrock-runtime", region_name="eu-west-1", config=config, **keys)
    sent: list[AWSRequest] = []

    def keep(request: AWSRequest, **_: object) -> None:
        sent.append(request)
        raise InterruptedError  # nothing leaves this machine

    client.meta.events.register("before-send", keep)
    with pytest.raises(InterruptedError):
        call(client)
    return sent[0]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


# Requests


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("model_id", [LLAMA, f"us.{LLAMA}"])
def test_requests_are_boto3_s(native: bool, stream: bool, model_id: str) -> None:
    """Path, body and all headers that decide anything; the signature covers them."""
    names = {
        (False, False): "converse",
        (False, True): "converse_stream",
        (True, False): "invoke_model",
        (True, True): "invoke_model_with_response_stream",
    }
    if native:
        body = orjson.dumps({"prompt": "Once", "max_gen_len": 3})
        parameters: dict[str, Any] = {"body": body, "contentType": "application/json", "accept": "application/json"}
        parameters["serviceTier"] = "flex"
    else:
        messages = [{"role": "user", "content": [{"text": "Once"}]}]
        parameters = {"messages": messages, "inferenceConfig": {"maxTokens": 3}, "serviceTier": {"type": "flex"}}
    theirs = _boto3_request(
        lambda client: getattr(client, names[native, stream])(modelId=model_id, **parameters),
        aws_access_key_id="AKID",
        aws_secret_access_key="secret",
        aws_session_token="session",
    )
    _, server = bedrock(
        sends(answer(500, b"{}")),
        GenerationRequest("Once", 3, stream=stream),
        model_id=model_id,
        native=native,
        service_tier="flex",
    )
    ours = server.requests[0]
    assert ours.target == theirs.url.removeprefix("https://bedrock-runtime.eu-west-1.amazonaws.com")
    assert orjson.loads(ours.body) == orjson.loads(theirs.body)
    headers = {name.lower(): _text(value) for name, value in theirs.headers.items()}
    for name in ("content-type", "x-amzn-bedrock-accept", "x-amzn-bedrock-service-tier", "x-amz-security-token"):
        assert ours.headers.get(name) == headers.get(name), name
    assert "/eu-west-1/bedrock/aws4_request" in ours.headers["authorization"]


@pytest.mark.parametrize("model_id", [PROFILE_ARN, PROVISIONED_ARN, f"us.{LLAMA}"])
def test_a_signature_over_an_escaped_path_is_botocores(model_id: str) -> None:
    """ARNs go into the path escaped, colons and slashes too, and are signed as AWS will read them."""
    exchange = bedrock(sends(answer(200, WHOLE)), GenerationRequest("Once", 3, stream=False), model_id=model_id)[1]
    ours = exchange.requests[0]
    assert ours.target == f"/model/{model_id.replace(':', '%3A').replace('/', '%2F')}/converse"
    signed = ours.headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    kept = {name: ours.headers[name] for name in signed if name not in ("x-amz-date", "x-amz-security-token")}
    request = AWSRequest("POST", f"http://{ours.headers['host']}{ours.target}", headers=kept, data=ours.body)
    at = datetime.datetime.strptime(ours.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, "get_current_datetime", lambda: at)
        keys = BotocoreCredentials("AKID", "secret", "session")
        botocore.auth.SigV4Auth(keys, "bedrock", "eu-west-1").add_auth(request)
    assert request.headers["authorization"] == ours.headers["authorization"]


def test_an_api_key_is_sent_in_place_of_a_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_BEARER_TOKEN_BEDROCK, where botocore looks for it too; nothing is signed, and no keys are needed."""
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-abc")
    messages = [{"role": "user", "content": [{"text": "Once"}]}]
    theirs = _boto3_request(lambda client: client.converse(modelId=LLAMA, messages=messages))
    _, server = bedrock(sends(answer(200, WHOLE)), GenerationRequest("Once", 3, stream=False), credentials=None)
    ours = server.requests[0].headers
    assert ours["authorization"] == _text(theirs.headers["authorization"]) == "Bearer bedrock-api-key-abc"
    assert "x-amz-date" not in ours


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BedrockTransport("", region="us-east-1", credentials=KEYS), "expected a model id"),
        (lambda: BedrockTransport("a b", region="us-east-1", credentials=KEYS), "model 'a b'"),
        (lambda: BedrockTransport("m", region="moon", credentials=KEYS), "region 'moon'"),
        (lambda: BedrockTransport("m", region="us-east-1", api="invoke", service_tier="gold"), "service tier `gold`"),
        (lambda: BedrockTransport("m", region="us-east-1", service_tier="flex"), "give it to the codec"),
        (lambda: open_bedrock("amazon.nova-lite-v1:0", region="us-east-1", native=True), "use converse"),
    ],
)
def test_bad_targets_are_bad_input(make: Callable[[], object], message: str) -> None:
    """Found before anything is sent."""
    with pytest.raises(InputError, match=message):
        make()


# Answers


@pytest.mark.usefixtures("either_way")
def test_a_stream() -> None:
    """Tokens are stamped in order as they come; the counts and the reason are the service's."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(STREAM_HEAD, *(chunked(frame) for frame in FRAMES), END, gap_s=0.01)

    invocation, _ = bedrock(script)
    assert invocation.outcome.kind is OutcomeKind.OK
    assert invocation.sent_ns is not None
    times = [invocation.intended_ns, invocation.sent_ns, *invocation.arrival_ns, invocation.end_ns]
    assert times == sorted(times)
    assert invocation.arrival_ns[2] - invocation.arrival_ns[0] >= 15_000_000  # two gaps of 10 ms, less timer slack
    assert (invocation.input_tokens, invocation.output_tokens, invocation.token_source) == (7, 3, "server")
    assert (invocation.text_length, invocation.finish_reason) == (3, "max_tokens")


def test_a_whole_answer() -> None:
    """No token has a time of its own; the counts are the service's."""
    invocation, _ = bedrock(sends(answer(200, WHOLE)), GenerationRequest("Once", 3, stream=False))
    assert (invocation.outcome.kind, invocation.first_token_ns) == (OutcomeKind.OK, None)
    assert (invocation.input_tokens, invocation.output_tokens, invocation.text_length) == (7, 3, 3)


def test_a_models_own_stream() -> None:
    """InvokeModel's chunks come out of their base64 with times of their own."""
    events = [
        {"generation": "a", "prompt_token_count": 7, "generation_token_count": 1, "stop_reason": None},
        {"generation": "b", "generation_token_count": 2, "stop_reason": "length"},
    ]
    script = sends(STREAM_HEAD, *(chunked(invoke_chunk(event)) for event in events), END)
    invocation, _ = bedrock(script, GenerationRequest("Once", 3, keep_text=True), native=True)
    assert (invocation.outcome.kind, invocation.text) == (OutcomeKind.OK, "ab")
    assert (len(invocation.arrival_ns), invocation.output_tokens, invocation.input_tokens) == (2, 2, 7)


def _error(status: int, error_type: str, message: str) -> Script:
    """As Bedrock writes it: the type in the header, with a place behind it."""
    body = orjson.dumps({"message": message})
    return sends(answer(status, body, x_amzn_errortype=f"{error_type}:http://internal.amazon.com/coral/"))


@pytest.mark.parametrize(
    ("script", "kind", "retry", "code", "tokens"),
    [
        (_error(429, "ThrottlingException", "Too many tokens, please wait"),
         OutcomeKind.THROTTLED, RetryClass.SLOW_DOWN, "ThrottlingException", 0),
        (_error(400, "ValidationException", "The provided model identifier is invalid."),
         OutcomeKind.VALIDATION, RetryClass.POISON, "ValidationException", 0),
        (sends(STREAM_HEAD, chunked(*FRAMES[:3], encode_exception("throttlingException", "slow")), END),
         OutcomeKind.STREAM_ERROR, RetryClass.SLOW_DOWN, "throttlingException", 2),
        (sends(STREAM_HEAD, chunked(*FRAMES[:3], encode_exception("validationException", "bad")), END),
         OutcomeKind.STREAM_ERROR, RetryClass.POISON, "validationException", 2),
        (sends(STREAM_HEAD, chunked(*FRAMES[:3], encode_exception("internalServerException", "oh")), END),
         OutcomeKind.STREAM_ERROR, RetryClass.TRY_AGAIN, "internalServerException", 2),
        (sends(STREAM_HEAD, chunked(*FRAMES[:3], encode_frame(
            {":message-type": "error", ":error-code": "InternalError", ":error-message": "oh"}, b"")), END),
         OutcomeKind.STREAM_ERROR, RetryClass.TRY_AGAIN, "InternalError", 2),
        (sends(STREAM_HEAD, chunked(*FRAMES[:-1]), END),
         OutcomeKind.TRUNCATED, RetryClass.TRY_AGAIN, "Truncated", 3),
        (sends(STREAM_HEAD, chunked(*FRAMES[:3]), reset=True),
         OutcomeKind.CONNECTION, RetryClass.TRY_AGAIN, "reset", 2),
    ],
    ids=["throttled", "no such model", "throttled in mid-stream", "refused in mid-stream", "broken in mid-stream",
         "an error without a model", "no metadata", "reset"],
)  # fmt: skip
def test_each_fault_lands_in_one_class(
    script: Script, kind: OutcomeKind, retry: RetryClass, code: str, tokens: int
) -> None:
    """Kind, retry class and code; the tokens that came are kept; the request was sent once."""
    invocation, server = bedrock(script)
    assert (invocation.outcome.kind, invocation.outcome.retry, invocation.outcome.code) == (kind, retry, code)
    assert (len(invocation.arrival_ns), len(server.requests)) == (tokens, 1)


def test_a_stall_is_a_time_out_that_may_be_tried_once() -> None:
    """Text came and then nothing: found after the idle limit, by exactly one request."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(STREAM_HEAD, chunked(*FRAMES[:3]))
        await asyncio.sleep(5)

    invocation, server = bedrock(script, timeouts=QUICK)
    assert (invocation.outcome.kind, invocation.outcome.code) == (OutcomeKind.TIMEOUT, "idle")
    assert (invocation.outcome.retry_once, len(server.requests)) == (True, 1)


def test_a_quoted_prompt_is_left_out() -> None:
    """A validation message that quotes the prompt is cut before it."""
    request = GenerationRequest("My secret name is Ann, and more", 3)
    invocation, _ = bedrock(_error(400, "ValidationException", "bad text: My secret name is Ann, and more"), request)
    assert invocation.outcome.message == "bad text: … (prompt left out)"


# Damage

STREAM = STREAM_HEAD + b"".join(chunked(frame) for frame in converse_frames(["a", "é"])) + END


def test_no_cut_of_a_whole_answer_passes_for_complete() -> None:
    """Cut before the end of the head: no answer at all. Cut later: truncated. Uncut: complete."""
    cuts = [STREAM[:cut] for cut in range(len(STREAM) + 1)]
    *kinds, whole = [invocation.outcome.kind for invocation in played(cuts, "converse")]
    head = len(STREAM_HEAD)
    assert kinds[:head] == [OutcomeKind.CONNECTION] * head
    assert kinds[head:] == [OutcomeKind.TRUNCATED] * (len(STREAM) - head)
    assert whole is OutcomeKind.OK


def test_no_flipped_bit_changes_an_answer_unnoticed() -> None:
    """One bit flipped anywhere behind the head: either a fault, or (in HTTP's own framing) the same tokens."""
    head = len(STREAM_HEAD)
    damaged = [
        STREAM[: bit // 8] + bytes([STREAM[bit // 8] ^ (1 << bit % 8)]) + STREAM[bit // 8 + 1 :]
        for bit in range(head * 8, len(STREAM) * 8)
    ]
    for bit, invocation in enumerate(played(damaged, "converse")):
        if invocation.outcome.ok:
            assert (invocation.output_tokens, invocation.text_length, invocation.input_tokens) == (2, 2, 7), bit


# Connections


@pytest.mark.usefixtures("either_way")
def test_a_silent_connection_is_probed() -> None:
    """AWS's network forgets a connection after 350 s of silence: the kernel is asked to probe long before that."""
    asked: dict[tuple[int, int], Any] = {}
    real = socket.socket.setsockopt

    def noting(self: socket.socket, level: int, option: int, *value: Any) -> None:
        asked[level, option] = value[0]
        real(self, level, option, *value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("socket.socket.setsockopt", noting)
        bedrock(sends(answer(200, WHOLE)), GenerationRequest("Once", 3, stream=False))
    assert asked[socket.SOL_SOCKET, socket.SO_KEEPALIVE] == 1
    assert 0 < asked[socket.IPPROTO_TCP, socket.TCP_KEEPIDLE] < 350
