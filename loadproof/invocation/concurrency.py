"""How many requests may be in flight: what refusals allow, what the search finds, and a gate for when nothing is up.

`Pace` is what the many-invoker asks. It sends nothing and reads no clock: times are handed in, in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from loadproof.invocation.adaptive import Auto
from loadproof.invocation.invoker import Invocation, UnderWay
from loadproof.invocation.outcomes import Outcome, OutcomeKind, RetryClass

PROBE_EVERY_S = 5.0
_REACTION_S = 0.5  # refusals within that of one another are one event
_CUT = 0.7
_RECOVERY_S, _LONGEST_RECOVERY_S = 4.0, 32.0


class Ceiling:
    """What refusals allow, CUBIC's way (RFC 9438): cut at once, back fast to where it was good, then carefully beyond.

    The first refusal after a calm cuts to what the endpoint holds; more of them, less than `_REACTION_S` to `_CALM_S`
    later, cut by 30% each. With peak w and recovery time K, t after the cut it is w - (w - low)·(1 - t/K)³ up to K,
    and w·(1 + 0.05·(t/K - 1)³) from there. A peak that is met again is believed for longer: K doubles.
    """

    __slots__ = ("_calm", "_cut_s", "_low", "_most", "_peak", "_recovery_s")

    def __init__(self, most: int) -> None:
        self._most = most
        self._peak = self._low = float(most)
        self._cut_s: float | None = None
        self._recovery_s = _RECOVERY_S
        self._calm = True  # was the last cut the first one after a calm?

    def value(self, now_s: float) -> float:
        if self._cut_s is None:
            return float(self._most)
        after = (now_s - self._cut_s) / self._recovery_s
        if after < 1:
            return self._peak - (self._peak - self._low) * (1 - after) ** 3
        return min(float(self._most), self._peak * (1 + 0.05 * (after - 1) ** 3))

    def refused(self, held: int, now_s: float) -> None:
        """A request was refused while the endpoint held `held` others of ours."""
        room = float(max(1, held))
        since_s = inf if self._cut_s is None else now_s - self._cut_s
        if since_s < _REACTION_S:
            self._low = min(self._low, room)
            self._peak = min(self._peak, room) if self._calm else self._peak
            return
        self._calm = since_s > self._recovery_s
        if self._calm:
            again = self._cut_s is not None and abs(room - self._peak) <= 0.1 * self._peak
            self._recovery_s = min(2 * self._recovery_s, _LONGEST_RECOVERY_S) if again else _RECOVERY_S
            self._peak = self._low = room
        else:
            self._peak = min(self.value(now_s), room)
            self._low = max(1.0, _CUT * self._peak)
        self._cut_s = now_s


class Gate:
    """Closed while nothing is answered: then one probe at a time goes out, `PROBE_EVERY_S` after the one before."""

    __slots__ = ("_closed_s", "_next_s", "last")

    def __init__(self) -> None:
        self._closed_s: float | None = None
        self._next_s = 0.0
        self.last: Outcome | None = None

    @property
    def closed(self) -> bool:
        return self._closed_s is not None

    def close(self, outcome: Outcome, now_s: float) -> None:
        self._closed_s = now_s if self._closed_s is None else self._closed_s
        self._next_s, self.last = now_s + PROBE_EVERY_S, outcome

    def open(self) -> None:
        self._closed_s = None

    def lets_through(self, in_flight: int, now_s: float) -> bool:
        return not self.closed or (in_flight == 0 and now_s >= self._next_s)

    def closed_for_s(self, now_s: float) -> float:
        return 0.0 if self._closed_s is None else now_s - self._closed_s


class Pace:
    """How many requests of one caller may be in flight at one endpoint.

    `search` finds the number; None keeps it at `most`, below which refusals push it all the same.
    """

    def __init__(self, most: int, search: Auto | None = None) -> None:
        self.most = most
        self.search = search
        self.gate = Gate()
        self._ceiling = Ceiling(most)
        self._refused = self._failed = 0  # in a row, without a success between
        self._ever_answered = False

    def limit(self, now_s: float) -> int:
        """In flight at most, now; the gate left aside."""
        limit = self._ceiling.value(now_s)
        if self.search is not None:
            limit = min(limit, self.search.limit)
        return max(1, min(self.most, int(limit)))

    def room(self, in_flight: int, now_s: float) -> bool:
        """May one more be sent?"""
        return self.gate.lets_through(in_flight, now_s) and in_flight < self.limit(now_s)

    def ended(self, invocation: Invocation, still_in_flight: int, now_s: float) -> None:
        """A request ended, well or not, while `still_in_flight` others go on."""
        outcome = invocation.outcome
        if outcome.ok or outcome.retry is RetryClass.POISON:  # poison: the endpoint is up, and says no to this one
            self._refused = self._failed = 0
            self._ever_answered = True
            if self.gate.closed and self.search is not None:
                self.search.restart()
            self.gate.open()
            if outcome.ok and self.search is not None:
                self.search.answered(invocation)
        elif outcome.retry is RetryClass.NO_CAPACITY_YET:
            self.gate.close(outcome, now_s)
        elif outcome.retry is RetryClass.SLOW_DOWN:
            self._refused += 1
            self._ceiling.refused(still_in_flight, now_s)
            # Refused though nothing of ours is in flight: fewer than that there are not.
            if self.gate.closed or (self._refused >= 3 and not still_in_flight):
                self.gate.close(outcome, now_s)
        elif outcome.kind is not OutcomeKind.CANCELED:
            self._failed += 1
            if self.gate.closed or self._failed >= max(20, 2 * self.limit(now_s)):
                self.gate.close(outcome, now_s)

    def tick(self, under_way: Sequence[UnderWay], in_flight: int, more: bool, now_s: float) -> None:
        """A look at what is under way, several times a second; `more`: there is more to send."""
        if self.search is not None and not self.gate.closed:
            full = more and in_flight >= self.limit(now_s)
            self.search.look(under_way, in_flight, full, min(self.most, self._ceiling.value(now_s)), now_s)

    def given_up(self, now_s: float, patience_s: float) -> str:
        """Why there is no sense in waiting any longer; empty while there is."""
        last = self.gate.last
        if not self.gate.closed or last is None:
            return ""
        # What never answered and is no refusal will not come up by waiting: the target is wrong, or dead.
        if not self._ever_answered and (last.retry is RetryClass.TRY_AGAIN or last.is_own_shortage):
            patience_s = 0.0
        if self.gate.closed_for_s(now_s) < patience_s:
            return ""
        said = f"{last.kind} {last.code} {last.message}".rstrip()
        return f"no answer for {self.gate.closed_for_s(now_s):.0f} s; the last request ended: {said}"
