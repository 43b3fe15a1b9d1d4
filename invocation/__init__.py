"""How a request reaches a model: codecs, transports, the invoker. Nothing here retries.

    transport = SageMakerTransport("my-endpoint", component="my-endpoint-main", region="us-east-1")
    invoker = Invoker(transport, codec_for("tgi"))
    invocation = await invoker.invoke(GenerationRequest("Once upon a time", max_output_tokens=64))
    invocation.outcome.kind, invocation.first_token_ns, invocation.output_tokens, invocation.token_source

`HttpTransport(url)` reaches OpenAI-compatible servers and bare containers instead, `open_bedrock(model_id, region=…)`
makes an invoker of a model of Bedrock's. Every request gives exactly one `Invocation` with exactly one `Outcome`;
faults of the endpoint never raise. `invocation.eventstream` has the frames both ways (a server uses
`encode_payload_part`, `encode_exception`); `invocation.endpoints` asks the control plane.
"""

from __future__ import annotations

from invocation.asynchronous import AsynchronousTransport
from invocation.bedrock import BedrockTransport, open_bedrock
from invocation.codecs import (
    Codec,
    Completion,
    GenerationRequest,
    Message,
    StreamDecoder,
    TokenChunk,
    TokenSource,
    codec_for,
)
from invocation.connections import Timeouts
from invocation.invoker import Invocation, Invoker
from invocation.openai_path import OpenAiPathTransport
from invocation.outcomes import Outcome, OutcomeKind, RetryClass
from invocation.transports import HttpTransport, SageMakerTransport, Transport

__all__ = [
    "AsynchronousTransport",
    "BedrockTransport",
    "Codec",
    "Completion",
    "GenerationRequest",
    "HttpTransport",
    "Invocation",
    "Invoker",
    "Message",
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
