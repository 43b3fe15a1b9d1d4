"""Dynamic batching (LMI with `rolling_batch: disable`): gather a batch, run it to its end, answer all at once."""

from __future__ import annotations

from collections.abc import Iterable

from loadproof.capacity import BatchLimits
from loadproof.errors import InputError
from loadproof.simulation.request import Request
from loadproof.simulation.runs import StepDurations
from loadproof.simulation.scheduling import Scheduler

LOOK_EVERY_MS = 5.0


class Dynamic(Scheduler):
    """A worker that takes up to `batch_size` requests, waiting `max_batch_delay_ms` from its first one for the others.

    The batch is padded: every prompt counts as the longest, every sequence decodes until the longest answer is done,
    and nobody joins meanwhile. Answers go out whole, so a request's first token comes with its last. `batch_size` is
    the limits' `max_sequences`.

    Nothing here learns that a client has gone: an abandoned request is worked through to its end.
    """

    frees_abandoned = False

    __slots__ = ("_answer_by_ms", "_batch_size", "_delay_ms", "_joining", "_padded", "_rounds_to_do")

    def __init__(self, step_times: StepDurations, limits: BatchLimits) -> None:
        if limits.max_sequences < 1 or limits.max_batch_delay_ms < 0:
            raise InputError(
                "dynamic batching: expected batch_size of at least 1 and max_batch_delay_ms of at least 0, "
                f"found {limits.max_sequences} and {limits.max_batch_delay_ms}"
            )
        super().__init__(step_times, limits)
        self._batch_size = limits.max_sequences
        self._delay_ms = limits.max_batch_delay_ms
        self._answer_by_ms: float | None = None  # when gathering ends, at the latest; None: nobody is waited for
        self._joining: list[Request] = []
        self._padded = 0  # sequences that decode, those whose client has gone included
        self._rounds_to_do = 0

    @property
    def batch(self) -> int:
        return len(self._joining) or self._padded

    @property
    def _gathering(self) -> bool:
        return not self._joining and not self._padded

    def plan(self, now_ms: float) -> bool:
        if self._padded:
            run = self.decode_times.run(self._padded, self.context, self._rounds_to_do)
            self._set_run(now_ms, run, open_to_arrivals=False)
            return True
        if not self.waiting:
            self._answer_by_ms = None
            return False
        if self._answer_by_ms is None:
            self._answer_by_ms = now_ms + self._delay_ms
        if len(self.waiting) < self._batch_size and now_ms < self._answer_by_ms:
            self._set_run(now_ms, (1, self._answer_by_ms - now_ms, 0.0), open_to_arrivals=True)
            self.end_ms = self._answer_by_ms
            return True
        self._answer_by_ms = None
        self._joining = self._who_fit()
        size, prompt = len(self._joining), max(request.input_tokens for request in self._joining)
        step_ms = self.step_times.step_ms(
            prefill_tokens=size * prompt, prefill_pairs=size * prompt**2 / 2, prefill_requests=size
        )
        self._set_run(now_ms, (1, step_ms, 0.0), open_to_arrivals=False)
        return True

    def _who_fit(self) -> list[Request]:
        """The first in the queue, as many as a batch takes and as the padded KV cache holds; one always fits."""
        joining: list[Request] = []
        prompt = answer = 0
        for request in self.waiting:
            prompt, answer = max(prompt, request.input_tokens), max(answer, request.output_tokens)
            if joining and (len(joining) + 1) * (prompt + answer) > self.capacity:
                break
            joining.append(request)
            if len(joining) == self._batch_size:
                break
        return joining

    def cut(self, at_ms: float) -> bool:
        """Gathering ends with the request that fills the batch; nothing else is cut short."""
        if not self._gathering or len(self.waiting) < self._batch_size:
            return False
        self.end_ms = at_ms
        self.open_to_arrivals = False
        return True

    def shorten(self, steps: int) -> None:
        """One step at a time, gathering is looked at every few ms: a batch may have filled meanwhile."""
        if self._gathering:
            self.end_ms = min(self.end_ms, self.start_ms + LOOK_EVERY_MS)
            self.first_ms = self.end_ms - self.start_ms
        else:
            super().shorten(steps)

    def commit(self) -> list[Request]:
        if self._joining:
            self._begin()
        elif self._padded:
            self.rounds += self.steps
            self.context += self._padded * self.steps
            self._rounds_to_do -= self.steps
        else:
            return []
        if self._rounds_to_do:
            return []
        ended = list(self.running)
        for request in ended:
            request.first_ms = self.end_ms
        self.running.clear()
        self._padded = self.decoding = self.context = self.held = 0
        return ended

    def _begin(self) -> None:
        prompt = max(request.input_tokens for request in self._joining)
        self._rounds_to_do = max(request.output_tokens for request in self._joining) - 1
        self.running.update(dict.fromkeys(self._joining))
        for _ in self._joining:
            self.waiting.popleft()
        self._padded = self.decoding = len(self._joining)
        self.context = self._padded * (prompt + 1)
        self.held = self._padded * (prompt + self._rounds_to_do + 1)
        self._joining = []

    def receiving(self) -> list[Request]:
        """Nobody until the batch's last step; then each request as often as it has tokens."""
        batch: Iterable[Request] = self._joining or self.running
        rounds = max(request.output_tokens for request in self._joining) - 1 if self._joining else self._rounds_to_do
        if self._gathering or rounds > (0 if self._joining else self.steps):
            return []
        return [request for request in batch for _ in range(request.output_tokens)]

    def remove(self, request: Request) -> None:
        """The queue forgets it; a batch under way goes on at its padded size."""
        if request in self.running:
            del self.running[request]
        else:
            self.waiting.remove(request)
