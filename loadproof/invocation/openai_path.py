"""SageMaker's OpenAI-compatible path: chat completions of an endpoint, or of a component, with a bearer token.

    transport = OpenAiPathTransport("my-endpoint", component="my-endpoint-main", region="us-east-1")
    invocation = await Invoker(transport, codec_for("openai-chat")).invoke(GenerationRequest("Once", 64))

A stream is bare server-sent events here, without SageMaker's frames. vLLM's and SGLang's containers have this path.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable
from typing import Unpack

from loadproof.errors import InputError
from loadproof.invocation.aws_sdk import sdk
from loadproof.invocation.connections import Receiver, Timeouts
from loadproof.invocation.sigv4 import Credentials
from loadproof.invocation.transports import Reach, SageMakerTransport, Unwrapper, bearer, request_bytes

LONGEST_S = 12 * 3600  # AWS takes no token that lives longer
_RENEW_AFTER_S = 600.0  # session keys may end sooner than a token says, and a token ends with its keys
_HOST = "sagemaker.amazonaws.com"


class OpenAiPathTransport(SageMakerTransport):
    """`/endpoints/E[/inference-components/IC]/openai/v1/chat/completions`."""

    def __init__(
        self,
        endpoint: str,
        *,
        region: str,
        component: str | None = None,
        token: str | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        **reach: Unpack[Reach],
    ) -> None:
        """`token` None: made of the credentials, and again every ten minutes; one that is given stays as it is.

        Raises InputError (names, URL, token), CouldNotRunError (credentials).
        """
        super().__init__(endpoint, region=region, component=component, **reach)
        self._region = region
        self._given = None if token is None else bearer(token)
        self._clock_s = clock_s
        self._made, self._made_s = "", float("-inf")
        part = f"/inference-components/{component}" if component else ""
        self._path = f"{self._base}{part}/openai/v1/chat/completions"

    async def send(
        self, body: bytes, *, stream: bool, content_type: str, accept: str, receiver: Receiver, timeouts: Timeouts
    ) -> None:
        headers = {"host": self._host, "content-type": content_type, "accept": accept}
        headers["authorization"] = self._given or await self._current()
        await self._pool.exchange(request_bytes(self._path, headers, body), receiver, timeouts)

    def unwrapper(self, stream: bool) -> Unwrapper | None:
        return None

    async def _current(self) -> str:
        now_s = self._clock_s()
        if now_s - self._made_s >= _RENEW_AFTER_S:
            credentials = await self._credentials.current()
            self._made = bearer(bearer_token(credentials, self._region))
            self._made_s = now_s
        return self._made


def bearer_token(keys: Credentials, region: str, lifetime_s: int = LONGEST_S) -> str:
    """A token for SageMaker's OpenAI-compatible path, at most 12 h valid and no longer than the keys it is made of.

    It is a signed URL of the action CallWithBearerToken in base64, as `sagemaker.core.token_generator` makes it
    (sagemaker-core 2.27). Whoever holds it may invoke: keep it out of logs. Raises InputError.
    """
    if not 1 <= lifetime_s <= LONGEST_S:
        raise InputError(f"bearer token of {lifetime_s} s: expected 1 to {LONGEST_S}")
    action = {"Action": "CallWithBearerToken"}
    request = sdk("botocore.awsrequest").AWSRequest("POST", f"https://{_HOST}/", headers={"host": _HOST}, params=action)
    signing = sdk("botocore.credentials").Credentials(keys.access_key, keys.secret_key, keys.token)
    sdk("botocore.auth").SigV4QueryAuth(signing, "sagemaker", region, expires=lifetime_s).add_auth(request)
    url = f"{request.url.removeprefix('https://')}&Version=1"
    return f"sagemaker-api-key-{b64encode(url.encode()).decode()}"
