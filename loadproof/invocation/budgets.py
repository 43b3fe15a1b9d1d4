"""How much of what a server sends one client takes and keeps: a hostile or broken one must not fill its memory.

| of | at most |
|---|---|
| one event: a frame, a line, the `data:` lines of one | `MOST_EVENT_BYTES` |
| one answer | `MORE_BYTES` and `BYTES_A_TOKEN` for each token asked for; kept whole (no stream) `MOST_BODY_BYTES` |
| events with text in it | `MORE_EVENTS` and `EVENTS_A_TOKEN` for each token asked for |
| values in one JSON text | `MOST_VALUES` |
| an error's body | its first `MOST_ERROR_BYTES`, the rest is let go |
| all answers under way, what they keep at one time | `MOST_KEPT_BYTES`, and a little for each |

Heads, trailers and chunk framing have their bounds in `http1`.
"""

from __future__ import annotations

from typing import Any

import orjson

from loadproof.invocation.faults import BudgetFault

MOST_EVENT_BYTES = 4 * 1024 * 1024
MORE_BYTES, BYTES_A_TOKEN = 4 * 1024 * 1024, 16 * 1024
MOST_BODY_BYTES = 8 * 1024 * 1024
MORE_EVENTS, EVENTS_A_TOKEN = 256, 4
MOST_VALUES = 400_000
MOST_ERROR_BYTES = 64 * 1024
MOST_KEPT_BYTES = 24 * 1024 * 1024
LINE_OVERHEAD_BYTES = 48  # what Python takes for a short line beside its bytes
_FREE_BYTES, _FREE_BYTES_A_TOKEN = 8 * 1024, 128
_BLOCK_BYTES = 64 * 1024
PLAIN_BYTES = 64 * 1024  # JSON this short needs no look before it is parsed


class Memory:
    """What the answers of one client may keep together, beyond the little that each has for itself."""

    def __init__(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self.left_bytes = most_bytes


class Allowance:
    """One answer's budgets. Without asking it keeps `granted_bytes` at most."""

    __slots__ = ("_answer_bytes", "_memory", "_own_bytes", "events", "granted_bytes")

    def __init__(self, tokens: int, memory: Memory) -> None:
        """`tokens` were asked for."""
        self._memory = memory
        self._answer_bytes = MORE_BYTES + BYTES_A_TOKEN * tokens
        self.events = MORE_EVENTS + EVENTS_A_TOKEN * tokens
        self._own_bytes = self.granted_bytes = _FREE_BYTES + _FREE_BYTES_A_TOKEN * tokens

    def take(self, received_bytes: int) -> None:
        """So much of the answer has come. Raises BudgetFault."""
        if received_bytes > self._answer_bytes:
            raise BudgetFault("AnswerTooLong", f"the answer is longer than {self._answer_bytes:,} bytes")

    def count(self, events: int) -> None:
        """So many events had text in them. Raises BudgetFault."""
        if events > self.events:
            raise BudgetFault("TooManyTokens", f"more than {self.events:,} events with text in them")

    def keep(self, kept_bytes: int) -> None:
        """Have so much granted, or give back what is granted beyond it. Raises BudgetFault."""
        blocks = -(-max(0, kept_bytes - self._own_bytes) // _BLOCK_BYTES)
        more_bytes = self._own_bytes + blocks * _BLOCK_BYTES - self.granted_bytes
        if more_bytes > self._memory.left_bytes:
            raise BudgetFault("ClientMemory", f"all answers under way keep more than {MOST_KEPT_BYTES:,} bytes")
        self._memory.left_bytes -= more_bytes
        self.granted_bytes += more_bytes


def refuse_long_event(kept_bytes: int) -> None:
    """Raises BudgetFault for an event of which so much is there and that has not ended."""
    if kept_bytes > MOST_EVENT_BYTES:
        raise BudgetFault("EventTooLong", f"an event of the stream is longer than {MOST_EVENT_BYTES:,} bytes")


def parsed_json(text: bytes) -> Any:
    """The value of a text. Raises orjson.JSONDecodeError; BudgetFault for more values than any answer has, since each
    takes far more memory than its text."""
    if len(text) > PLAIN_BYTES and text.count(b",") + text.count(b"[") + text.count(b"{") > MOST_VALUES:
        raise BudgetFault("TooManyValues", f"{len(text):,} bytes of JSON with more than {MOST_VALUES:,} values")
    return orjson.loads(text)
