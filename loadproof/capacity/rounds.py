"""A closed loop of equal requests against a server that prefills first (TGI), request by request, in virtual time.

Why not a formula: TGI admits by rules whose effect is large and uneven. A batch of B running requests is interrupted
only for `waiting_served_ratio · B` prompts that fit one prefill, or after `max_waiting_steps` steps. Long prompts fit
one at a time, so the batch never fills; prompts that do not all fit one prefill fall out of step with each other.
Source: TGI's router (`queue.rs`, `infer.rs`, 1.x).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

from loadproof.capacity.steps import StepTimes
from loadproof.families import BatchLimits


@dataclass(frozen=True, slots=True)
class ClosedRun:
    """What a run measured, in virtual ms: one entry of `latencies_ms` and `ttfts_ms` a request, and its wall time."""

    duration_ms: float
    latencies_ms: list[float]
    ttfts_ms: list[float]


@dataclass(slots=True)
class _Group:
    """Requests prefilled together: they end together. `sent_ms` are their clients' send times."""

    remaining: int
    sent_ms: list[float]


@dataclass(slots=True)
class _Copy:
    """One server: what runs, what waits, its own clock, and steps since its last prefill."""

    now_ms: float = 0.0
    waiting: deque[float] = field(default_factory=deque)
    running: list[_Group] = field(default_factory=list)
    batch: int = 0
    context_tokens: int = 0
    steps_since_prefill: int = 1


class PlannedLoop:
    """`concurrency` clients, each sending its next request the moment the last one is answered."""

    def __init__(
        self, times: StepTimes, limits: BatchLimits, input_tokens: int, output_tokens: int, copies: int = 1
    ) -> None:
        """`limits` must hold the KV capacity (`memory.batch_limits`) and admit at least one such request."""
        whole = input_tokens + output_tokens
        self._times, self._limits = times, limits
        self._input, self._output = input_tokens, output_tokens
        self._capacity = max(1, min(limits.max_sequences, (limits.kv_token_capacity or 0) // whole))
        self._per_prefill = max(1, limits.step_prefill_tokens // input_tokens)
        self._copies = [_Copy() for _ in range(copies)]

    def run(self, concurrency: int, requests: int, seed: int = 0) -> ClosedRun:
        """Send `requests` in all; each goes to a copy chosen at random, as SageMaker routes by default."""
        chooser = Random(seed)
        copies, unsent = self._copies, requests
        latencies: list[float] = []
        ttfts: list[float] = []

        def send(now_ms: float, count: int) -> None:
            nonlocal unsent
            count = min(count, unsent)
            unsent -= count
            if len(copies) == 1:
                copies[0].waiting.extend([now_ms] * count)
                return
            for _ in range(count):
                copy = chooser.choice(copies)
                if not copy.running and not copy.waiting:  # it idled until now
                    copy.now_ms = max(copy.now_ms, now_ms)
                copy.waiting.append(now_ms)

        send(0.0, concurrency)
        while busy := [copy for copy in copies if copy.running or copy.waiting]:
            copy = min(busy, key=lambda candidate: candidate.now_ms)
            self._admit(copy, ttfts)
            for group in self._decode(copy):
                latencies.extend(copy.now_ms - sent for sent in group.sent_ms)
                send(copy.now_ms, len(group.sent_ms))
        return ClosedRun(max(copy.now_ms for copy in copies), latencies, ttfts)

    def _admit(self, copy: _Copy, ttfts: list[float]) -> None:
        """Prefill what waits, if the batch may be interrupted for it."""
        taken = self._joinable(copy)
        if taken < 1:
            return
        new_tokens = taken * self._input
        prefill_ms = self._times.prefill_ms(new_tokens, taken)
        copy.now_ms += prefill_ms
        sent = [copy.waiting.popleft() for _ in range(taken)]
        # Copies' clocks run apart: what another one's client sends may lie ahead of this copy's.
        ttfts.extend(max(prefill_ms, copy.now_ms - moment) for moment in sent)
        copy.running.append(_Group(self._output - 1, sent))
        copy.batch += taken
        copy.context_tokens += new_tokens + taken
        copy.steps_since_prefill = 1

    def _joinable(self, copy: _Copy) -> int:
        """How many waiting requests would be prefilled now; 0 when the batch may not be interrupted."""
        taken = min(len(copy.waiting), self._capacity - copy.batch, self._per_prefill)
        impatient = copy.steps_since_prefill >= self._limits.max_waiting_steps
        enough = int(copy.batch * self._limits.waiting_served_ratio)
        return taken if impatient or taken >= enough else 0

    def _decode(self, copy: _Copy) -> list[_Group]:
        """Decode to the next moment anything can change, and return the groups that ended.

        The batch is constant until then and a step's time is linear in the context, so the steps sum to their number
        times the middle one.
        """
        steps = min(group.remaining for group in copy.running)
        if len(self._copies) > 1 or (copy.waiting and copy.batch < self._capacity):
            patience = self._limits.max_waiting_steps - copy.steps_since_prefill
            # One decode lies between two prefills, even where the next may follow at once.
            soonest = 1 if self._joinable(copy) else patience if patience > 0 else self._limits.max_waiting_steps
            steps = min(steps, soonest)
        if steps > 0:
            middle = copy.context_tokens + copy.batch * (steps - 1) / 2
            copy.now_ms += steps * self._times.decode_ms(copy.batch, middle)
        copy.context_tokens += copy.batch * steps
        copy.steps_since_prefill += steps
        for group in copy.running:
            group.remaining -= steps
        ended = [group for group in copy.running if group.remaining <= 0]
        if ended:
            copy.running = [group for group in copy.running if group.remaining > 0]
            gone = sum(len(group.sent_ms) for group in ended)
            copy.batch -= gone
            copy.context_tokens -= gone * (self._input + self._output)
        return ended
