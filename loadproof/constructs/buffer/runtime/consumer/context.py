"""Requests that cannot fit the model's context, refused before anything is paid for; only where that is certain."""

from __future__ import annotations

from typing import Final

from loadproof.wire.documents import Document

_MOST_TOKENS: Final = ("max_tokens", "max_completion_tokens", "max_new_tokens", "maxTokens")
_TRUNCATING: Final = ("truncate", "truncate_prompt_tokens")  # the server may shorten the prompt by itself


def too_long(request: Document, context_tokens: int) -> str | None:
    """Why the request cannot fit, or None. `context_tokens` 0: not known.

    Every word between blanks is at least one token, so words + tokens asked for is the least that it can take.
    """
    if not context_tokens:
        return None
    places = [request, *(request[name] for name in ("parameters", "inferenceConfig") if name in request)]
    options = {name: value for place in places if isinstance(place, dict) for name, value in place.items()}
    asked = max((value for name in _MOST_TOKENS if isinstance(value := options.get(name), int)), default=0)
    truncating = any(options.get(name) is not None for name in _TRUNCATING)
    words = 0 if truncating else _words(request)
    if words + asked <= context_tokens:
        return None
    prompt = f"a prompt of at least {words:,} tokens and " if words else ""
    return f"{prompt}{asked:,} tokens asked for exceed the model's context of {context_tokens:,}"


def _words(request: Document) -> int:
    texts = [request.get("inputs"), request.get("prompt")]
    messages = request.get("messages")
    if isinstance(messages, list):
        texts += [message.get("content") for message in messages if isinstance(message, dict)]
    return sum(_words_of(text) for text in texts)


def _words_of(content: object) -> int:
    """A text, or a message's content parts. A list of prompts is a batch of its own kind, and is not counted."""
    if isinstance(content, str):
        return len(content.split())
    if isinstance(content, list):
        return sum(
            len(part["text"].split())
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return 0
