"""Payload codecs, one module a protocol: servers', Bedrock's Converse, and models' own behind its InvokeModel."""

from __future__ import annotations

from typing import get_args

from loadproof.errors import InputError
from loadproof.invocation.codecs import claude, converse, llama, lmi, openai, tgi
from loadproof.invocation.codecs.types import (
    ChatMessage,
    Codec,
    Completion,
    GenerationRequest,
    PayloadProtocol,
    StreamDecoder,
    TokenChunk,
    TokenSource,
)
from loadproof.wire.payloads import PayloadName

__all__ = [
    "ChatMessage",
    "Codec",
    "Completion",
    "GenerationRequest",
    "PayloadProtocol",
    "StreamDecoder",
    "TokenChunk",
    "TokenSource",
    "codec_for",
    "payload_protocol",
]


def payload_protocol(name: PayloadName) -> PayloadProtocol:
    """A protocol as its module has it."""
    match name:
        case "tgi":
            return tgi.PROTOCOL
        case "lmi":
            return lmi.PROTOCOL
        case "openai":
            return openai.PROTOCOL
        case "openai-chat":
            return openai.CHAT
        case "converse":
            return converse.PROTOCOL
        case "llama":
            return llama.PROTOCOL
        case "claude":
            return claude.PROTOCOL


def codec_for(protocol: str, *, model: str | None = None, service_tier: str | None = None) -> Codec:
    """The codec of a protocol (`openai`: completions).

    `model` is the name OpenAI-compatible servers want in the request, `service_tier` a field of Converse's; the others
    have no such fields. Raises InputError for a name that is none.
    """
    for name in get_args(PayloadName):
        if name == protocol:
            return payload_protocol(name).codec(model, service_tier)
    *others, last = get_args(PayloadName)
    raise InputError(f"unknown protocol `{protocol}`; use {', '.join(others)} or {last}")
