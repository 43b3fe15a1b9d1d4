"""Converse and ConverseStream: one format for every model.

Tools and what a model lacks are refused in Bedrock's words, as clients of it told them:
https://github.com/567-labs/instructor/issues/1753, https://github.com/langchain-ai/langchain-aws/issues/447,
https://github.com/agno-agi/agno/issues/6698, https://github.com/langgenius/dify/issues/17545,
https://github.com/n8n-io/n8n/issues/14206, https://github.com/run-llama/llama_index/issues/19886 and
https://github.com/maximhq/bifrost/pull/5817.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Final

import orjson
from botocore.model import Shape
from moto.core.utils import get_service_model

from loadproof.catalog.bedrock import BedrockModel
from loadproof.invocation.eventstream import encode_frame
from loadproof.localcloud.bedrock.errors import BedrockError, invalid
from loadproof.localcloud.bedrock.payloads.attachments import ATTACHMENTS, check_attachments
from loadproof.localcloud.bedrock.payloads.bodies import ONE_OF_TWO, takes_one_of_two
from loadproof.localcloud.bedrock.payloads.parsed import ParsedRequest, Timing, parsed_request
from loadproof.localcloud.wire import AwsError, check
from loadproof.wire.documents import Document

_LACKING: Final = {
    "system": "This model doesn't support system messages. Try again without a system message or use a model that "
    "supports system messages.",
    "toolConfig": "This model doesn't support tool use.",
    "toolConfig.stream": "This model doesn't support tool use in streaming mode.",
}


def read(
    model: BedrockModel, body: bytes, identifier: str, *, stream: bool = False
) -> tuple[ParsedRequest, ConverseWriter]:
    """Raises BedrockError for what Bedrock would refuse: shapes by AWS's own model, then the conversation itself."""
    fields = _fields(body, identifier)
    messages = fields.get("messages") or []
    _check_lacking(model, fields, stream=stream)
    _check_turns(messages)
    _check_tools(messages, fields.get("toolConfig") or {})
    check_attachments(model, messages)
    texts = [block["text"] for block in fields.get("system") or [] if "text" in block]
    attachments = 0
    for at, message in enumerate(messages):
        for position, block in enumerate(message["content"]):
            if "text" in block and not block["text"].strip():
                raise invalid(
                    f"The text field in the ContentBlock object at messages.{at}.content.{position} is blank. Add "
                    "text to the text field, and try again."
                )
            texts.append(_text_of(block))
            attachments += any(name in block for name in ATTACHMENTS)
    if fields.get("guardrailConfig"):
        raise no_guardrail()
    config = fields.get("inferenceConfig") or {}
    given = config.keys() | (fields.get("additionalModelRequestFields") or {}).keys()
    if takes_one_of_two(model.model_id) and "temperature" in given and given & {"topP", "top_p"}:
        raise invalid(f"The model returned the following errors: {ONE_OF_TWO}")
    tier = (fields.get("serviceTier") or {}).get("type")
    check_tier(model, tier)
    parsed = parsed_request(
        model,
        "\n".join(texts),
        attachments=attachments,
        max_tokens=config.get("maxTokens"),
        stop_sequences=config.get("stopSequences") or (),
    )
    return parsed, ConverseWriter(parsed, tier)


def no_guardrail() -> BedrockError:
    """There are none here, and an answer that one would have stopped must not look as if it had passed."""
    return invalid("The guardrail identifier or version provided in the request does not exist.")


def check_tier(model: BedrockModel, tier: str | None) -> None:
    """Raises BedrockError for a tier that the model does not have."""
    if tier is not None and tier not in model.tiers:
        raise invalid(f"The service tier {tier} is not supported for model {model.model_id}.")


class ConverseWriter:
    """One answer, whole or as a stream of events."""

    def __init__(self, parsed: ParsedRequest, tier: str | None) -> None:
        self._parsed = parsed
        self._tier = {} if tier is None else {"serviceTier": {"type": tier}}

    def opening(self) -> bytes:
        return event_frame("messageStart", {"role": "assistant"})

    def token(self, text: str, index: int) -> bytes:
        if not text:  # hidden: part of a stop sequence
            return b""
        return event_frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}})

    def closing(self, timing: Timing) -> bytes:
        metadata = {"usage": self.usage(), "metrics": {"latencyMs": round(timing.last_token_ms)}, **self._tier}
        return (
            event_frame("contentBlockStop", {"contentBlockIndex": 0})
            + event_frame("messageStop", {"stopReason": self._parsed.stop_reason})
            + event_frame("metadata", metadata)
        )

    def unary(self, timing: Timing) -> bytes:
        message = {"role": "assistant", "content": [{"text": self._parsed.text}]}
        return orjson.dumps(
            {
                "output": {"message": message},
                "stopReason": self._parsed.stop_reason,
                "usage": self.usage(),
                "metrics": {"latencyMs": round(timing.last_token_ms)},
                **self._tier,
            }
        )

    def usage(self) -> dict[str, int]:
        parsed = self._parsed
        return {
            "inputTokens": parsed.input_tokens,
            "outputTokens": parsed.output_tokens,
            "totalTokens": parsed.input_tokens + parsed.output_tokens,
        }


