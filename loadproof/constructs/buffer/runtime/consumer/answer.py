"""From a model's stream to one answer: TGI and OpenAI server-sent events, LMI JSON lines, in any chunking.

A stream that merely stops is not an answer: only the model's own end marker (a finish reason, or TGI's and LMI's
closing `generated_text`) makes one.
"""

from __future__ import annotations

import json
from typing import Final

from loadproof.wire.documents import Document
from loadproof.wire.lines import Lines

from .failures import Kind, ModelFailure, in_band

_FAILED_REASONS: Final = ("abort", "error")  # servers that give up still end the stream in order


class StreamError(ModelFailure):
    """The stream broke or ended without its end marker."""

    def __init__(self, reason: str) -> None:
        super().__init__(Kind.TRY_AGAIN, reason)


def streaming_request(request: Document, protocol: str) -> Document:
    """The request, asking for a stream that tells its token counts. `protocol` is the container's own."""
    wanted: Document = request | {"stream": True}
    if protocol in ("tgi", "lmi") and "inputs" in request:
        parameters = request.get("parameters")
        # On /invocations TGI repeats the prompt in front of the answer unless told not to.
        defaults = {"return_full_text": False} if protocol == "tgi" else {}
        wanted["parameters"] = defaults | (parameters if isinstance(parameters, dict) else {}) | {"details": True}
    else:
        options = request.get("stream_options")
        wanted["stream_options"] = (options if isinstance(options, dict) else {}) | {"include_usage": True}
    return wanted


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
        self._choices: dict[int, Document] = {}
        self._usage: Document | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Raises ModelFailure when the model reports an error or talks nonsense."""
        for line in self._lines.feed(data):
            self._line(line)

    def finish(self) -> Document:
        """The answer: `{"choices": [{"index", "text" or "message", "finish_reason"}], "usage": … or None}`.

        Raises StreamError unless every choice has ended.
        """
        self._line(self._lines.flush())
        reasons = [choice["finish_reason"] for choice in self._choices.values()]
        if len(reasons) < self._expected or None in reasons:
            raise StreamError("the stream ended without the model's end marker")
        if any(reason in _FAILED_REASONS for reason in reasons):
            raise StreamError("the model gave up in the middle of its answer")
        return {"choices": [self._choices[index] for index in sorted(self._choices)], "usage": self._usage}

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
        error = event.get("error")
        if error or event.get("object") == "error":
            inner = error if isinstance(error, dict) else event
            codes = (inner.get(name) for name in ("type", "error_type", "code"))
            raise in_band(" ".join(str(code) for code in codes if code is not None))
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        for part in event.get("choices") or ():
            self._openai_part(part)
        if "token" in event or "generated_text" in event:
            self._tgi_part(event)

    def _tgi_part(self, event: Document) -> None:
        """TGI's and LMI's shape; the last event repeats the whole text, which is the one to trust."""
        choice = self._choices.setdefault(0, {"index": 0, "text": "", "finish_reason": None})
        token = event.get("token") or {}
        if not token.get("special"):
            choice["text"] += token.get("text") or ""
        whole, details = event.get("generated_text"), event.get("details") or {}
        if isinstance(whole, str):
            choice["text"] = whole
            choice["finish_reason"] = details.get("finish_reason") or "unknown"
            if "generated_tokens" in details:
                self._usage = {
                    "prompt_tokens": details.get("input_length"),
                    "completion_tokens": details["generated_tokens"],
                }

    def _openai_part(self, part: Document) -> None:
        """Chat deltas and completion texts; a choice begins with its first part."""
        index = int(part.get("index", 0))
        choice = self._choices.setdefault(index, {"index": index, "finish_reason": None})
        delta = part.get("delta")
        if isinstance(delta, dict):
            _merge(choice.setdefault("message", {}), delta)
        else:
            choice["text"] = choice.get("text", "") + (part.get("text") or "")
        choice["finish_reason"] = part.get("finish_reason") or choice["finish_reason"]


_WHOLE = frozenset({"role", "id", "type", "name"})  # sent once, never in pieces
_MOST_TOOL_CALLS = 128  # an index is the model's own word: it must not decide how much memory is taken


def _merge(whole: Document, delta: Document) -> None:
    """Add a delta to what is there: texts grow, `tool_calls` entries grow by their index, the rest is set."""
    for name, value in delta.items():
        if value is None:
            continue
        if name == "tool_calls":
            calls = whole.setdefault(name, [])
            for position, call in enumerate(value):
                index = call.get("index", position)
                if not 0 <= index < _MOST_TOOL_CALLS:
                    raise IndexError(index)
                while len(calls) <= index:
                    calls.append({})
                _merge(calls[index], {key: entry for key, entry in call.items() if key != "index"})
        elif isinstance(value, dict):
            _merge(whole.setdefault(name, {}), value)
        elif isinstance(value, str) and name not in _WHOLE:
            whole[name] = whole.get(name, "") + value
        else:
            whole[name] = value
