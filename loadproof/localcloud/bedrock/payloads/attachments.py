"""What may stand beside the text of a conversation: pictures, documents and videos, and how many of them.

Limits by the service model (Message, ToolResultBlock). Words as Bedrock told them, as clients of it wrote them down:
https://github.com/anomalyco/models.dev/pull/6821 (documents), https://github.com/aws/aws-sdk-js-v3/issues/7732 (S3) and
https://github.com/simonw/llm-bedrock/issues/8 (names).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from loadproof.catalog.bedrock import BedrockModel
from loadproof.localcloud.bedrock.errors import BedrockError, invalid
from loadproof.localcloud.bedrock.payloads.images import check_image
from loadproof.wire.documents import Document

ATTACHMENTS: Final = ("image", "document", "video", "audio")
# Underscores are not in the reference and pass; of white space a blank alone does (aws-samples/generative-ai-use-cases
# #1671 and vercel/ai #20366, both tried on Bedrock).
_DOCUMENT_NAME: Final = re.compile(r"(?!.*  )[A-Za-z0-9_ ()\[\]-]+")
_MOST_OF_A_MESSAGE: Final = {"image": 20, "document": 5}
_MOST_BYTES: Final = {"image": 3.75 * 1024**2, "document": 4.5 * 1024**2}


def check_attachments(model: BedrockModel, messages: list[Document]) -> None:
    """Raises BedrockError for attachments that the model, or Converse itself, does not take."""
    for at, message in enumerate(messages):
        content = message["content"]
        _check_counts(content, at)
        for place, block in _blocks(content, f"messages.{at}.content"):
            kinds = [kind for kind in ATTACHMENTS if kind in block]
            if kinds and message["role"] != "user":
                raise invalid(f"{place}: images and documents are only allowed in messages of the user role.")
            for kind in kinds:
                _check_one(model, block[kind], kind, place)


def _check_counts(content: list[Document], at: int) -> None:
    if any("document" in block for block in content) and not any("text" in block for block in content):
        raise invalid("A text block must be included when using documents.")
    for kind, most in _MOST_OF_A_MESSAGE.items():
        found = sum(kind in block for block in content)
        if found > most:
            raise invalid(f"messages.{at}.content has {found} {kind}s. You can include up to {most} {kind}s.")


def _blocks(content: list[Document], place: str) -> Iterator[tuple[str, Document]]:
    """The message's own, and those in results of tools."""
    for position, block in enumerate(content):
        yield f"{place}.{position}", block
        for inner, part in enumerate((block.get("toolResult") or {}).get("content") or ()):
            yield f"{place}.{position}.tool_result.content.{inner}", part


def _check_one(model: BedrockModel, attachment: Document, kind: str, place: str) -> None:
    if kind == "document" and not _DOCUMENT_NAME.fullmatch(attachment["name"]):
        raise invalid(
            "The document file name can only contain alphanumeric characters, whitespace characters, hyphens, "
            "parentheses, and square brackets. The name can't contain more than one consecutive whitespace "
            "character. Check that the file name conforms to these restrictions and retry your request."
        )
    if kind in model.converse_lacks or (kind != "document" and not model.image_input):
        raise unsupported(kind)
    source = attachment.get("source") or {}
    if "s3Location" in source and "s3Location" in model.converse_lacks:
        raise invalid(f"{place}.{kind}.source.type: Field required (this model reads no S3 locations: send the bytes)")
    if _size_bytes(source) > _MOST_BYTES.get(kind, float("inf")):
        raise invalid(f"{place}.{kind}.source.bytes: the {kind} exceeds {_MOST_BYTES[kind] / 1024**2:g} MB.")
    if kind == "image":
        check_image(model, attachment, place)


def unsupported(kind: str) -> BedrockError:
    """Of an attachment that the model takes none of."""
    if kind == "document":
        return invalid("This model doesn't support documents.")
    return invalid(f"This model doesn't support the {kind} field. Remove the {kind} field and try again.")


def _size_bytes(source: Document) -> int:
    try:
        return len(base64.b64decode(str(source.get("bytes") or "")))
    except (binascii.Error, ValueError):
        return 0
