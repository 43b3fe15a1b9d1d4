"""How a request reaches a model: codecs, transports, the invoker. Nothing here retries.

    transport = SageMakerTransport("my-endpoint", component="my-endpoint-main", region="us-east-1")
    invoker = Invoker(transport, codec_for("tgi"))
    invocation = await invoker.invoke(GenerationRequest("Once upon a time", max_output_tokens=64))
    invocation.outcome.kind, invocation.first_token_ns, invocation.output_tokens, invocation.token_source

`HttpTransport(url)` reaches OpenAI-compatible servers and bare containers instead, `open_bedrock(model_id, region=…)`
makes an invoker of a model of Bedrock's. Every request gives exactly one `Invocation` with exactly one `Outcome`;
faults of the endpoint never raise. `loadproof.invocation.eventstream` has the frames both ways (a server uses
`encode_payload_part`, `encode_exception`); `loadproof.invocation.endpoints` asks the control plane.
"""

from __future__ import annotations

from loadproof.invocation.asynchronous import AsynchronousTransport
from loadproof.invocation.bedrock import BedrockTransport, open_bedrock
from loadproof.invocation.codecs import (
    ChatMessage,
    Codec,
    Completion,
    GenerationRequest,
    StreamDecoder,
    TokenChunk,
    TokenSource,
    codec_for,
)
from loadproof.invocation.connections import Timeouts
from loadproof.invocation.invoker import Invocation, Invoker
from loadproof.invocation.openai_path import OpenAiPathTransport
from loadproof.invocation.outcomes import Outcome, OutcomeKind, RetryClass
from loadproof.invocation.transports import HttpTransport, SageMakerTransport, Transport

__all__ = [
    "AsynchronousTransport",
    "BedrockTransport",
    "ChatMessage",
    "Codec",
    "Completion",
    "GenerationRequest",
    "HttpTransport",
    "Invocation",
    "Invoker",
    "OpenAiPathTransport",
    "Outcome",
    "OutcomeKind",
    "RetryClass",
    "SageMakerTransport",
    "StreamDecoder",
    "Timeouts",
    "TokenChunk",
    "TokenSource",
    "Transport",
    "codec_for",
    "open_bedrock",
]
