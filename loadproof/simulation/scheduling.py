"""What all schedulers share: the queue, the requests in the batch, and the run of steps under way.

A scheduler plans a *run*: as many equal steps as it would decide without looking again. The caller lets it pass
(`commit`), or shortens it when something happens meanwhile (`cut`). One step at a time is a run cut to one step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from heapq import heapify, heappop, heappush
from typing import Literal

from loadproof.capacity import BatchLimits
from loadproof.errors import InputError
from loadproof.simulation.prefixes import PromptCache
from loadproof.simulation.request import NOT_DECODING, Request
from loadproof.simulation.runs import DecodeTimes, StepDurations, steps_to_reach, sum_ms

Rejection = Literal["too_long", "queue_full", "no_capacity"]


class Scheduler(ABC):
    """The base of the schedulers: decode rounds are counted, not requests' tokens.

    Every request that decodes gets one token a round, so who ends is known when decoding begins: a bucket of requests
    for each last round, a heap of rounds. `context` sums the tokens that the decoding requests attend to next.
    """

    frees_abandoned = True  # whether a request whose client has gone is dropped at the end of the step under way
    __slots__ = (
        "_buckets",
        "_ends",
        "cache",
        "capacity",
        "context",
        "decode_times",
        "decoding",
        "end_ms",
        "first_ms",
        "growth_ms",
        "held",
        "limits",
        "open_to_arrivals",
        "outside_ms",
        "rounds",
        "running",
        "start_ms",
        "step_times",
        "steps",
        "waiting",
    )

    def __init__(self, step_times: StepDurations, limits: BatchLimits) -> None:
        if not limits.kv_token_capacity:
            raise InputError("no KV cache: the model does not fit its accelerators, or batch_limits() was not used")
        self.capacity: int = limits.kv_token_capacity
        self.limits = limits
        self.cache: PromptCache | None = None  # of prompts whose blocks are known; chunked ones look there
        self.step_times = step_times
        self.decode_times = DecodeTimes(step_times, self.capacity)
        self.waiting: deque[Request] = deque()
        self.running: dict[Request, None] = {}  # in order of admission
        self.decoding = 0
        self.context = 0
        self.held = 0
        self.rounds = 0
        self._buckets: dict[int, list[Request]] = {}
        self._ends: list[int] = []
        self.start_ms = self.end_ms = self.first_ms = self.growth_ms = 0.0
        self.steps = 0
        self.open_to_arrivals = False
        self.outside_ms = 0.0  # what lies between a client and the batch, a request

    @property
    def outstanding(self) -> int:
        """Requests admitted by the server and not ended."""
        return len(self.running) + len(self.waiting)

    def refusal(self, input_tokens: int, output_tokens: int, leaving: int = 0) -> Rejection | None:
        """Why the server would refuse such a request now; `leaving` requests more still count as in flight."""
        limits, whole = self.limits, input_tokens + output_tokens
        if whole > self.capacity or (limits.max_request_tokens is not None and whole > limits.max_request_tokens):
            return "too_long"
        if limits.max_input_tokens is not None and input_tokens > limits.max_input_tokens:
            return "too_long"
        if len(self.running) + len(self.waiting) + leaving >= limits.max_admitted_requests:
            return "queue_full"
        return None

    # ------------------------------------------------------------------------------------------------ the run

    @abstractmethod
    def plan(self, now_ms: float) -> bool:
        """Decide the run that starts now; False when there is nothing to do until the next request.

        A run planned must be committed, cut or not. While `open_to_arrivals` a new request may change what comes
        next, and the run should be cut at its arrival.
        """

    @abstractmethod
    def commit(self) -> list[Request]:
        """Apply the run's effects, as of `end_ms`; the requests it ended, in order of admission."""

    @abstractmethod
    def receiving(self) -> list[Request]:
        """Who gets a token at the end of each step of the run planned; O(batch)."""

    @property
    @abstractmethod
    def batch(self) -> int:
        """How many requests a step of the run planned works on."""

    def boundary_ms(self, steps: int) -> float:
        """When the first `steps` steps of the run are over."""
        return self.start_ms + sum_ms(steps, self.first_ms, self.growth_ms)

    def cut(self, at_ms: float) -> bool:
        """Shorten the run to end with its first step that ends at `at_ms` or later; True when that ends it earlier.

        What arrives later in that last step changes nothing more, so the run is closed to arrivals.
        """
        self.open_to_arrivals = False
        if self.steps == 1:
            return False
        steps = steps_to_reach(at_ms - self.start_ms, self.first_ms, self.growth_ms)
        if steps >= self.steps:
            return False
        self.shorten(steps)
        return True

    def shorten(self, steps: int) -> None:
        self.steps = steps
        self.end_ms = self.boundary_ms(steps)

    def _set_run(self, now_ms: float, run: tuple[int, float, float], open_to_arrivals: bool) -> None:
        steps, first_ms, growth_ms = run
        self.start_ms, self.steps, self.first_ms, self.growth_ms = now_ms, steps, first_ms, growth_ms
        self.end_ms = now_ms + steps * first_ms + growth_ms * (steps * (steps - 1) / 2)
        self.open_to_arrivals = open_to_arrivals

    # ------------------------------------------------------------------------------------------------ decoding

    def rounds_left(self) -> int:
        """Decode rounds until the next request ends; only while some decode."""
        return self._ends[0] - self.rounds

    def generated(self, request: Request) -> int:
        """Tokens a request has got, as of the last commit."""
        if request.ends_at == NOT_DECODING:
            return request.generated
        return request.output_tokens - (request.ends_at - self.rounds)

    def _first_token(self, request: Request) -> bool:
        """A prompt is done and brings one token; True when that was the last one, else the request decodes."""
        request.generated += 1
        if request.generated == 1:
            request.first_ms = self.end_ms
        left = request.output_tokens - request.generated
        if left == 0:
            return True
        request.ends_at = last = self.rounds + left
        bucket = self._buckets.get(last)
        if bucket is None:
            self._buckets[last] = [request]
            heappush(self._ends, last)
        else:
            bucket.append(request)
        self.decoding += 1
        self.context += request.input_tokens + request.generated
        return False

    def _pass_rounds(self, steps: int) -> list[Request]:
        """Every decoding request gets `steps` tokens; those that got their last one are out of `decoding`."""
        self.rounds += steps
        self.context += self.decoding * steps
        if not self._ends or self._ends[0] != self.rounds:
            return []
        heappop(self._ends)
        ended = self._buckets.pop(self.rounds)
        self.decoding -= len(ended)
        for request in ended:
            self.context -= request.input_tokens + request.output_tokens
        return ended

    def _stop_decoding(self, request: Request) -> None:
        """Out of its bucket before its last token: O(batch)."""
        request.generated = self.generated(request)
        bucket = self._buckets[request.ends_at]
        bucket.remove(request)
        if not bucket:
            del self._buckets[request.ends_at]
            self._ends.remove(request.ends_at)
            heapify(self._ends)
        request.ends_at = NOT_DECODING
        self.decoding -= 1
        self.context -= request.input_tokens + request.generated

    @abstractmethod
    def remove(self, request: Request) -> None:
        """Forget a request in flight (its client has gone); its KV cache is free at once. Between runs only."""
