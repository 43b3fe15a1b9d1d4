"""From a request to its answer: when to invoke, when to wait, when to give up. No attempt is made below this."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from loadproof.wire.documents import Document

from .claims import Claim
from .clock import Clock
from .emf import Metrics
from .failures import Kind, ModelFailure, failure_of
from .pace import Pace
from .suspicion import MANY, MOST, Met, suspicion

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 20.0
_REFUSED_PAUSE_S: Final = 2.0
# What times out at the same moment has been told by then, by whatever process (a view of the pace is a second old).
_TOGETHER_S: Final = 2.0
_ASK_AGAIN_S: Final = 1.0  # a wait for the pace is looked at again after this long


Heard = Callable[[int], None]


class AnsweringModel(Protocol):
    """What answers. Raises whatever broke, to be judged by `failure_of`, and CutOffError at the drain's end."""

    def answer(self, request: Document, *, deadline_s: float, heard: Heard) -> Document: ...


class PoisonError(Exception):
    """It can never be answered. `reason` holds nothing of what was sent."""


class ExpiredError(PoisonError):
    """Nobody waits for the answer any more."""


class NotNowError(Exception):
    """It is waited for too long to keep in hand; it should come back after about `delay_s`."""

    def __init__(self, reason: str, delay_s: float) -> None:
        super().__init__(reason)
        self.delay_s = delay_s


class CutOffError(Exception):
    """The consumer stops, and the message goes back at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one message in this run of the function. Unix times."""

    end_s: float  # after this nothing may run any more
    latest_start_s: float  # later than this only a first invocation is begun, and cut short
    deadline_s: float | None  # the sender's own
    low_priority: bool
    keep_until_s: float  # waited for no longer than that: it is older than messages are kept

    def check_deadline(self, now_s: float) -> None:
        """Raises ExpiredError after it."""
        if self.deadline_s is not None and now_s > self.deadline_s:
            raise ExpiredError("its deadline has passed")


class Generation:
    """Makes attempts until one answers."""

    def __init__(
        self,
        model: AnsweringModel,
        pace: Pace,
        clock: Clock,
        metrics: Metrics,
        *,
        timeout_s: float,
        max_attempts: int,
        seed: int | None = None,
    ) -> None:
        self._model = model
        self._pace = pace
        self._clock = clock
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._max_attempts = max_attempts
        self._random = random.Random(seed)

    def answer(self, request: Document, claim: Claim, limits: Limits, slot: int) -> Document:
        """The model's answer. What it took is counted in `claim`. Raises PoisonError, NotNowError, CutOffError."""
        failures, reason, no_right_s = 0, "", 0.0
        while True:
            self._await_turn(limits, slot, first=failures == 0, reason=reason)
            if claim.lost:
                raise NotNowError("its key is worked on elsewhere", self._delay_s(30))
            before, started_s = self._pace.met(), self._clock.now_s()
            limits.check_deadline(started_s)  # once more: the pace may have been read from a slow store
            self._metrics.add("Invocations")
            try:
                answer = self._once(request, min(started_s + self._timeout_s, limits.end_s))
            except CutOffError:
                raise
            except Exception as error:
                failure = failure_of(error)
            else:
                self._pace.answered(started_s)
                return answer
            if failure.kind is Kind.NO_RIGHT:
                no_right_s = no_right_s or self._clock.now_s()
                if self._pace.served_since(no_right_s):
                    failure = ModelFailure(Kind.TRY_AGAIN, f"{failure.reason} while others are served", sent=False)
            else:  # this one was served, too: what is refused from now on is refused anew
                no_right_s = 0.0
            if failure.sent:
                self._pace.refused(failure.kind, started_s)
            _count(claim, failure, self._others(failure, before), self._max_attempts)
            failures, reason = failures + 1, failure.reason
            self._pause(limits, failures, failure)

    def _others(self, failure: ModelFailure, before: Met) -> Met:
        """What others met since `before`, once a failure of this one is told; of many at once, all are looked at."""
        if failure.kind is not Kind.TIMED_OUT:
            return Met()
        self._clock.sleep(_TOGETHER_S)
        met = self._pace.met().since(before)
        return Met(met.answered, max(0, met.timed_out - 1))

    def _once(self, request: Document, deadline_s: float) -> Document:
        stream = self._pace.begin()
        try:
            return self._model.answer(request, deadline_s=deadline_s, heard=stream.heard)
        finally:
            stream.over()

    def _await_turn(self, limits: Limits, slot: int, *, first: bool, reason: str) -> None:
        while True:
            if self._clock.stopping:
                raise CutOffError
            now_s = self._clock.now_s()
            limits.check_deadline(now_s)
            late = now_s > limits.latest_start_s
            wait_s = self._pace.wait_s(slot) if first or not late else 1.0
            # A probe is of any priority: where all that waits is low, nothing else would find out or wake a copy.
            probing = wait_s == 0 and self._pace.closed
            if limits.low_priority and self._pace.limited and not probing:
                raise NotNowError("low priority waits while the endpoint is short of capacity", self._delay_s(60))
            if wait_s == 0:
                return
            if self._pace.closed and now_s > limits.keep_until_s:
                raise NotNowError(reason or "nothing is served", 0.0)
            if late:
                raise NotNowError(reason or "the endpoint is short of capacity", self._delay_s(30))
            first = False
            self._clock.sleep(min(wait_s, _ASK_AGAIN_S))

    def _pause(self, limits: Limits, failures: int, failure: ModelFailure) -> None:
        """Full jitter, so that what failed together does not come back together; refusals are the pace's to space."""
        longest_s = _LONGEST_PAUSE_S if failure.kind in (Kind.TRY_AGAIN, Kind.TIMED_OUT) else _REFUSED_PAUSE_S
        pause_s = self._random.uniform(0, min(longest_s, _FIRST_PAUSE_S * 2**failures))
        if self._clock.now_s() + pause_s > limits.latest_start_s:
            raise NotNowError(failure.reason, pause_s)
        self._clock.sleep(pause_s)

    def _delay_s(self, most_s: float) -> float:
        return self._random.uniform(5, most_s)


def _count(claim: Claim, failure: ModelFailure, others: Met, max_attempts: int) -> None:
    """Raises PoisonError where no further attempt is allowed. A time-out that many share spends no attempt."""
    if failure.kind is Kind.POISON:
        claim.attempts += 1
        raise PoisonError(failure.reason)
    if failure.kind is Kind.TIMED_OUT:
        claim.suspicion += suspicion(others)
    if failure.kind is Kind.TRY_AGAIN or (failure.kind is Kind.TIMED_OUT and others.timed_out < MANY):
        claim.attempts += 1
    if claim.suspicion >= MOST:
        raise PoisonError(f"timed out more often than others: {failure.reason}")
    if claim.attempts >= max_attempts:
        raise PoisonError(f"failed {claim.attempts} times, the last time: {failure.reason}")
