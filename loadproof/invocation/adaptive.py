"""`auto`: the search for the number in flight that brings most, fed with what a client sees, within latency bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf
from statistics import median
from typing import Literal

from loadproof.invocation.invoker import Invocation, UnderWay
from loadproof.wire.search import Look, Search

Metric = Literal["ttft", "tpot", "e2e"]
_FEWEST, _MOST = 16, 128  # answers that a number is judged by
_BROKEN_FOR = 32  # judgments that a broken bound is remembered for
_FIRST_TOKENS = 16  # too few to say how long a token takes
_LONG_NS = 1_000_000_000  # without a token, and ten times the usual gap: put aside


@dataclass(frozen=True, slots=True)
class Bound:
    """`quantile` (0..1) of a metric must be at most `ms`."""

    metric: Metric
    quantile: float
    ms: float


class Auto:
    """How many in flight bring most, at most `most`, and as few as the bounds ask for."""

    def __init__(self, most: int, bounds: Sequence[Bound] = ()) -> None:
        self._search = Search(most)
        self._within = Within(bounds)
        self._received = self._answers = self._newest_ns = 0  # of answers that have ended
        self._answer_s = 0.0

    @property
    def limit(self) -> int:
        return max(1, int(min(self._search.limit, self._within.limit)))

    def restart(self) -> None:
        """The endpoint was away: what is known of it is old."""
        self._search.restart()

    def look(self, under_way: Sequence[UnderWay], in_flight: int, full: bool, allowed: float, now_s: float) -> None:
        """Several times a second. `full`: as many are in flight as may be, and more could go; `allowed`: by others."""
        if not full:
            self._search.idle()
            return
        self._within.look(under_way, in_flight)
        firsts_ns = [one.first_token_ns - one.sent_ns for one in under_way if one.first_token_ns is not None]
        self._newest_ns = max([self._newest_ns, *(one.last_ns for one in under_way if one.last_ns is not None)])
        look = Look(
            now_s=now_s,
            arrived_s=self._newest_ns / 1e9,
            in_flight=in_flight,
            waiting=in_flight - count_served(under_way),
            received=self._received + sum(one.tokens for one in under_way),
            answers=self._answers,
            answered=self._received,
            answer_s=self._answer_s,
            first_s=median(firsts_ns) / 1e9 if firsts_ns else None,
        )
        self._search.look(look, max(1, int(min(allowed, self._within.limit))))

    def answered(self, invocation: Invocation) -> None:
        arrived = len(invocation.arrival_ns)
        self._answers += 1
        self._received += arrived if arrived > 1 else invocation.output_tokens or 1
        self._newest_ns = max(self._newest_ns, invocation.last_token_ns or invocation.end_ns)
        if invocation.sent_ns is not None:
            self._answer_s += (invocation.end_ns - invocation.sent_ns) / 1e9
        self._within.answered(invocation)


class Within:
    """At most as many in flight as keep all bounds: `limit`, judged by the latest answers to what was sent since it
    was changed."""

    def __init__(self, bounds: Sequence[Bound]) -> None:
        self._bounds = tuple(bounds)
        self.limit = inf
        self._fewest = max([_FEWEST, *(ceil(1 / (1 - bound.quantile)) for bound in bounds if bound.quantile < 1)])
        self._answers: deque[Invocation] = deque(maxlen=max(_MOST, self._fewest))
        self._since_ns = self._newest_ns = 0
        self._in_flight = 0
        self._broken: tuple[float, int] = inf, 0  # a number that broke a bound, and for how many judgments that counts

    def look(self, under_way: Sequence[UnderWay], in_flight: int) -> None:
        if not self._bounds:
            return
        self._in_flight = in_flight
        self._newest_ns = max((one.sent_ns for one in under_way), default=self._newest_ns)
        settled = in_flight <= self.limit
        if settled and any(_nearly_breaks(under_way, bound) for bound in self._bounds):
            self._set(0.9 * in_flight)

    def answered(self, invocation: Invocation) -> None:
        if not self._bounds or invocation.sent_ns is None or invocation.sent_ns <= self._since_ns:
            return
        self._answers.append(invocation)
        if len(self._answers) >= self._fewest:
            self._judge(max(self._share_of(bound) for bound in self._bounds))

    def _judge(self, share: float) -> None:
        """`share` of a bound is used up."""
        broken, counts = self._broken
        if share > 1:
            self._broken = float(self._in_flight), _BROKEN_FOR
            self._set(0.85 * min(self.limit, self._in_flight))
        elif self._in_flight >= int(self.limit):
            self._broken = (broken, counts - 1) if counts > 1 else (inf, 0)
            # No bound's metric grows faster than what is in flight, before requests queue.
            half_way = (self.limit + self._broken[0]) / 2
            raised = min(1.25 * self.limit, 0.95 / max(share, 0.1) * self.limit, half_way)
            if raised >= 1.03 * self.limit:
                self._set(raised)

    def _set(self, limit: float) -> None:
        self.limit, self._since_ns = max(1.0, limit), self._newest_ns
        self._answers.clear()

    def _share_of(self, bound: Bound) -> float:
        values = sorted(value for one in self._answers if (value := _value_ms(one, bound.metric)) is not None)
        return values[max(0, ceil(bound.quantile * len(values)) - 1)] / bound.ms if values else 0.0


def _value_ms(one: Invocation, metric: Metric) -> float | None:
    if one.sent_ns is None:
        return None
    if metric == "e2e":
        return (one.end_ns - one.sent_ns) / 1e6
    if one.first_token_ns is None:
        return None
    if metric == "ttft":
        return (one.first_token_ns - one.sent_ns) / 1e6
    tokens = one.output_tokens or 1
    return (one.end_ns - one.first_token_ns) / (tokens - 1) / 1e6 if tokens > 1 else None


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
