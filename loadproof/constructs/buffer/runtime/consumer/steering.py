"""What streams bring, counted by all consumers, and a search for how many of their slots bring most.

Every process adds to the shared record what its own streams brought, a few seconds' worth at a time: parts, the time in
flight, and how much of that before the first part. One process steers: it reads those sums, hands them to the search
that `loadproof run --concurrency auto` has, and writes the share that may invoke. Its lease is the time of its last
word. Where it falls silent, another one takes over and searches anew from the share that stands; nothing is lost but
what it had learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loadproof.wire.pace import Record, Traffic
from loadproof.wire.search import Look, Search

TOLD_EVERY_S: Final = 2.0
LEASE_S: Final = 20.0
_LOOK_S: Final = 6.0  # three reports of each process
_FEWEST: Final = 4  # slots: below that there is nothing to search
_ALMOST: Final = 0.85  # of as many as may be; with fewer there is nothing to learn
_TOO_MANY: Final = 1.15  # more answers go on than there are places for
_LEAST, _GAIN = 0.4, 0.3
_IN_PARTS: Final = 1.5  # parts of an answer: with fewer, it comes in one piece
_OLD_S: Final = 300.0  # what was found so long ago is not relied on
_AGAIN_S: Final = 5.0  # the steerer says at least so often that it is there


class Streams:
    """This process's own, counted from one report to the next. Not thread-safe."""

    def __init__(self) -> None:
        self._at_s: float | None = None
        self._open = self._silent = 0
        self._busy_s = self._silent_s = 0.0
        self._parts = self._ended = 0

    @property
    def any(self) -> bool:
        return self._open > 0

    def change(self, now_s: float, *, began: int = 0, parts: int = 0, first: int = 0, ended: int = 0) -> None:
        """`began` and `ended` streams, `first`: how many of them were silent until now, `parts` that arrived."""
        if self._at_s is not None:
            self._busy_s += self._open * max(0.0, now_s - self._at_s)
            self._silent_s += self._silent * max(0.0, now_s - self._at_s)
        self._at_s = now_s
        self._open += began - ended
        self._silent += began - first
        self._parts += parts
        self._ended += ended

    def report(self) -> Traffic:
        """Since the last one. What is below a millisecond stays for the next."""
        found = Traffic(self._parts, int(self._busy_s * 1000), int(self._silent_s * 1000), self._ended)
        self._parts = self._ended = 0
        self._busy_s -= found.busy_ms / 1000
        self._silent_s -= found.silent_ms / 1000
        return found


@dataclass(frozen=True, slots=True)
class Word:
    """What the steerer says: the share that may invoke."""

    top: float
    now_ms: int
    steerer: str


class Steering:
    """One process's part in it."""

    def __init__(self, slots: int, steerer: str) -> None:
        self._slots = slots
        self._me = steerer
        self._search: Search | None = None
        self._seen: tuple[float, Traffic] | None = None  # where the running look began
        self._received = self._answers = 0
        self._busy_s = 0.0
        # Slots whose turn is over still finish, and some have no message: other ones may go than are to be in flight.
        self._more = 1.0

    def word(self, record: Record, now_s: float, refused: float) -> Word | None:
        """What to write after a look at the record, if anything. `refused`: the share that refusals allow."""
        if self._slots < _FEWEST or not record.busy_ms:
            return None
        silent_s = now_s - record.steered_ms / 1000
        old = record.gate != "open" or silent_s > _OLD_S  # the endpoint may be another one by now
        top = 1.0 if old else record.top
        if old or record.steerer != self._me:
            self._search = None
            return Word(top, round(now_s * 1000), self._me) if silent_s >= LEASE_S else None
        if self._search is None:
            self._search = Search(self._slots, start=max(1, round(top * self._slots)))
            self._seen, self._more = None, 1.0
        number = self._search.limit
        if refused * self._slots < number:  # refusals say how many; what is slower or quicker then is theirs
            self._search.idle()
            self._seen, self._more = None, 1.0
        else:
            self._look(record.traffic, now_s, number)
        if self._search.limit != number:
            self._seen = None  # what comes now is of both numbers
        elif silent_s < _AGAIN_S:
            return None
        top = min(1.0, self._search.limit / self._slots * self._more)
        return Word(top, round(now_s * 1000), self._me)

    def _look(self, traffic: Traffic, now_s: float, number: int) -> None:
        """Of a while in which `number` were to be in flight."""
        if self._seen is None:
            self._seen = now_s, traffic
            return
        began_s, before = self._seen
        if now_s - began_s < _LOOK_S:
            return
        self._seen, news = (now_s, traffic), traffic.since(before)
        if min(news) < 0:  # an old copy of the record
            return
        assert self._search is not None
        busy_s, taken_s = news.busy_ms / 1000, now_s - began_s
        in_flight = busy_s / taken_s
        gain, most = (1.0 if in_flight < _ALMOST * number else _GAIN), self._slots / number
        self._more = min(most, max(_LEAST, self._more * (number / max(0.1, in_flight)) ** gain))
        self._received += news.parts
        self._busy_s += busy_s
        self._answers += news.ended
        if in_flight < _ALMOST * number:
            self._search.idle()
            return
        streams = traffic.parts > _IN_PARTS * max(1, traffic.ended)
        look = Look(
            now_s=now_s,
            arrived_s=now_s,
            in_flight=number if in_flight <= _TOO_MANY * number else round(in_flight),
            waiting=round(number * news.silent_ms / news.busy_ms),
            received=self._received,
            answers=self._answers,
            answered=self._received,
            answer_s=self._busy_s,
            first_s=traffic.silent_ms / 1000 / max(1, traffic.ended) if streams else None,
        )
        self._search.look(look, number)
