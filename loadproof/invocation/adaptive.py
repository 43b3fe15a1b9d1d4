"""`auto`: the search for the number in flight that brings most, fed with what a client sees, within latency bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf
from statistics import median
from typing import Literal

from loadproof.invocation.invoker import Invocation, UnderWay
from loadproof.wire.search import Look, Search

Metric = Literal["ttft", "tpot", "e2e"]
_FEWEST = 8  # answers that a number is judged by, at least
_BROKEN_FOR = 32  # judgments that a broken bound is remembered for
_LONG_NS = 1_000_000_000  # without a token, and ten times the usual gap: put aside
_FIRST_TOKENS = 16  # too few to say how long a token takes


@dataclass(frozen=True, slots=True)
class Bound:
    """`quantile` (0..1) of a metric must be at most `ms`."""

    metric: Metric
    quantile: float
    ms: float


class Auto:
    """How many in flight bring most."""

    def __init__(self, most: int, bounds: Sequence[Bound] = ()) -> None:
        self._search = Search(most)
        self._received = 0  # of answers that have ended
        self._answers = 0
        self._answer_s = 0.0
        self._newest_ns = 0

    @property
    def limit(self) -> int:
        return self._search.limit

    def look(self, under_way: Sequence[UnderWay], in_flight: int, full: bool, allowed: float, now_s: float) -> None:
        """Several times a second; `full`: as many are in flight as may be, and more could be sent."""
        if not full:
            self._search.idle()
            return
        begun = [one for one in under_way if one.first_token_ns is not None]
        firsts_ns = [one.first_token_ns - one.sent_ns for one in begun if one.first_token_ns is not None]
        self._newest_ns = max([self._newest_ns, *(one.last_ns for one in under_way if one.last_ns is not None)])
        look = Look(
            now_s,
            self._newest_ns / 1e9,
            in_flight,
            in_flight - count_served(under_way),
            self._received + sum(one.tokens for one in under_way),
            self._answers,
            self._received,
            self._answer_s,
            median(firsts_ns) / 1e9 if firsts_ns else None,
        )
        self._search.look(look, int(allowed))

    def answered(self, invocation: Invocation) -> None:
        self._answers += 1
        self._newest_ns = max(self._newest_ns, invocation.last_token_ns or invocation.end_ns)
        self._received += len(invocation.arrival_ns) if len(invocation.arrival_ns) > 1 else invocation.output_tokens or 1
        if invocation.sent_ns is not None:
            self._answer_s += (invocation.end_ns - invocation.sent_ns) / 1e9

    def restart(self) -> None:
        self._search.restart()


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
