"""Bedrock's runtime: Converse and InvokeModel of one model, signed, each with its stream.

    invoker = open_bedrock("us.meta.llama3-1-8b-instruct-v1:0", region="us-east-1")             # Converse
    invoker = open_bedrock("meta.llama3-1-8b-instruct-v1:0", region="us-east-1", native=True)   # InvokeModel

A model id is a base model's, a cross-region profile's (`us.`, `eu.`, `global.` …), or the ARN of an application
inference profile, a provisioned model or an imported one. Source: botocore's service model `bedrock-runtime`.
"""

from __future__ import annotations

import os
import re
import ssl
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Literal, get_args
from urllib.parse import quote

from loadproof.errors import InputError
from loadproof.invocation.codecs import codec_for, payload_protocol
from loadproof.invocation.codecs.converse import check_service_tier
from loadproof.invocation.codecs.types import Codec
from loadproof.invocation.codecs.values import load_object, text_of
from loadproof.invocation.connections import Receiver, Timeouts
from loadproof.invocation.credentials import CredentialSource, from_environment
from loadproof.invocation.eventstream import FrameDecoder, refuse
from loadproof.invocation.faults import PayloadError
from loadproof.invocation.invoker import Invoker
from loadproof.invocation.sigv4 import Signer
from loadproof.invocation.transports import PooledTransport, Unwrapper, bearer, dns_suffix, parse_url, request_bytes
from loadproof.wire.payloads import PayloadName

Api = Literal["converse", "invoke"]
_MODEL_ID = re.compile(r"(arn:[a-z-]+:(bedrock|sagemaker):[a-z0-9-]+:[0-9]*:)?[A-Za-z0-9][A-Za-z0-9._:/-]{0,2047}")
_PATHS: dict[tuple[Api, bool], str] = {
    ("converse", False): "converse",
    ("converse", True): "converse-stream",
    ("invoke", False): "invoke",
    ("invoke", True): "invoke-with-response-stream",
}


def open_bedrock(
    model_id: str,
    *,
    region: str,
    native: bool = False,
    service_tier: str | None = None,
    credentials: CredentialSource | None = None,
    endpoint_url: str | None = None,
    timeouts: Timeouts | None = None,
) -> Invoker:
    """An invoker of one model; `native`: in the model's own payloads instead of Converse's.

    Raises InputError (names, URL, tier, a family whose payloads are not known), CouldNotRunError (credentials).
    """
    api: Api = "invoke" if native else "converse"
    codec = native_codec(model_id) if native else codec_for("converse", service_tier=service_tier)
    transport = BedrockTransport(
        model_id,
        region=region,
        api=api,
        service_tier=service_tier if native else None,
        credentials=credentials,
        endpoint_url=endpoint_url,
    )
    return Invoker(transport, codec, timeouts=timeouts)


def native_codec(model_id: str) -> Codec:
    """The codec of a model's own payloads, by its id. Raises InputError where the id does not tell them."""
    for name in get_args(PayloadName):
        begins = payload_protocol(name).bedrock_models
        if begins and re.match(rf"(?:[a-z-]+\.)??{re.escape(begins)}", model_id.rpartition("/")[2]):
            return codec_for(name)
    raise InputError(
        f"model {model_id!r}: InvokeModel takes the model's own payloads, known here of meta.llama…, anthropic.… and "
        "openai.… ids; use converse, which takes one payload for all models"
    )


class BedrockTransport(PooledTransport):
    """`Converse` and `ConverseStream`, or `InvokeModel` and `InvokeModelWithResponseStream`, of one model."""

    def __init__(
        self,
        model_id: str,
        *,
        region: str,
        api: Api = "converse",
        service_tier: str | None = None,
        credentials: CredentialSource | None = None,
        endpoint_url: str | None = None,
        tls: ssl.SSLContext | None = None,
        kernel_times: bool = True,
    ) -> None:
        """`service_tier` is InvokeModel's header; Converse has it in the payload (`codec_for`). `credentials` None: an
        API key in AWS_BEARER_TOKEN_BEDROCK, else what botocore finds. For the rest see SageMakerTransport. Raises
        InputError, CouldNotRunError (credentials).
        """
        if not _MODEL_ID.fullmatch(model_id):
            raise InputError(
                f"model {model_id!r}: expected a model id, a cross-region profile (us.MODEL), or the ARN of an "
                "inference profile or a provisioned model"
            )
        if service_tier is not None and api == "converse":
            raise InputError(f"service tier `{service_tier}`: Converse has it in the payload: give it to the codec")
        check_service_tier(service_tier)
        url = parse_url(endpoint_url or f"https://bedrock-runtime.{region}.{dns_suffix(region)}")
        super().__init__(url, tls, kernel_times)
        self._api = api
        # botocore prefers it to keys, too.
        api_key = os.environ.get("AWS_BEARER_TOKEN_BEDROCK") if credentials is None else None
        self._authorization = bearer(api_key) if api_key else ""
        self._credentials = credentials or (None if api_key else from_environment(endpoint_url))
        self._signer = Signer(region, "bedrock")
        self._model_path = f"{self._base_path}/model/{quote(model_id, safe='-._~')}"
        self._tier = {} if service_tier is None else {"x-amzn-bedrock-service-tier": service_tier}

    async def send(
        self, body: bytes, *, stream: bool, content_type: str, accept: str, receiver: Receiver, timeouts: Timeouts
    ) -> None:
        path = f"{self._model_path}/{_PATHS[self._api, stream]}"
        headers = {"host": self._host, "content-type": content_type, **self._tier}
        if self._api == "converse":
            headers["accept"] = accept
        else:  # JSON, whatever a codec asks of other servers; a stream keeps `Accept` for the event stream itself
            headers["x-amzn-bedrock-accept" if stream else "accept"] = "application/json"
        if self._credentials is None:
            headers["authorization"] = self._authorization
        else:
            credentials = await self._credentials.current()
            headers.update(self._signer.sign("POST", path, headers, body, credentials))
        await self._pool.exchange(request_bytes(path, headers, body), receiver, timeouts)

    def unwrapper(self, stream: bool) -> Unwrapper | None:
        return ChunkDecoder() if stream and self._api == "invoke" else None


class ChunkDecoder:
    """InvokeModelWithResponseStream's frames in, the model's own events out, one a line."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames = FrameDecoder()

    def usual_parts(self, reads: Sequence[bytes], at: int) -> tuple[list[bytes], list[int]]:
        return [], []

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The events that `data` completes; take them all. Raises InvocationFault, after those before the fault."""
        for frame in self._frames.feed(data):
            if frame.headers.get(":event-type") != "chunk":
                refuse(frame)
                continue
            try:
                event = b64decode(text_of(load_object(frame.payload).get("bytes")), validate=True)
            except ValueError as error:  # binascii.Error is one, and so is text that is not ASCII
                raise PayloadError(f"a chunk that is not base64: {error}") from error
            yield event + b"\n"

    @property
    def kept_bytes(self) -> int:
        return self._frames.kept_bytes

    def finish(self) -> None:
        """Raises TruncatedStreamError if the stream ended inside a frame."""
        self._frames.finish()
