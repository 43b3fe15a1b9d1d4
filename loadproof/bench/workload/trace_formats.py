"""Formats of recorded traffic: their fields, how they tell time, and what they lack.

Mooncake (milliseconds since the first request, blocks of 512 tokens by id), Bailian's (the same fields in seconds,
blocks of 16 tokens, and which request each goes on from: https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon),
Azure's LLM inference traces of 2023 and 2024 (dates), BurstGPT (seconds; a row without tokens is one that failed),
OpenTelemetry's spans of generative AI (one span a line as the SDKs print it, or OTLP's JSON as the collector's file
exporter writes it), the log of requests that LiteLLM's gateway keeps (`LiteLLM_SpendLogs`), and Loadproof's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from loadproof.errors import InputError

Row = Mapping[str, object]
BLOCK_TOKENS: Final = 512  # of Mooncake's hash_ids


class TraceError(InputError):
    """What is wrong with recorded traffic. What was found may quote it; `places` and `unquoted` never do."""

    def __init__(self, *problems: tuple[str, str], unquoted: Mapping[str, str] | None = None) -> None:
        """Each a place, and what was found there and what is allowed; `unquoted`: of places, what is allowed."""
        super().__init__("\n".join(f"{place}: {what}" for place, what in problems))
        self.problems = problems
        self.places = tuple(dict.fromkeys(place for place, _ in problems))
        self.unquoted = unquoted or {}


class BadRowError(ValueError):
    """What is wrong with a row, and the same `unquoted`: without what the row holds."""

    def __init__(self, said: str, unquoted: str) -> None:
        super().__init__(said)
        self.unquoted = unquoted


def bad_field(name: str, found: object, expected: str) -> BadRowError:
    return BadRowError(f"{name} {found!r}: expected {expected}", f"{name}: expected {expected}")


def is_capture(line: object) -> bool:
    """Whether a line of JSON is SageMaker's data capture or Bedrock's invocation log."""
    return isinstance(line, dict) and ("captureData" in line or line.get("schemaType") == "ModelInvocationLog")


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """The fields of one format's rows, in the order time, input tokens, output tokens.

    `seconds` reads the time, and raises ValueError for what is none: `allowed` says what one looks like. With `failed`
    a row without tokens is a request that failed, and is left out. `dated`: times are the epoch's. `conversation`
    may name a row's own, and `parent` the one that this goes on from. `marked` is the field that tells the format from
    another with the same fields. With `as_they_end` rows are written when requests end: they are sorted. `ended`, a
    time, or `took`, seconds, may tell when the whole answer was there.
    """

    name: str
    fields: tuple[str, str, str]
    seconds: Callable[[object], float]
    allowed: str
    blocks: str | None = None
    block_tokens: int = BLOCK_TOKENS
    marked: str = ""
    conversation: str | None = None
    parent: str | None = None
    failed: bool = False
    dated: bool = False
    as_they_end: bool = False
    ended: str | None = None
    took: str | None = None


def _seconds(found: object) -> float:
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise ValueError
    value = float(found)
    if not math.isfinite(value) or abs(value) > 1e18:
        raise ValueError
    return value


def _date(found: object) -> float:
    """Seconds since 1970 of `2023-11-16 18:17:03.9799600` or `2024-05-10 00:00:00.009930+00:00`; UTC unless it says."""
    if not isinstance(found, str):
        raise ValueError
    read = datetime.fromisoformat(found.strip())
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


OWN: Final = TraceFormat("Loadproof", ("timestamp_s", "input_tokens", "output_tokens"), _seconds, "seconds")
_CONVERSATION: Final = "gen_ai.conversation.id"
SPANS: Final = TraceFormat(
    "OpenTelemetry",
    ("start_time", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
    lambda found: found / 1e9 if isinstance(found, int) else _date(found),
    "a date, or nanoseconds since 1970",
    conversation=_CONVERSATION,
    failed=True,
    dated=True,
    as_they_end=True,
    ended="end_time",
)
# Of prompt and answer: the convention's today, what it was until version 1.26, OpenLLMetry's, OpenInference's.
_SPAN_TOKENS: Final = tuple(
    zip(
        *(
            SPANS.fields[1:],
            ("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"),
            ("llm.usage.prompt_tokens", "llm.usage.completion_tokens"),
            ("llm.token_count.prompt", "llm.token_count.completion"),
        ),
        strict=True,
    )
)
_SESSIONS: Final = (_CONVERSATION, "session.id")  # the convention's, OpenInference's
_NO_ANSWER: Final = ("invoke_agent", "create_agent", "invoke_workflow", "execute_tool", "embeddings")  # or others' sum

FORMATS: Final = (
    OWN,
    TraceFormat(
        "Bailian",
        ("timestamp", "input_length", "output_length"),
        _seconds,
        "seconds",
        blocks="hash_ids",
        block_tokens=16,
        marked="chat_id",
        conversation="chat_id",
        parent="parent_chat_id",
    ),
    TraceFormat(
        "Mooncake",
        ("timestamp", "input_length", "output_length"),
        lambda found: _seconds(found) / 1000,
        "milliseconds",
        blocks="hash_ids",
    ),
    TraceFormat("Azure", ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _date, "a date", dated=True),
    TraceFormat(
        "BurstGPT",
        ("Timestamp", "Request tokens", "Response tokens"),
        _seconds,
        "seconds",
        conversation="Session ID",
        failed=True,
        took="Elapsed time",
    ),
    SPANS,
    TraceFormat(
        "LiteLLM",
        ("startTime", "prompt_tokens", "completion_tokens"),
        _date,
        "a date",
        conversation="session_id",
        failed=True,
        dated=True,
        as_they_end=True,
        ended="endTime",
    ),
)


def format_of(fields: Sequence[str]) -> TraceFormat | None:
    """The format whose fields these rows have; None for an unknown one."""
    return next((one for one in FORMATS if {*one.fields, one.marked} <= {*fields, ""}), None)


def spans_of(line: Row) -> Iterator[Row]:
    """The spans of one line that say how many tokens they took, as flat rows; a line of anything else is itself."""
    if "resourceSpans" in line:
        for resource in _listed(line, "resourceSpans"):
            for scope in _listed(resource, "scopeSpans"):
                for span in _listed(scope, "spans"):
                    yield from _span(span, {str(one.get("key")): _value(one) for one in _listed(span, "attributes")})
    elif "attributes" in line and ("start_time" in line or "startTimeUnixNano" in line):
        attributes = line["attributes"]
        listed = {str(one.get("key")): _value(one) for one in _listed(line, "attributes")}
        yield from _span(line, attributes if isinstance(attributes, dict) else listed)
    else:
        yield line


def _span(span: Row, attributes: Row) -> Iterator[Row]:
    """A span that tells tokens; others, such as tools, embeddings and agents (the sum of theirs), ask no model."""
    counted = [next((attributes[name] for name in names if name in attributes), None) for names in _SPAN_TOKENS]
    if counted == [None, None] or attributes.get("gen_ai.operation.name") in _NO_ANSWER:
        return
    start, end = (span.get(f"{side}TimeUnixNano", span.get(f"{side}_time")) for side in ("start", "end"))
    start, end = (int(time) if isinstance(time, str) and time.isdecimal() else time for time in (start, end))
    tokens = dict(zip(SPANS.fields[1:], (0 if one is None else one for one in counted), strict=True))
    session = next((attributes[name] for name in _SESSIONS if attributes.get(name)), None)
    yield {"start_time": start, "end_time": end, _CONVERSATION: session, **tokens}


def _listed(row: Row, name: str) -> list[Row]:
    found = row.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _value(attribute: Row) -> object:
    """OTLP writes `{"intValue": "12"}`."""
    value = attribute.get("value")
    return next(iter(value.values()), None) if isinstance(value, dict) else value
