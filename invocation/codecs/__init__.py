"""Payload codecs: TGI, LMI, OpenAI."""

from __future__ import annotations

from typing import Literal

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

PayloadProtocol = Literal["tgi", "lmi", "openai", "openai-chat"]

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


def codec_for(protocol: str, *, model: str | None = None) -> Codec:
    """The codec of a protocol: `tgi`, `lmi`, `openai` (completions) or `openai-chat`.

    `model` is the name OpenAI-compatible servers want in the request; the others have no such field.
    Raises InputError for any other name.
    """
    if protocol == "tgi":
        return TgiCodec()
    if protocol == "lmi":
        return LmiCodec()
    if protocol in ("openai", "openai-chat"):
        return OpenAiCodec(chat=protocol == "openai-chat", model=model)
    raise InputError(f"unknown protocol `{protocol}`; use tgi, lmi, openai or openai-chat")