def event_frame(event_type: str, payload: Document) -> bytes:
    headers = {":event-type": event_type, ":content-type": "application/json", ":message-type": "event"}
    return encode_frame(headers, orjson.dumps(payload))


def _fields(body: bytes, identifier: str) -> Document:
    try:
        fields = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise BedrockError("ValidationException", f"The request body is not valid JSON: {error}") from None
    if not isinstance(fields, dict):
        raise invalid("The request body must be a JSON object.")
    fields.pop("modelId", None)
    try:
        check(input_shape(), {**fields, "modelId": identifier})
    except AwsError as error:
        raise invalid(error.message) from None
    return fields


@cache
def input_shape() -> Shape:
    """Converse's members and their constraints; ConverseStream has the same."""
    return get_service_model("bedrock-runtime").operation_model("Converse").input_shape


def _check_turns(messages: list[Document]) -> None:
    roles = [message["role"] for message in messages]
    if not roles or roles[0] != "user":
        raise invalid("A conversation must start with a user message. Try again with a conversation that does.")
    if any(one == other for one, other in pairwise(roles)):
        raise invalid(
            "A conversation must alternate between user and assistant roles. Make sure the conversation alternates "
            "between user and assistant roles and try again."
        )
    if any(not message["content"] for message in messages):
        raise invalid("The content field in the Message object is empty. Add a ContentBlock object and try again.")


def _check_lacking(model: BedrockModel, fields: Document, *, stream: bool) -> None:
    for name, said in _LACKING.items():
        field, _, streamed = name.partition(".")
        if name in model.converse_lacks and fields.get(field) and (stream or not streamed):
            raise invalid(said)
    for choice in (fields.get("toolConfig") or {}).get("toolChoice") or ():
        if f"toolChoice.{choice}" in model.converse_lacks:
            field = f"toolConfig.toolChoice.{choice}"
            raise invalid(f"This model doesn't support the {field} field. Remove {field} and try again.")


def _check_tools(messages: list[Document], config: Document) -> None:
    """Every use of a tool has its result in the turn after it, and a result its use; a tool's input is an object; what
    must be used is among the tools."""
    wanted = ((config.get("toolChoice") or {}).get("tool") or {}).get("name")
    if wanted is not None and wanted not in [(one.get("toolSpec") or {}).get("name") for one in config["tools"]]:
        raise invalid(f"The toolChoice names a tool that is not in toolConfig.tools: {wanted}")  # words from memory
    names = [(one.get("toolSpec") or {}).get("name") for one in config.get("tools") or ()]
    for at, name in enumerate(names):
        if name is not None and name in names[:at]:  # words from memory
            raise invalid(f"The tool {name} is already defined at toolConfig.tools.{names.index(name)}.")
    used: list[str] = []
    for at, message in enumerate(messages):
        results = _tool_ids(message, "toolResult")
        if len(results) > len(used):
            raise invalid(
                f"The number of toolResult blocks at messages.{at}.content exceeds the number of toolUse blocks of "
                "previous turn."
            )
        if not set(results) <= set(used):
            raise invalid(f"messages.{at}.content: unexpected toolUseId found in toolResult blocks")
        _check_answered(used, results, at)
        used = _tool_ids(message, "toolUse")
        if (used or results) and not config:
            raise invalid("The toolConfig field must be defined when using toolUse and toolResult content blocks.")
    _check_answered(used, [], len(messages))
    for at, tool in enumerate(config.get("tools") or ()):
        schema = ((tool.get("toolSpec") or {}).get("inputSchema") or {}).get("json")
        if isinstance(schema, dict) and schema.get("type") != "object":
            raise invalid(
                f"The value at toolConfig.tools.{at}.toolSpec.inputSchema.json.type must be one of the following: "
                "object."
            )


def _check_answered(used: list[str], results: list[str], at: int) -> None:
    missing = [one for one in used if one not in results]
    if missing:
        raise invalid(
            f"Expected toolResult blocks at messages.{at}.content for the following Ids: {', '.join(missing)}"
        )


def _tool_ids(message: Document, kind: str) -> list[str]:
    return [block[kind]["toolUseId"] for block in message["content"] if kind in block]


def _text_of(block: Document) -> str:
    """What a block counts by, beside attachments: its text, or a tool's call and result as written."""
    if "text" in block:
        return str(block["text"])
    tool = block.get("toolUse") or block.get("toolResult")
    return orjson.dumps(tool).decode() if tool else ""
