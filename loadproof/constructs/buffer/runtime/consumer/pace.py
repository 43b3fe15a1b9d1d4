"""How fast all consumers together may go: one shared record, `#pace`, in the table of the claims.

Every write to it is conditional and says all there is to say, so a crash leaves nothing to undo.

- **Share**: which part of all slots may invoke. A refusal cuts it by a tenth, or by one slot; what it is at any moment
  follows from the cut alone, so coming back needs no write. With `x = (now - cut) / 3 s - 1` it is
  `peak + (peak - low) · x³`: low at the cut, the old peak within 3 s, then slowly and ever faster beyond it (after
  CUBIC, RFC 9438). A slot has a place between 0 and 1, drawn once, that goes round in two minutes; it may invoke while
  its place is below the share. So nobody counts anybody, a crash leaves no count wrong, and everybody has his turn.
- **Top**: the share that brings most, which one of them searches by what streams bring (`steering`).
- **Met**: how many requests were answered and how many timed out, counted by all for a while after any time-out.
- **Gate**: closed while nothing is served. Then one slot at a time may send a probe, and its answer opens the gate.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from botocore.exceptions import ClientError

from loadproof.wire.answers import code_of
from loadproof.wire.documents import Document
from loadproof.wire.pace import RECORD_KEY, Gate, Record, Traffic, record_of

from .failures import Kind
from .steering import TOLD_EVERY_S, Steering, Streams, Word
from .stores import StoreDownError, Time, persevere
from .suspicion import Met

PROBE_EVERY_S: Final = {"unavailable": 5.0, "no_capacity": 20.0}
_SEEN_FOR_S: Final = 1.0  # a view of the record is used this long
TENDED_EVERY_S: Final = 1.0
_LONELY_S: Final = 3.0  # refusals all around and nothing heard by anybody for so long: nothing is served
_PATIENCE: Final = {Kind.UNAVAILABLE: 2, Kind.NO_RIGHT: 2, Kind.SLOW_DOWN: 3, Kind.TRY_AGAIN: 5, Kind.TIMED_OUT: 5}
_CLOSING: Final = ("gate", "gate_ms", "probe_ms", "closed_ms")
_ROUND_S: Final = 120.0
_CLOCKS_APART_S: Final = 15.0  # what another process has dated may be so much earlier than it says
_GOLDEN: Final = 0.6180339887498949
_WATCHED_S: Final = 900.0  # after a time-out all tell what they meet; longer than a function lives
_TOLD_EVERY_S: Final = 1.0
_CUT: Final = 0.1
_OPENED: Final[Document] = {"peak": 1.0, "low": 0.5}  # an endpoint that was away begins with half of the slots


class Board(Protocol):
    """Where the record is. Conditional writes say whether they were made. Raises StoreDownError, ClientError."""

    def read(self) -> Record: ...
    def cut(self, record: Record, *, started_ms: int) -> bool: ...
    def answered(self, now_ms: int, *, not_since_ms: int) -> bool: ...
    def close(self, record: Record, *, started_ms: int, lonely_since_ms: int | None) -> bool: ...
    def take_probe(self, seen_ms: int, next_ms: int) -> bool: ...
    def open(self, now_ms: int, *, started_ms: int) -> bool: ...
    def count(self, answers: int, time_outs: int, now_ms: int) -> bool: ...
    def stream(self, traffic: Traffic) -> bool: ...
    def steer(self, word: Word, *, seen_ms: int) -> bool: ...


class Pace:
    """One process's part in it. A slot is a place for one message at a time. Thread-safe."""

    def __init__(self, board: Board, clock: Time, *, max_in_flight: int, seed: int | None = None) -> None:
        self._board = board
        self._clock = clock
        self._least = 1 / max(1, max_in_flight)
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._record = Record()
        self._read_s = 0.0
        self._place = self._random.random()  # of slot 0; others lie as far from one another as may be
        self._last_refusal_s = 0.0
        self._served_s = 0.0  # when the latest request that was answered here had been sent
        self._refusals: dict[Kind, int] = {}
        self._own, self._told, self._untold = Met(), Met(), 0  # met here; of that, written; answers still to be
        self._told_s = 0.0
        self._counting = threading.Lock()  # of what follows: who reads a stream waits for no store
        self._streams, self._streamed_s, self._heard = Streams(), 0.0, False
        self._steering = Steering(max_in_flight, f"{self._random.getrandbits(64):016x}")

    def wait_s(self, slot: int) -> float:
        """0: go, and at a closed gate the probe is yours. Else ask again after so many seconds."""
        with self._lock:
            now_s = self._clock.now_s()
            self._look(now_s)
            if self._record.gate != "open":
                return self._probe_or_wait(now_s)
            place = (self._place + slot * _GOLDEN + now_s / _ROUND_S) % 1.0
            return 0.0 if place < self._share(now_s) else self._random.uniform(0.2, 0.4)

    @property
    def limited(self) -> bool:
        """Whether work of low priority should wait."""
        with self._lock:
            now_s = self._clock.now_s()
            self._look(now_s)
            return self._record.gate != "open" or self._record.after_refusals(now_s) < 1

    @property
    def closed(self) -> bool:
        """Whether nothing but probes may go."""
        with self._lock:
            return self._record.gate != "open"

    def served_since(self, moment_s: float) -> bool:
        """Whether a request is known to have been answered that was sent after then, by anybody."""
        with self._lock:
            self._look(self._clock.now_s())
            opened = self._record.gate == "open" and self._record.served_ms > _ms(moment_s + _CLOCKS_APART_S)
            return opened or self._served_s > moment_s

    def met(self) -> Met:
        """What is known of all requests so far: of this process's own, and of others' after a time-out."""
        with self._lock:
            self._look(self._clock.now_s())
            record, own, told = self._record, self._own, self._told
            answered = own.answered + max(0, record.answers - told.answered)
            return Met(answered, own.timed_out + max(0, record.time_outs - told.timed_out))

    def answered(self, started_s: float) -> None:
        """The model answered what was sent at `started_s`."""
        with self._lock:
            now_s = self._clock.now_s()
            self._served(now_s, started_s)
            self._count(now_s, timed_out=False)
            self._tell(now_s)

    def begin(self) -> Stream:
        """A request leaves."""
        with self._counting:
            now_s = self._clock.now_s()
            self._streamed_s = self._streamed_s if self._streams.any else now_s
            self._streams.change(now_s, began=1)
        return Stream(self)

    def heard(self, parts: int = 1, *, first: bool = False) -> None:
        """A stream goes on: something is served, however long its answer takes. `first`: it was silent until now."""
        with self._counting:
            self._streams.change(self._clock.now_s(), parts=parts, first=int(first))
            self._heard = True

    def tend(self) -> None:
        """While streams go on: look, steer, and say that something is served. Called every `TENDED_EVERY_S` by a thread
        that reads none, for a store may be slow."""
        with self._counting:
            heard, self._heard = self._heard, False
        if heard:
            with self._lock:
                now_s = self._clock.now_s()
                self._look(now_s)
                self._tell(now_s)

    def over(self, *, silent: bool) -> None:
        """A stream has ended, well or not."""
        with self._counting:
            self._streams.change(self._clock.now_s(), first=int(silent), ended=1)

    def refused(self, kind: Kind, started_s: float) -> None:
        """What was sent at `started_s` ended in `kind`."""
        with self._lock:
            now_s = self._clock.now_s()
            if kind is Kind.POISON:  # an answer too, as far as the endpoint's health goes
                self._served(now_s, started_s)
                return
            if started_s > self._last_refusal_s or kind not in self._refusals:
                self._refusals[kind] = self._refusals.get(kind, 0) + 1
            self._last_refusal_s = now_s
            if kind is Kind.TIMED_OUT:
                self._count(now_s, timed_out=True)
            if kind is Kind.SLOW_DOWN and self._record.gate == "open":
                self._cut(now_s, started_s)
            if kind is Kind.NO_CAPACITY_YET:
                self._close("no_capacity", now_s, started_s, lonely=False)
            elif self._refusals[kind] >= _PATIENCE.get(kind, 1 << 30):
                self._close("unavailable", now_s, started_s, lonely=kind is Kind.SLOW_DOWN)

    def _tell(self, now_s: float) -> None:
        if self._record.after_refusals(now_s) < 1 and now_s - self._record.answered_ms / 1000 > 1:
            self._write(self._board.answered, _ms(now_s), not_since_ms=_ms(now_s - 1))
            self._record = replace(self._record, answered_ms=_ms(now_s))

    def _count(self, now_s: float, *, timed_out: bool) -> None:
        """Own counts are always kept; they are written only while somebody has timed out of late."""
        self._own = Met(self._own.answered + (not timed_out), self._own.timed_out + timed_out)
        watched = timed_out or now_s - self._record.timed_out_ms / 1000 < _WATCHED_S
        self._untold = self._untold + (not timed_out) if watched else 0
        if not watched or (not timed_out and now_s - self._told_s < _TOLD_EVERY_S):
            return
        news, self._untold, self._told_s = Met(self._untold, int(timed_out)), 0, now_s
        if self._write(self._board.count, news.answered, news.timed_out, _ms(now_s)):
            record = self._record
            self._told = Met(self._told.answered + news.answered, self._told.timed_out + news.timed_out)
            self._record = replace(
                record,
                answers=record.answers + news.answered,
                time_outs=record.time_outs + news.timed_out,
                timed_out_ms=_ms(now_s) if timed_out else record.timed_out_ms,
            )

    def _served(self, now_s: float, started_s: float) -> None:
        self._refusals.clear()
        self._served_s = max(self._served_s, started_s)
        if self._record.gate != "open" and self._write(self._board.open, _ms(now_s), started_ms=_ms(started_s)):
            now_ms, served_ms = _ms(now_s), _ms(started_s)
            self._record = replace(
                self._record, gate="open", gate_ms=now_ms, served_ms=served_ms, cut_ms=now_ms, **_OPENED
            )

    def _share(self, now_s: float) -> float:
        return max(self._least, self._record.share(now_s))

    def _look(self, now_s: float) -> None:
        if now_s - self._read_s < _SEEN_FOR_S:
            return
        self._read_s = now_s
        try:
            self._record = self._board.read()
        except (StoreDownError, ClientError):
            return  # the pace is advice: without news the last is followed
        self._steer(now_s)

    def _steer(self, now_s: float) -> None:
        """Add what this process's streams brought; steer, where that is its part."""
        brought = None
        with self._counting:
            if self._streams.any and now_s - self._streamed_s >= TOLD_EVERY_S:
                self._streamed_s = now_s
                self._streams.change(now_s)
                brought = self._streams.report()
        if brought is not None:
            self._write(self._board.stream, brought)
        word = self._steering.word(self._record, now_s, self._record.after_refusals(now_s))
        if word is not None and self._write(self._board.steer, word, seen_ms=self._record.steered_ms):
            self._record = replace(self._record, top=word.top, steered_ms=word.now_ms, steerer=word.steerer)

    def _probe_or_wait(self, now_s: float) -> float:
        record = self._record
        if _ms(now_s) >= record.probe_ms:
            next_ms = _ms(now_s + PROBE_EVERY_S[record.gate])
            if self._write(self._board.take_probe, record.probe_ms, next_ms):
                self._record = replace(record, probe_ms=next_ms)
                return 0.0
            self._read_s = 0.0
        return self._random.uniform(0.5, 1.0)

    def _cut(self, now_s: float, started_s: float) -> None:
        """Once for all that were in flight together: a refusal of what was sent before the last cut is old news."""
        record = self._record
        if _ms(started_s) <= record.cut_ms:
            return
        share = self._share(now_s)
        cut = replace(
            record,
            peak=share,
            low=share - max(self._least, _CUT * share),
            cut_ms=_ms(now_s),
            answered_ms=_ms(now_s) if share >= 1 else record.answered_ms,
        )
        if self._write(self._board.cut, cut, started_ms=_ms(started_s)):
            self._record = cut
        else:
            self._read_s = 0.0

    def _close(self, gate: Gate, now_s: float, started_s: float, *, lonely: bool) -> None:
        record = self._record
        since_ms = record.closed_ms if record.gate != "open" and record.closed_ms else _ms(now_s)
        probe_ms = _ms(now_s + PROBE_EVERY_S[gate])
        closed = replace(record, gate=gate, gate_ms=_ms(now_s), probe_ms=probe_ms, closed_ms=since_ms)
        lonely_ms = _ms(now_s - _LONELY_S) if lonely else None
        if self._write(self._board.close, closed, started_ms=_ms(started_s), lonely_since_ms=lonely_ms):
            self._record = closed

    def _write(self, write: Any, *arguments: Any, **named: Any) -> bool:
        try:
            return bool(write(*arguments, **named))
        except (StoreDownError, ClientError):
            return False


