"""From a model's stream to one answer: TGI and OpenAI server-sent events, LMI JSON lines, in any chunking.

A stream that merely stops is not an answer: only the model's own end marker (a finish reason, or TGI's and LMI's
closing `generated_text`) makes one.
"""

from __future__ import annotations

import json

from loadproof.wire.documents import Document
from loadproof.wire.lines import Lines
from loadproof.wire.payloads import FAILED_REASONS, Answer, error_of, shapes

from .failures import Kind, ModelFailure, in_band


class StreamError(ModelFailure):
    """The stream broke or ended without its end marker."""

    def __init__(self, reason: str) -> None:
        super().__init__(Kind.TRY_AGAIN, reason)


def choices_asked(request: Document) -> int:
    """How many choices must end: `n` of each prompt. A list of prompts holds texts or lists of token ids."""
    wanted, prompt = request.get("n"), request.get("prompt")
    prompts = prompt if isinstance(prompt, list) and any(isinstance(one, (str, list)) for one in prompt) else [prompt]
    return max(1, wanted if isinstance(wanted, int) else 1) * len(prompts)


class AnswerBuilder:
    """Fed with bytes as they come, in parts that need not end where lines end. `choices` is how many were asked for."""

    def __init__(self, choices: int = 1) -> None:
        self._expected = choices
        self._lines = Lines(StreamError)
        self._answer = Answer()
        self._shapes = shapes()

    def feed(self, data: bytes) -> int:
        """Take the next bytes; how many events they ended. Raises ModelFailure when the model reports an error or talks
        nonsense."""
        lines = [line for line in self._lines.feed(data) if line.strip()]
        for line in lines:
            self._line(line)
        return len(lines)

    def finish(self) -> Document:
        """The answer: `{"choices": [{"index", "text" or "message", "finish_reason"}], "usage": … or None}`.

        Raises StreamError unless every choice has ended.
        """
        self._line(self._lines.flush())
        choices = self._answer.choices
        reasons = [choice["finish_reason"] for choice in choices.values()]
        if len(reasons) < self._expected or None in reasons:
            raise StreamError("the stream ended without the model's end marker")
        if any(reason in FAILED_REASONS for reason in reasons):
            raise StreamError("the model gave up in the middle of its answer")
        return {"choices": [choices[index] for index in sorted(choices)], "usage": self._answer.usage}

    def _line(self, line: bytes) -> None:
        line = line.strip()
        if not line or line.startswith((b":", b"event:", b"id:", b"retry:")):
            return
        payload = line.removeprefix(b"data:").strip()
        if payload in (b"", b"[DONE]"):
            return
        try:
            event = json.loads(payload)
        except (ValueError, RecursionError):
            raise StreamError("the stream holds something that is not JSON") from None
        if not isinstance(event, dict):
            raise StreamError("the stream holds something that is not an object")
        try:
            self._event(event)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise StreamError("the stream holds an event of an unknown shape") from None

    def _event(self, event: Document) -> None:
        if (error := error_of(event)) is not None:
            raise in_band(" ".join(error[0]))
        for shape in self._shapes:
            shape.add(event, self._answer)
