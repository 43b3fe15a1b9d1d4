"""The one retry policy: what may follow an attempt that failed. Pure: no sleep, and clock and chance are passed in.

Nothing below it tries twice (botocore and the transports send once), so what is decided here is all that is paid for.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from loadproof.invocation.outcomes import Outcome, RetryClass

_LONGEST_ASKED_S = 60.0  # what a server may ask for with Retry-After
GiveUpReason = Literal["poison", "attempts", "budget", "deadline", "canceled"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`max_attempts` counts the first one too; refusals (`slow_down`, `no_capacity_yet`) are no attempts.

    With 30% of answers failing by accident, 7 attempts lose 0.3^7 = 0.02% of the items. A wait is drawn between 0 and
    min(`cap_s`, `base_s` · 2^n), n counting from 0. `deadline_s` counts from an item's first attempt; None: no end.
    """

    max_attempts: int = 7
    base_s: float = 0.5
    cap_s: float = 20.0
    deadline_s: float | None = None


class RetryBudget:
    """Retries that may still be paid for: `per_success` more with each success, so that a broken endpoint is not paid
    for several times. Starts with `floor`, and never holds more than ten times that."""

    __slots__ = ("_left", "_most", "_per_success")

    def __init__(self, floor: float = 10.0, per_success: float = 0.5) -> None:
        self._left, self._most, self._per_success = floor, 10 * floor, per_success

    def success(self) -> None:
        self._left = min(self._most, self._left + self._per_success)

    def take(self) -> bool:
        """One retry, if there is one."""
        if self._left < 1:
            return False
        self._left -= 1
        return True


@dataclass(slots=True)
class Attempts:
    """One item's: `sent` requests went out, `spent` of them count, `timed_out` of them perhaps a generation each;
    `refused` in a row since the last that counted."""

    first_s: float
    sent: int = 0
    spent: int = 0
    timed_out: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """Again after `delay_s`, or never again, and why."""

    delay_s: float = 0.0
    give_up: GiveUpReason | None = None


class Retries:
    """Decides for all items of one caller; they share a budget and a source of chance."""

    def __init__(self, policy: RetryPolicy, budget: RetryBudget, chance: Random) -> None:
        self._policy = policy
        self._budget = budget
        self._chance = chance

    def succeeded(self) -> None:
        self._budget.success()

    def after(self, outcome: Outcome, attempts: Attempts, now_s: float) -> Decision:
        """What follows an attempt that has just failed (`attempts.sent` counts it). Updates `attempts`."""
        match outcome.retry:
            case RetryClass.SLOW_DOWN | RetryClass.NO_CAPACITY_YET:
                attempts.refused += 1
                delay_s = self._jitter_s(attempts.refused - 1)
            case RetryClass.TRY_AGAIN:
                attempts.refused = 0
                attempts.spent += 1
                attempts.timed_out += outcome.retry_once
                if attempts.spent >= self._policy.max_attempts or (outcome.retry_once and attempts.timed_out > 1):
                    return Decision(give_up="attempts")
                delay_s = self._jitter_s(attempts.spent - 1)
            case RetryClass.POISON:
                return Decision(give_up="poison")
            case None:
                return Decision(give_up="canceled")
        delay_s = max(delay_s, min(outcome.retry_after_s, _LONGEST_ASKED_S))
        deadline_s = self._policy.deadline_s
        if deadline_s is not None and now_s + delay_s >= attempts.first_s + deadline_s:
            return Decision(give_up="deadline")
        if outcome.retry is RetryClass.TRY_AGAIN and not self._budget.take():
            return Decision(give_up="budget")
        return Decision(delay_s)

    def _jitter_s(self, retries_before: int) -> float:
        # Full jitter: clients that failed together must not come back together. 2^40 s is far above any cap.
        return self._chance.uniform(0.0, min(self._policy.cap_s, self._policy.base_s * 2.0 ** min(retries_before, 40)))
