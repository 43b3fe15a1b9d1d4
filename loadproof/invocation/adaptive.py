"""Finding how many requests in flight a model makes the most of, with nothing known beforehand.

Three signals, none of them latency, which grows with an answer's length:

1. *Who is being served.* A request that has its first token is being worked on. While newcomers get theirs without
   others having to end, the model takes more: twice as many as are served may be in flight, so the number doubles in
   the time of a first token. When first tokens only follow ends, the model is full.
2. *Who is put aside.* A request that had tokens and gets none while others do was preempted: memory is full, and what
   was computed is thrown away.
3. *Tokens per second gained.* By Little's law n requests in flight bring X(n) = n · tokens / time, summed over requests
   sent at n. More in flight is kept only where it brings more, fewer wherever it brings as much.

Bounds on TTFT, TPOT or E2E, where given, end the growth before they are broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Literal

from loadproof.invocation.invoker import Invocation, UnderWay

Metric = Literal["ttft", "tpot", "e2e"]
Direction = Literal["up", "down"]
_START = 4
_FEWEST = 8  # answers that a level is judged by, at least
_WORTH = 1.04  # tokens per second gained that make a larger level the better one
_AS_GOOD = 0.98
_LONGEST_PAUSE = 32  # levels between two trials in a direction that brought nothing
_BROKEN_FOR = 32  # levels that a broken bound is remembered for
_FIRST_TOKENS = 16  # too few to say how long a token takes
_LONG_NS = 1_000_000_000  # without a token, and ten times the usual gap: put aside


@dataclass(frozen=True, slots=True)
class Bound:
    """`quantile` (0..1) of a metric must be at most `ms`."""

    metric: Metric
    quantile: float
    ms: float


@dataclass(slots=True)
class _Level:
    """What is seen of a level: answers to requests sent since `since_ns`, and looks at who is in flight.

    Not `settled`: its first requests found a shorter queue than the level has, so only those count that were sent after
    one of them had ended.
    """

    since_ns: int
    settled: bool = True
    answers: int = 0
    tokens: int = 0
    time_ns: int = 0
    looks: int = 0
    in_flight: int = 0
    served: int = 0
    most_served: int = 0  # answers of one length end together, and then hardly any is served for a moment
    values_ms: dict[Metric, list[float]] = field(default_factory=lambda: {"ttft": [], "tpot": [], "e2e": []})

    def add(self, invocation: Invocation) -> None:
        if invocation.sent_ns is None or invocation.sent_ns < self.since_ns:
            return
        if not self.settled:
            self.settled, self.since_ns = True, invocation.end_ns
            return
        taken_ns, tokens = invocation.end_ns - invocation.sent_ns, invocation.output_tokens or 1
        self.answers += 1
        self.tokens += tokens
        self.time_ns += taken_ns
        self.values_ms["e2e"].append(taken_ns / 1e6)
        if invocation.first_token_ns is not None:
            self.values_ms["ttft"].append((invocation.first_token_ns - invocation.sent_ns) / 1e6)
            if tokens > 1:
                self.values_ms["tpot"].append((invocation.end_ns - invocation.first_token_ns) / (tokens - 1) / 1e6)

    @property
    def mean_in_flight(self) -> float:
        return self.in_flight / self.looks if self.looks else 0.0

    @property
    def tokens_per_s(self) -> float:
        return self.mean_in_flight * self.tokens / self.time_ns * 1e9 if self.time_ns else 0.0

    def share_of(self, bound: Bound) -> float:
        """How much of a bound is used up: above 1 it is broken; 0 without a value."""
        values = sorted(self.values_ms[bound.metric])
        return values[max(0, ceil(bound.quantile * len(values)) - 1)] / bound.ms if values else 0.0


class Search:
    """Finds `limit`, from 4 up, at most `most`."""

    def __init__(self, most: int, bounds: Sequence[Bound] = ()) -> None:
        self._most = most
        self._bounds = tuple(bounds)
        self.limit = min(_START, most)
        self.ramping = True
        self._growth = 1.5 if bounds else 2.0  # with bounds, fewer at the door
        self._ended_since_growth = 0
        self._least_wait = 1.0  # share of its time that a request waited for its first token, at best
        self._level = _Level(0)
        self._fewest = max([_FEWEST, *(ceil(1 / (1 - bound.quantile)) for bound in bounds if bound.quantile < 1)])
        self._kept: tuple[int, float] | None = None  # the best level so far, and its tokens per second
        self._direction: Direction = "down"
        self._step = 1.5
        self._pause: dict[Direction, int] = {"up": 1, "down": 1}
        self._sit_out: dict[Direction, int] = {"up": 0, "down": 0}
        self._broken: tuple[float, int] = inf, 0  # a level that broke a bound, and for how many more that counts

    def look(self, under_way: Sequence[UnderWay], in_flight: int, full: bool) -> None:
        """Several times a second; `full`: as many are in flight as may be, and more could be sent."""
        if not full:
            return
        if in_flight > 1.05 * self.limit + 1:
            self._begin(self.limit, under_way)  # the level before is still ending
            return
        served = count_served(under_way)
        level = self._level
        level.looks += 1
        level.in_flight += in_flight
        level.served += served
        level.most_served = max(level.most_served, served)
        if not self.ramping:
            return
        if any(_nearly_breaks(under_way, bound) for bound in self._bounds):
            self._end_ramp(self.limit, under_way)
        elif (grown := min(self._most, int(self._growth * served) + _START)) >= 1.05 * self.limit:
            self._begin(grown, under_way)
            self._ended_since_growth = 0
        elif self._ended_since_growth >= max(_START, (most := level.most_served) / 2):
            # Where a request hardly waits when nobody is before it, those that wait now queue at the door.
            queued = self._least_wait < 0.2 and self.limit > 1.25 * most + 2
            self._end_ramp(1.25 * most + 2 if queued else self.limit, under_way)

    def answered(self, invocation: Invocation) -> None:
        self._ended_since_growth += 1
        self._level.add(invocation)
        if invocation.sent_ns is not None:
            taken_ns, first_ns = invocation.end_ns - invocation.sent_ns, invocation.first_token_ns or invocation.end_ns
            self._least_wait = min(self._least_wait, (first_ns - invocation.sent_ns) / max(1, taken_ns))
        if not self.ramping and self._level.looks and self._level.answers >= max(self._fewest, self.limit / 2):
            self._judge(self._level, invocation.end_ns)

    def _end_ramp(self, limit: float, under_way: Sequence[UnderWay]) -> None:
        self.ramping = False
        self._begin(max(1, int(limit)), under_way)

    def _begin(self, limit: int, under_way: Sequence[UnderWay]) -> None:
        self.limit = limit
        self._level = _Level(max((one.sent_ns for one in under_way), default=0) + 1)

    def _judge(self, level: _Level, now_ns: int) -> None:
        """Keep this level or go back, then stay there or try another."""
        before, self.limit = self.limit, max(1, min(self._most, self._following(level)))
        self._level = _Level(now_ns, settled=self.limit <= before)

    def _following(self, level: _Level) -> int:
        broken, counts = self._broken
        self._broken = (broken, counts - 1) if counts > 1 else (inf, 0)
        if any(level.share_of(bound) > 1 for bound in self._bounds):
            self._broken = float(self.limit), _BROKEN_FOR
            good = self._kept[0] if self._kept is not None and self._kept[0] < self.limit else int(0.85 * self.limit)
            self._kept = None
            return good
        gained, reached = level.tokens_per_s, level.mean_in_flight >= 0.9 * self.limit
        if self._kept is None or self.limit == self._kept[0]:
            self._kept = self.limit, gained
            return self._next_trial(level) or self.limit
        kept, best = self._kept
        if reached and gained > best * (_WORTH if self._direction == "up" else _AS_GOOD):
            # While throughput nearly keeps up with what is in flight, the end is far off.
            self._step = 2.0 if gained / best > 0.7 * self.limit / kept else 1.5
            self._kept = self.limit, gained
            self._pause[self._direction], self._sit_out[self._direction] = 1, 0
            return self._trial(self._direction, level) or self.limit
        pause = self._pause[self._direction] = min(_LONGEST_PAUSE, 2 * self._pause[self._direction])
        self._sit_out[self._direction] = pause
        return kept

    def _next_trial(self, level: _Level) -> int | None:
        directions: tuple[Direction, Direction] = ("down", "up")
        for direction in directions:
            self._sit_out[direction] -= 1
        for direction in directions:
            if self._sit_out[direction] <= 0 and (limit := self._trial(direction, level)) is not None:
                self._direction = direction
                return limit
        return None

    def _trial(self, direction: Direction, level: _Level) -> int | None:
        """Another level worth trying in that direction; None: there is none."""
        if direction == "down":
            served = level.served / level.looks
            if served < 1 or self.limit <= 1.05 * served + 1:
                return None  # nobody waits at the door, and nobody is put aside
            return ceil(1.25 * served) + 2 if self.limit > 1.5 * served + 4 else ceil(served)
        if level.mean_in_flight < 0.9 * self.limit:
            return None  # something else bounds it: refusals, or the input
        # No bound's metric grows faster than what is in flight, before requests queue.
        room = min((0.95 / max(share, 0.1) for bound in self._bounds if (share := level.share_of(bound))), default=inf)
        half_way = (self.limit + self._broken[0]) / 2 if self._broken[1] else inf
        limit = int(min(self._most, ceil(self._step * self.limit), room * self.limit, half_way))
        return limit if limit >= 1.03 * self.limit else None


def count_served(under_way: Sequence[UnderWay]) -> int:
    """How many requests get tokens; not those that got some and then none for long while others as old did."""
    begun = list(_begun(under_way))
    gaps_ns = sorted((last_ns - first_ns) / (tokens - 1) for first_ns, last_ns, tokens in begun if tokens > 1)
    if not gaps_ns:
        return len(begun)
    long_ns = max(_LONG_NS, 10 * gaps_ns[len(gaps_ns) // 2])
    newest_ns = max(last_ns for _, last_ns, _ in begun)
    # A prompt that is worked on may hold up everybody else: only old ones are compared.
    newest_old_ns = max((last_ns for first_ns, last_ns, _ in begun if newest_ns - first_ns > long_ns), default=0)
    return sum(newest_old_ns - last_ns <= long_ns for _, last_ns, _ in begun)


def _nearly_breaks(under_way: Sequence[UnderWay], bound: Bound) -> bool:
    """Will the requests in flight soon break a bound? Of E2E nothing can be said before an answer has ended."""
    begun = list(_begun(under_way))
    newest_ns = max((last_ns for _, last_ns, _ in begun), default=0)
    if bound.metric == "tpot":
        gaps = sum(tokens - 1 for _, _, tokens in begun if tokens > _FIRST_TOKENS)
        spent_ns = sum(last_ns - first_ns for first_ns, last_ns, tokens in begun if tokens > _FIRST_TOKENS)
        return gaps > 0 and spent_ns / gaps / 1e6 > 0.9 * bound.ms
    if bound.metric == "ttft":
        oldest_ns = min((one.sent_ns for one in under_way if one.first_token_ns is None), default=newest_ns)
        return newest_ns - oldest_ns > 0.7 * bound.ms * 1e6
    return False


def _begun(under_way: Sequence[UnderWay]) -> Iterator[tuple[int, int, int]]:
    """(first token's and last token's time, tokens) of those that have a token."""
    for one in under_way:
        if one.first_token_ns is not None and one.last_ns is not None:
            yield one.first_token_ns, one.last_ns, one.tokens
