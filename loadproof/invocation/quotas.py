"""Bedrock's quotas as token buckets: requests and tokens a minute, taken before a request is sent.

Bedrock takes input + `max_tokens` off the minute's tokens when it admits a request, and settles at its end with what
the answer came to: input + cache writes + output · burndown (AWS's guide, "How tokens are counted in Amazon Bedrock").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loadproof.invocation.codecs.types import GenerationRequest

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Quota:
    """What an account may send to one model; None: no such quota. `output_burndown`: quota tokens an output token."""

    requests_per_min: float | None = None
    tokens_per_min: float | None = None
    output_burndown: float = 1.0


class TokenBucket:
    """Fills evenly up to `per_min` in a minute, full at first. What is settled beyond what was taken overdraws it."""

    __slots__ = ("_left", "_per_min", "_seen_s")

    def __init__(self, per_min: float, now_s: float) -> None:
        self._per_min, self._left, self._seen_s = per_min, per_min, now_s

    def wait_s(self, amount: float, now_s: float) -> float:
        """How long until `amount` can be taken. More than a whole minute's worth is waited for as if it were that."""
        self._fill(now_s)
        missing = min(amount, self._per_min) - self._left
        return max(0.0, missing * _MINUTE_S / self._per_min)

    def take(self, amount: float, now_s: float) -> None:
        self._fill(now_s)
        self._left -= amount

    def give_back(self, amount: float, now_s: float) -> None:
        """What was taken and not used; below 0 what was used beyond that."""
        self._fill(now_s)
        self._left = min(self._per_min, self._left + amount)

    def _fill(self, now_s: float) -> None:
        self._left = min(self._per_min, self._left + (now_s - self._seen_s) * self._per_min / _MINUTE_S)
        self._seen_s = now_s


class Quotas:
    """Both buckets of one model, and what counts a request's input tokens. Times are any clock's, in seconds."""

    def __init__(
        self, quota: Quota, now_s: float, count_input_tokens: Callable[[GenerationRequest], int] = lambda request: 0
    ) -> None:
        self.count_input_tokens = count_input_tokens
        self._burndown = quota.output_burndown
        self._requests = TokenBucket(quota.requests_per_min, now_s) if quota.requests_per_min else None
        self._tokens = TokenBucket(quota.tokens_per_min, now_s) if quota.tokens_per_min else None

    def wait_s(self, input_tokens: int, max_output_tokens: int, now_s: float) -> float:
        """How long until such a request would be admitted; 0 is now."""
        wait_s = self._requests.wait_s(1, now_s) if self._requests else 0.0
        if self._tokens:
            wait_s = max(wait_s, self._tokens.wait_s(input_tokens + max_output_tokens, now_s))
        return wait_s

    def admit(self, input_tokens: int, max_output_tokens: int, now_s: float) -> None:
        """Take what a request that is sent now costs on admission."""
        if self._requests:
            self._requests.take(1, now_s)
        if self._tokens:
            self._tokens.take(input_tokens + max_output_tokens, now_s)

    def settle(self, admitted: tuple[int, int], used: tuple[int, int], now_s: float) -> None:
        """Give back what an ended request did not use. Both are (input, output) tokens; a refused one used none."""
        if self._tokens:
            final = used[0] + used[1] * self._burndown
            self._tokens.give_back(sum(admitted) - final, now_s)
