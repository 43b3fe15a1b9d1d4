"""The twin's tokenizer and its text: one word is one token, in both directions.

A prompt of N whitespace-separated words counts N tokens, so a workload that asks for 256 tokens sends 256 words and is
answered with a usage of exactly 256. Chat messages count the words of their contents; the twin adds no template tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

_TEXT = (
    "the endpoint serves each request in turn and keeps its cache warm while other copies wait for work to arrive "
    "from a queue that never grows past what memory can hold so that latency stays flat until the knee is reached "
    "then every further stream pays for little more throughput with much more time between two tokens of text"
)
_WORDS = tuple(_TEXT.split())


def count_tokens(text: str) -> int:
    """Tokens of a prompt under the twin's rule, at least 1 (a real tokenizer adds its own start token)."""
    return max(1, len(text.split()))


def count_message_tokens(messages: Iterable[object]) -> int:
    """Tokens of a chat: words of every content, string or list of `{"type": "text", "text": ...}` parts."""
    words = 0
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            words += len(content.split())
        elif isinstance(content, list):
            texts = (part.get("text") for part in content if isinstance(part, dict))
            words += sum(len(text.split()) for text in texts if isinstance(text, str))
    return max(1, words)


def token_id(seed: int, index: int) -> int:
    """The id of answer token `index`: a position in the word list, spread by a multiplicative hash of the seed."""
    return (seed * 2654435761 + index * 40503) % 2**32 % len(_WORDS)


def token_text(seed: int, index: int) -> str:
    """Answer token `index`: a space and a word, as byte-pair tokenizers cut English."""
    return f" {_WORDS[token_id(seed, index)]}"


def answer_text(seed: int, tokens: int) -> str:
    """The first `tokens` tokens of the answer, as one string."""
    return "".join(token_text(seed, index) for index in range(tokens))
