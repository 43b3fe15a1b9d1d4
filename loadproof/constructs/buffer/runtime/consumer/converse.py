"""Bedrock's Converse: a request out of JSON, and one answer out of the stream's events."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from loadproof.wire.converse import FAILED_REASONS, prompt_tokens
from loadproof.wire.documents import Document

from .answer import StreamError
from .failures import Kind, ModelFailure


def converse_request(request: Document) -> Document:
    """Converse's arguments; images and documents, base64 in JSON, become bytes. Raises ModelFailure (poison)."""
    decoded: Document = _decoded(request)
    return decoded


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _bytes_of(entry) if name == "bytes" and isinstance(entry, str) else _decoded(entry)
            for name, entry in value.items()
        }
    return [_decoded(entry) for entry in value] if isinstance(value, list) else value


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ModelFailure(Kind.POISON, "`bytes` of an image or document is not base64", sent=False) from None


class ConverseAnswer:
    """Fed with ConverseStream's events; the answer has the shape of a chat answer's."""

    def __init__(self) -> None:
        self._role = "assistant"
        self._text = ""
        self._reasoning = ""
        self._tools: dict[int, Document] = {}
        self._reason: str | None = None
        self._usage: Document | None = None

    def feed(self, event: Mapping[str, Any]) -> None:
        """Raises StreamError for what is not an event of this stream; unknown events are passed over."""
        try:
            self._event(event)
        except (AttributeError, LookupError, TypeError):
            raise StreamError("the stream holds an event of an unknown shape") from None

    def finish(self) -> Document:
        """As AnswerBuilder.finish. Raises StreamError without `messageStop`."""
        if self._reason is None:
            raise StreamError("the stream ended without the model's end marker")
        if self._reason in FAILED_REASONS:
            raise StreamError(f"the model ended its answer as {self._reason}")
        message: Document = {"role": self._role, "content": self._text}
        if self._reasoning:
            message["reasoning_content"] = self._reasoning
        if self._tools:
            message["tool_calls"] = [self._tools[index] for index in sorted(self._tools)]
        return {"choices": [{"index": 0, "message": message, "finish_reason": self._reason}], "usage": self._usage}

    def _event(self, event: Mapping[str, Any]) -> None:
        if "messageStart" in event:
            self._role = event["messageStart"]["role"]
        elif "contentBlockStart" in event:
            block = event["contentBlockStart"]
            tool = block["start"].get("toolUse")
            if tool is not None:
                self._tools[block["contentBlockIndex"]] = {
                    "id": tool["toolUseId"],
                    "type": "function",
                    "function": {"name": tool["name"], "arguments": ""},
                }
        elif "contentBlockDelta" in event:
            self._delta(event["contentBlockDelta"])
        elif "messageStop" in event:
            self._reason = event["messageStop"]["stopReason"]
        elif "metadata" in event:
            usage = event["metadata"]["usage"]
            cached = (usage.get(name) for name in ("cacheReadInputTokens", "cacheWriteInputTokens"))
            prompt = prompt_tokens(usage["inputTokens"], *cached)
            self._usage = {"prompt_tokens": prompt, "completion_tokens": usage["outputTokens"]}

    def _delta(self, block: Mapping[str, Any]) -> None:
        delta = block["delta"]
        self._text += delta.get("text", "")
        self._reasoning += delta.get("reasoningContent", {}).get("text", "")
        if "toolUse" in delta:
            self._tools[block["contentBlockIndex"]]["function"]["arguments"] += delta["toolUse"]["input"]
