"""Pictures are not looked at here, but told by their first bytes: what is none, or is of another kind, is refused.

Words as Bedrock told them: https://github.com/NousResearch/hermes-agent/issues/55429 and
https://github.com/anthropics/claude-code/issues/15746 (Claude), https://github.com/boto/boto3/issues/4415 (Llama).
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from loadproof.catalog.bedrock import BedrockModel
from loadproof.localcloud.bedrock.errors import invalid
from loadproof.wire.documents import Json

_KINDS: Final = {
    "png": (b"\x89PNG\r\n\x1a\n",),
    "jpeg": (b"\xff\xd8\xff",),
    "gif": (b"GIF87a", b"GIF89a"),
}
_FORMATS: Final = (*_KINDS, "webp")
_FROM_MODEL: Final = "The model returned the following errors: "


def check_image(model: BedrockModel, block: Json, place: str) -> None:
    """Of Converse, and of bodies like it. Raises BedrockError unless the bytes are a picture of the said format.

    `place` is where the block stands: `messages.0.content.1`.
    """
    if not isinstance(block, dict) or "bytes" not in (source := block.get("source") or {}):
        return
    fault = _fault(source["bytes"], str(block.get("format")), f"{place}.image.source")
    if fault is None:
        return
    if model.payload != "anthropic":
        fault = "The provided image does not match the specified image format."
    raise invalid(_FROM_MODEL + fault)


def check_claude_image(block: Json, place: str) -> None:
    """Of Claude's own body. Raises BedrockError for another kind of bytes or a format that Claude does not read."""
    source = block.get("source") if isinstance(block, dict) and block.get("type") == "image" else None
    if not isinstance(source, dict) or source.get("type") != "base64":
        return
    named = str(source.get("media_type", "")).removeprefix("image/")
    if named not in _FORMATS:
        raise invalid(
            f"{place}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or "
            "'image/webp'"
        )
    if (fault := _fault(source.get("data"), named, f"{place}.image.source")) is not None:
        raise invalid(fault)


def _fault(encoded: Json, named: str, place: str) -> str | None:
    found = _kind(_decoded(encoded))
    if found == named:
        return None
    if found is None:
        return "Could not process image"
    return (
        f"{place}.base64: The image was specified using the image/{named} media type, but the image appears to be a "
        f"image/{found} image"
    )


def _decoded(encoded: Json) -> bytes:
    try:
        return base64.b64decode(str(encoded), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _kind(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return next((kind for kind, starts in _KINDS.items() if data.startswith(starts)), None)
