"""Workloads that have a name: shapes of requests that published benchmarks of LLM endpoints use again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NamedWorkload:
    """Prompt and answer lengths of every request."""

    input_tokens: int
    output_tokens: int
    description: str


NAMED_WORKLOADS: Final[dict[str, NamedWorkload]] = {
    "chat-256-256": NamedWorkload(256, 256, "a chat turn, question and answer of equal length"),
    "generate-32-128": NamedWorkload(32, 128, "a short instruction, a paragraph written"),
    "classify-256-32": NamedWorkload(256, 32, "a passage read, a label or a line answered"),
    "summarize-3840-256": NamedWorkload(3840, 256, "a long document read, a summary written"),
}
