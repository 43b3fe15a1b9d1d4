"""Bedrock's Converse, as far as both its readers must agree on it."""

from __future__ import annotations

from typing import Final

FAILED_REASONS: Final = frozenset({"malformed_model_output", "malformed_tool_use"})  # of an answer that ended in order


def prompt_tokens(new: int, cache_read: int | None, cache_written: int | None) -> int:
    """Tokens of a whole prompt: `inputTokens` leaves out what the prompt cache had or took."""
    return new + (cache_read or 0) + (cache_written or 0)