class Stream:
    """One request on its way, as far as the pace is concerned."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._silent = True

    def heard(self, parts: int = 1) -> None:
        """Of its answer."""
        self._pace.heard(parts, first=self._silent)
        self._silent = False

    def over(self) -> None:
        self._pace.over(silent=self._silent)


class TableBoard:
    """The record as an item of DynamoDB."""

    def __init__(self, dynamodb: Any, table: str, clock: Time) -> None:
        self._dynamodb = dynamodb
        self._table = table
        self._clock = clock

    def read(self) -> Record:
        answer = persevere(
            "the claims table",
            lambda: self._dynamodb.get_item(TableName=self._table, Key=RECORD_KEY),
            self._clock,
            self._clock.now_s(),
        )
        return record_of(answer.get("Item", {}))

    def cut(self, record: Record, *, started_ms: int) -> bool:
        values: dict[str, float | str] = {"peak": record.peak, "low": record.low, "cut_ms": record.cut_ms}
        if record.answered_ms == record.cut_ms:  # else it is only what the cutter saw last, and others may know better
            values["answered_ms"] = record.answered_ms
        return self._set(values, "attribute_not_exists(cut_ms) OR cut_ms < :started", started=started_ms)

    def answered(self, now_ms: int, *, not_since_ms: int) -> bool:
        condition = "attribute_not_exists(answered_ms) OR answered_ms < :since"
        return self._set({"answered_ms": now_ms}, condition, since=not_since_ms)

    def close(self, record: Record, *, started_ms: int, lonely_since_ms: int | None) -> bool:
        values: dict[str, float | str] = {name: getattr(record, name) for name in _CLOSING}
        condition = "(attribute_not_exists(gate_ms) OR gate_ms < :started)"
        if lonely_since_ms is None:
            return self._set(values, condition, started=started_ms)
        return self._set(values, f"{condition} AND answered_ms < :lonely", started=started_ms, lonely=lonely_since_ms)

    def take_probe(self, seen_ms: int, next_ms: int) -> bool:
        return self._set({"probe_ms": next_ms}, "probe_ms = :seen", seen=seen_ms)

    def open(self, now_ms: int, *, started_ms: int) -> bool:
        values: dict[str, float | str] = {"gate": "open", "gate_ms": now_ms, "served_ms": started_ms, "cut_ms": now_ms}
        values |= _OPENED
        return self._set(values, "gate_ms < :started", started=started_ms)

    def count(self, answers: int, time_outs: int, now_ms: int) -> bool:
        change = "ADD answers :answers, time_outs :time_outs"
        if time_outs:
            change += " SET timed_out_ms = :now"
        named = {"answers": answers, "time_outs": time_outs} | ({"now": now_ms} if time_outs else {})
        return self._update(change, None, named)

    def stream(self, traffic: Traffic) -> bool:
        named = traffic._asdict()
        return self._update("ADD " + ", ".join(f"{name} :{name}" for name in named), None, named)

    def steer(self, word: Word, *, seen_ms: int) -> bool:
        condition = "attribute_not_exists(steered_ms) OR steered_ms = :seen"
        values: dict[str, float | str] = {"top": word.top, "steered_ms": word.now_ms, "steerer": word.steerer}
        return self._set(values, condition, seen=seen_ms)

    def _set(self, values: Mapping[str, float | str], condition: str, **named: int) -> bool:
        change = "SET " + ", ".join(f"{name} = :{name}" for name in values)
        return self._update(change, condition, {**values, **named})

    def _update(self, change: str, condition: str | None, named: Mapping[str, float | str]) -> bool:
        """One try: what it says is old a moment later. Raises StoreDownError, ClientError."""
        more: Document = {"ConditionExpression": condition} if condition else {}
        values = {
            f":{name}": {"S": value} if isinstance(value, str) else {"N": str(value)} for name, value in named.items()
        }
        try:
            persevere(
                "the claims table",
                lambda: self._dynamodb.update_item(
                    TableName=self._table,
                    Key=RECORD_KEY,
                    UpdateExpression=change,
                    ExpressionAttributeValues=values,
                    **more,
                ),
                self._clock,
                self._clock.now_s(),
            )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return False
        return True


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
