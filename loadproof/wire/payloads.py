"""The payloads that model servers speak: their names, how a stream is asked for, and how an answer's text is read.

A client's codec, the buffer's consumer and the endpoint's proof stand on it; the last two run where nothing else is
installed, and the proof reads answers without knowing the protocol. A protocol is added with its name and a `case`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

Document: TypeAlias = dict[str, Any]

ContainerProtocol = Literal["tgi", "lmi", "openai", "openai-chat"]  # `openai` also takes chat messages
Protocol = Literal[ContainerProtocol, "converse"]  # what a target may be said to speak
PayloadName = Literal[ContainerProtocol, "converse", "llama", "claude"]  # all that have a codec

FAILED_REASONS: Final = frozenset({"abort", "error"})  # servers that give up still end the stream in order
# Reasoning is generated like any other token, but is no part of the answer.
ANSWER_FIELDS: Final = ("content", "refusal")
THOUGHT_FIELDS: Final = ("reasoning_content", "reasoning")
_MOST_TOOL_CALLS: Final = 128  # an index is the model's own word: it must not decide how much memory is taken
_WHOLE_FIELDS: Final = frozenset({"role", "id", "type", "name"})  # sent once, never in pieces


@dataclass(slots=True)
class Answer:
    """What the events of a stream have said: `{"index", "text" or "message", "finish_reason"}` by index, and usage."""

    choices: dict[int, Document] = field(default_factory=dict)
    usage: Document | None = None


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """How answers are written, which several protocols may do alike."""

    text: Callable[[Document], str | None]  # of a whole answer; None: it has another shape
    add: Callable[[Document, Answer], None]  # what an event of a stream says; nothing, where it has another shape


@dataclass(frozen=True, slots=True)
class Payload:
    """What is known of a protocol wherever it is spoken. `title` says whose payload it is, for people."""

    title: str
    shape: AnswerShape
    streaming: Callable[[Document], Document]  # a request, asking for a stream that reports its token counts


def payload_of(protocol: ContainerProtocol) -> Payload:
    match protocol:
        case "tgi":
            # On /invocations TGI repeats the prompt in front of the answer unless it is asked not to.
            return Payload("TGI", _TOKEN_EVENTS, lambda request: _streaming(request, {"return_full_text": False}))
        case "lmi":
            return Payload("LMI", _TOKEN_EVENTS, lambda request: _streaming(request, {}))
        case "openai":
            return Payload("OpenAI", _CHOICES, _streaming_choices)
        case "openai-chat":
            return Payload("OpenAI chat", _CHOICES, _streaming_choices)


def answer_text(answer: Document | list[Document]) -> str | None:
    """The text of a whole answer of any protocol, None for anything else; the reasoning, where it is all there is.

    TGI answers on `/invocations` with a list of one. Raises LookupError, TypeError, AttributeError for broken answers.
    """
    one = answer[0] if isinstance(answer, list) else answer
    return next((text for shape in shapes() if (text := shape.text(one)) is not None), None)


def shapes() -> list[AnswerShape]:
    """Every shape of every protocol: TGI and LMI write OpenAI's too, where they are asked so."""
    return list(dict.fromkeys(payload_of(name).shape for name in get_args(ContainerProtocol)))


def error_of(event: Document) -> tuple[list[str], str] | None:
    """Codes and message of an error object of TGI, LMI, OpenAI or vLLM; None where `event` is no error."""
    error = event.get("error")
    if isinstance(error, dict):
        fields, message = error, error.get("message") or error
    elif error:
        fields, message = event, error
    elif event.get("object") == "error":
        fields, message = event, event.get("message")
    else:
        return None
    return [str(fields[name]) for name in ("error_type", "type", "code") if fields.get(name)], str(message)


def _streaming(request: Document, defaults: Document) -> Document:
    """Of TGI and LMI, whose own requests have `inputs`; others are OpenAI's."""
    if "inputs" not in request:
        return _streaming_choices(request)
    parameters = request.get("parameters")
    asked = defaults | (parameters if isinstance(parameters, dict) else {}) | {"details": True}
    return request | {"stream": True, "parameters": asked}


def _streaming_choices(request: Document) -> Document:
    options = request.get("stream_options")
    asked = (options if isinstance(options, dict) else {}) | {"include_usage": True}
    return request | {"stream": True, "stream_options": asked}


def _generated_text(answer: Document) -> str | None:
    return str(answer["generated_text"]) if "generated_text" in answer else None


def _add_token(event: Document, answer: Answer) -> None:
    """The last event repeats the whole text, which is the one to trust."""
    if "token" not in event and "generated_text" not in event:
        return
    choice = answer.choices.setdefault(0, {"index": 0, "text": "", "finish_reason": None})
    token = event.get("token") or {}
    if not token.get("special"):
        choice["text"] += token.get("text") or ""
    whole, details = event.get("generated_text"), event.get("details") or {}
    if isinstance(whole, str):
        choice["text"] = whole
        choice["finish_reason"] = details.get("finish_reason") or "unknown"
        if "generated_tokens" in details:
            answer.usage = {
                "prompt_tokens": details.get("input_length"),
                "completion_tokens": details["generated_tokens"],
            }


def _choice_text(answer: Document) -> str | None:
    if "choices" not in answer:
        return None
    choice = answer["choices"][0]
    said = choice["message"] if "message" in choice else {"content": choice["text"]}
    texts = ("".join(said.get(name) or "" for name in names) for names in (ANSWER_FIELDS, THOUGHT_FIELDS))
    # A model that thinks may spend all of a short answer on it.
    return next((text for text in texts if text), "")


def _add_choices(event: Document, answer: Answer) -> None:
    """Chat deltas and completion texts; a choice begins with its first part."""
    usage = event.get("usage")
    if isinstance(usage, dict):
        answer.usage = usage
    for part in event.get("choices") or ():
        index = int(part.get("index", 0))
        choice = answer.choices.setdefault(index, {"index": index, "finish_reason": None})
        delta = part.get("delta")
        if isinstance(delta, dict):
            _merge(choice.setdefault("message", {}), delta)
        else:
            choice["text"] = choice.get("text", "") + (part.get("text") or "")
        choice["finish_reason"] = part.get("finish_reason") or choice["finish_reason"]


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
        elif isinstance(value, str) and name not in _WHOLE_FIELDS:
            whole[name] = whole.get(name, "") + value
        else:
            whole[name] = value


_TOKEN_EVENTS: Final = AnswerShape(_generated_text, _add_token)
_CHOICES: Final = AnswerShape(_choice_text, _add_choices)
