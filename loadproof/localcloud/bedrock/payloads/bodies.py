"""What providers refuse of InvokeModel's bodies: keys that they do not know, values out of bounds.

Sources: Amazon Bedrock user guide, "Inference request parameters", Anthropic Claude Messages and Meta Llama models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from loadproof.localcloud.bedrock.payloads.parsed import malformed

_ANTHROPIC = {
    "anthropic_version", "anthropic_beta", "max_tokens", "messages", "system", "temperature", "top_p", "top_k",
    "stop_sequences", "tools", "tool_choice", "thinking", "metadata", "output_config", "output_format",
    "context_management",
}  # fmt: skip
_META = {"prompt", "temperature", "top_p", "max_gen_len", "images"}
_VERSION = "bedrock-2023-05-31"
_MOST_GEN_LEN = 8192
# https://docs.aws.amazon.com/nova/latest/userguide/complete-request-schema.html; the older names of its settings too
_NOVA = {
    "schemaVersion", "system", "messages", "inferenceConfig", "toolConfig", "reasoningConfig",
    "amazon-bedrock-guardrailConfig",
}  # fmt: skip
_NOVA_SETTINGS = {
    "maxTokens", "temperature", "topP", "topK", "stopSequences", "reasoningConfig", "max_new_tokens", "top_p", "top_k",
}  # fmt: skip
# https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-mistral-text-completion.html
_MISTRAL = {"prompt", "max_tokens", "stop", "temperature", "top_p", "top_k"}
# Since Claude Opus 4.1 one of both: Anthropic's notes on migrating to Claude 4.5.
_ONE_OF_TWO = re.compile(r"claude-(opus-4-[15678]|sonnet-4-[56]|haiku-4-5)")
ONE_OF_TWO = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
_LEAST_BUDGET = 1024
_ROLES = ("user", "assistant")


def takes_one_of_two(model_id: str) -> bool:
    """Whether a model takes temperature or top_p, and not both."""
    return _ONE_OF_TWO.search(model_id) is not None


def check_anthropic(fields: Mapping[str, Any], model_id: str) -> None:
    """Raises BedrockError for a body that Claude does not take."""
    _check_keys(fields, _ANTHROPIC)
    if fields.get("anthropic_version") != _VERSION:
        raise malformed("#: required key [anthropic_version] not found")
    for at, message in enumerate(fields.get("messages") or ()):
        if isinstance(message, dict) and message.get("role") not in _ROLES:
            raise malformed(f"messages.{at}.role: Input should be 'user' or 'assistant'")
        last = at == len(fields["messages"]) - 1 and message.get("role") == "assistant"
        if isinstance(message, dict) and message.get("content") in ("", []) and not last:
            raise malformed(
                f"messages.{at}: all messages must have non-empty content except for the optional final assistant "
                "message"
            )
    _check_share(fields, "temperature")
    _check_share(fields, "top_p")
    if takes_one_of_two(model_id) and {"temperature", "top_p"} <= fields.keys():
        raise malformed(ONE_OF_TWO)
    if "tool_choice" in fields and not fields.get("tools"):
        raise malformed("tool_choice: may only be specified while providing tools")
    _check_thinking(fields)


def _check_thinking(fields: Mapping[str, Any]) -> None:
    thinking = fields.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if not isinstance(budget, int):
        return
    if budget < _LEAST_BUDGET:
        raise malformed(f"thinking.enabled.budget_tokens: Input should be greater than or equal to {_LEAST_BUDGET}")
    most = fields.get("max_tokens")
    if isinstance(most, int) and most <= budget and not fields.get("anthropic_beta"):
        raise malformed("`max_tokens` must be greater than `thinking.budget_tokens`")


def check_meta(fields: Mapping[str, Any]) -> None:
    """Raises BedrockError for a body that Llama does not take."""
    _check_keys(fields, _META)
    _check_share(fields, "temperature")
    _check_share(fields, "top_p")
    most = fields.get("max_gen_len")
    if most is not None and (not isinstance(most, int) or not 1 <= most <= _MOST_GEN_LEN):
        raise malformed(f"#/max_gen_len: {most} is not between 1 and {_MOST_GEN_LEN}")


def check_mistral(fields: Mapping[str, Any]) -> None:
    """Raises BedrockError for a key that Mistral's text completion does not take."""
    _check_keys(fields, _MISTRAL)


def check_nova(fields: Mapping[str, Any]) -> None:
    """Raises BedrockError for a key that Nova does not take; a body without messages is refused for that."""
    if "messages" not in fields:
        return
    _check_keys(fields, _NOVA)
    settings = fields.get("inferenceConfig")
    if isinstance(settings, dict):
        _check_keys(settings, _NOVA_SETTINGS, "/inferenceConfig")


def _check_keys(fields: Mapping[str, Any], known: set[str], place: str = "") -> None:
    unknown = sorted(fields.keys() - known)
    if unknown:
        raise malformed(f"#{place}: extraneous key [{unknown[0]}] is not permitted")


def _check_share(fields: Mapping[str, Any], name: str) -> None:
    value = fields.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1):
        raise malformed(f"#/{name}: {value} is not between 0.0 and 1.0")
