"""Payload codecs: TGI, LMI, OpenAI, Bedrock's Converse, and models' own behind its InvokeModel."""

from __future__ import annotations

from typing import Literal, get_args

from invocation.codecs.converse import ConverseCodec
from invocation.codecs.native import ClaudeCodec, LlamaCodec
from invocation.codecs.openai import OpenAiCodec
from invocation.codecs.tokens import LmiCodec, TgiCodec
from invocation.codecs.types import (
    Codec,
    Completion,
    GenerationRequest,
    Message,
    StreamDecoder,
    TokenChunk,
    TokenSource,
)
from loadproof.errors import InputError

PayloadProtocol = Literal["tgi", "lmi", "openai", "openai-chat", "converse", "llama", "claude"]

__all__ = [
    "Codec",
    "Completion",
    "GenerationRequest",
    "Message",
    "PayloadProtocol",
    "StreamDecoder",
    "TokenChunk",
    "TokenSource",
    "codec_for",
]


def codec_for(protocol: str, *, model: str | None = None, service_tier: str | None = None) -> Codec:
    """The codec of a protocol: `tgi`, `lmi`, `openai` (completions), `openai-chat`, `converse`, `llama` or `claude`.

    `model` is the name OpenAI-compatible servers want in the request, `service_tier` a field of Converse's; the others
    have no such fields. Raises InputError for any other name.
    """
    match protocol:
        case "tgi":
            return TgiCodec()
        case "lmi":
            return LmiCodec()
        case "openai" | "openai-chat":
            return OpenAiCodec(chat=protocol == "openai-chat", model=model)
        case "converse":
            return ConverseCodec(service_tier=service_tier)
        case "llama":
            return LlamaCodec()
        case "claude":
            return ClaudeCodec()
    *others, last = get_args(PayloadProtocol)
    raise InputError(f"unknown protocol `{protocol}`; use {', '.join(others)} or {last}")
