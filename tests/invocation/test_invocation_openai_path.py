"""SageMaker's OpenAI-compatible path: where requests go, and the token they carry."""

from __future__ import annotations

import asyncio
import base64
import datetime
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from invocation_fakes import (
    END,
    KEYS,
    PATIENT,
    STREAM_HEAD,
    Exchange,
    chat_event,
    chunked,
    sends,
    serving,
    sse,
)

from loadproof.errors import InputError
from loadproof.invocation import GenerationRequest, Invocation, Invoker, OutcomeKind, codec_for
from loadproof.invocation.credentials import CredentialSource, fixed
from loadproof.invocation.openai_path import OpenAiPathTransport, bearer_token
from loadproof.invocation.sigv4 import Credentials

USAGE = {"prompt_tokens": 4, "completion_tokens": 2}
EVENTS = [chat_event({"content": "a"}), chat_event({"content": "b"}), chat_event({}, "stop"), chat_event(usage=USAGE)]
ANSWER = sends(STREAM_HEAD, chunked(sse(*EVENTS, b"[DONE]")), END)
CREDENTIALS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session/token+")


def asked(times: int = 1, **options: Any) -> tuple[list[Invocation], list[Exchange]]:
    async def main() -> tuple[list[Invocation], list[Exchange]]:
        async with serving(ANSWER) as server:
            transport = OpenAiPathTransport(
                "ep", region="eu-west-1", endpoint_url=server.url, **({"credentials": KEYS} | options)
            )
            invoker = Invoker(transport, codec_for("openai-chat"), timeouts=PATIENT)
            try:
                return [await invoker.invoke(GenerationRequest("Once", 2)) for _ in range(times)], server.requests
            finally:
                await invoker.close()

    return asyncio.run(main())


def signed_query(token: str) -> dict[str, list[str]]:
    """The query of the URL that a token is."""
    url = base64.b64decode(token.removeprefix("sagemaker-api-key-")).decode()
    assert url.startswith("sagemaker.amazonaws.com/?")
    return parse_qs(urlsplit(f"https://{url}").query)


@pytest.mark.parametrize(
    ("component", "path"),
    [
        (None, "/endpoints/ep/openai/v1/chat/completions"),
        ("ep-main", "/endpoints/ep/inference-components/ep-main/openai/v1/chat/completions"),
    ],
)
def test_a_stream_of_chat_completions(component: str | None, path: str) -> None:
    """An endpoint's path and a component's; bare server-sent events; the server's counts."""
    (invocation,), (request,) = asked(component=component)
    assert request.target == path
    assert request.headers["authorization"].startswith("Bearer sagemaker-api-key-")
    assert not any(name.startswith("x-amz") for name in request.headers)
    assert (invocation.outcome.kind, len(invocation.arrival_ns)) == (OutcomeKind.OK, 2)
    assert (invocation.output_tokens, invocation.input_tokens, invocation.token_source) == (2, 4, "server")


def test_a_token_is_a_url_signed_as_botocore_signs_it() -> None:
    """Action, scope and lifetime stand in it, and the signature over them is botocore's own."""
    before = datetime.datetime.now(datetime.UTC)
    query = signed_query(bearer_token(CREDENTIALS, "eu-west-1", 3600))
    assert (query["Action"], query["Version"], query["X-Amz-Expires"]) == (["CallWithBearerToken"], ["1"], ["3600"])
    assert query["X-Amz-Security-Token"] == ["session/token+"]
    at = datetime.datetime.strptime(query["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    assert abs((at - before).total_seconds()) < 60
    assert query["X-Amz-Credential"] == [f"AKIDEXAMPLE/{at:%Y%m%d}/eu-west-1/sagemaker/aws4_request"]
    host = "sagemaker.amazonaws.com"
    request = AWSRequest("POST", f"https://{host}/", headers={"host": host}, params={"Action": "CallWithBearerToken"})
    keys = BotocoreCredentials("AKIDEXAMPLE", CREDENTIALS.secret_key, "session/token+")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, "get_current_datetime", lambda: at.replace(tzinfo=None))
        botocore.auth.SigV4QueryAuth(keys, "sagemaker", "eu-west-1", expires=3600).add_auth(request)
    assert query["X-Amz-Signature"] == parse_qs(urlsplit(request.url).query)["X-Amz-Signature"]


def test_a_token_is_made_anew_when_it_grows_old() -> None:
    """Session keys end sooner than 12 h: the same token for ten minutes, then one of the keys as they are by then."""
    now_s = 1000.0
    keys = iter(["ONE", "TWO"])
    source = CredentialSource(lambda: Credentials(next(keys), "secret"), clock_s=lambda: now_s)

    async def tokens() -> list[str]:
        nonlocal now_s
        async with serving(ANSWER) as server:
            transport = OpenAiPathTransport(
                "ep", region="eu-west-1", endpoint_url=server.url, credentials=source, clock_s=lambda: now_s
            )
            invoker = Invoker(transport, codec_for("openai-chat"), timeouts=PATIENT)
            for later_s in (0.0, 599.0, 1.0, 0.0):
                now_s += later_s
                await source.current()  # behind which new keys are fetched
                await asyncio.sleep(0.05)
                await invoker.invoke(GenerationRequest("Once", 2))
            await invoker.close()
            return [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]

    first, second, third, fourth = asyncio.run(tokens())
    assert first == second and third == fourth
    assert [signed_query(token)["X-Amz-Credential"][0][:3] for token in (first, third)] == ["ONE", "TWO"]


def test_a_token_that_is_given_stays() -> None:
    """It is sent as it is."""
    _, requests = asked(2, token="sagemaker-api-key-abc", credentials=fixed(CREDENTIALS))
    assert {request.headers["authorization"] for request in requests} == {"Bearer sagemaker-api-key-abc"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bearer_token(CREDENTIALS, "eu-west-1", 43_201), "expected 1 to 43200"),
        (lambda: bearer_token(CREDENTIALS, "eu-west-1", 0), "expected 1 to 43200"),
        (lambda: asked(token="secret\r\nx: y"), "printable ASCII"),
        (lambda: asked(token=""), "printable ASCII"),
        (lambda: asked(component="x/../y"), "component name"),
    ],
)
def test_what_cannot_be_is_bad_input(make: Callable[[], object], message: str) -> None:
    """And a token is never shown."""
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "secret" not in str(caught.value)
