"""TGI's policy: a step either prefills waiting requests or decodes the running ones."""

from __future__ import annotations

from math import floor

from loadproof.capacity import BatchLimits
from loadproof.simulation.request import NOT_DECODING, Request
from loadproof.simulation.runs import StepDurations
from loadproof.simulation.scheduling import Scheduler


class PrefillFirst(Scheduler):
    """A request is let in when its prompt and whole answer fit the KV cache; first come, first served."""

    __slots__ = ("_decodes_since_prefill", "_joining")

    def __init__(self, step_times: StepDurations, limits: BatchLimits) -> None:
        super().__init__(step_times, limits)
        self._joining: list[Request] = []
        self._decodes_since_prefill = 0

    @property
    def batch(self) -> int:
        return len(self._joining) or self.decoding

    def plan(self, now_ms: float) -> bool:
        limits = self.limits
        impatient = self._decodes_since_prefill >= limits.max_waiting_steps
        least = 1
        if self.decoding and not impatient:
            least = max(1, floor(limits.waiting_served_ratio * self.decoding))
        joining: list[Request] = []
        blocked = False
        if len(self.waiting) >= least:
            joining, blocked = self._who_could_join()
        if joining and len(joining) >= least:
            self._joining = joining
            self._plan_prefill(now_ms)
            return True
        self._joining = []
        if not self.decoding:
            return False
        steps = self.rounds_left()
        if self.waiting and not impatient:  # when patience ends, fewer are enough
            steps = min(steps, limits.max_waiting_steps - self._decodes_since_prefill)
        self._set_run(now_ms, self.decode_times.run(self.decoding, self.context, steps), not blocked)
        return True

    def _who_could_join(self) -> tuple[list[Request], bool]:
        """(the first in the queue that fit together, whether budget, places or memory keep the next one out)."""
        budget_tokens, places = self.limits.step_prefill_tokens, self.limits.max_sequences - len(self.running)
        free = self.capacity - self.held
        joining: list[Request] = []
        for request in self.waiting:
            budget_tokens -= request.input_tokens
            free -= request.input_tokens + request.output_tokens
            if (joining and budget_tokens < 0) or len(joining) >= places or free < 0:
                return joining, True
            joining.append(request)
        return joining, False

    def _plan_prefill(self, now_ms: float) -> None:
        tokens, pairs = 0, 0.0
        for request in self._joining:
            tokens += request.input_tokens
            pairs += request.input_tokens**2 / 2
        step_ms = self.step_times.step_ms(
            prefill_tokens=tokens, prefill_pairs=pairs, prefill_requests=len(self._joining)
        )
        self._set_run(now_ms, (1, step_ms, 0.0), open_to_arrivals=False)

    def receiving(self) -> list[Request]:
        return list(self._joining or self.running)

    def commit(self) -> list[Request]:
        if not self._joining:
            self._decodes_since_prefill += self.steps
            ended = self._pass_rounds(self.steps)
            for request in ended:
                self._leave(request)
            return ended
        self._decodes_since_prefill = 0
        ended = []
        for request in self._joining:
            self.waiting.popleft()
            if self._first_token(request):
                ended.append(request)
            else:
                self.running[request] = None
                self.held += request.input_tokens + request.output_tokens
        self._joining = []
        return ended

    def remove(self, request: Request) -> None:
        if request.ends_at == NOT_DECODING:
            self.waiting.remove(request)
        else:
            self._stop_decoding(request)
            self._leave(request)

    def _leave(self, request: Request) -> None:
        self.held -= request.input_tokens + request.output_tokens
        del self.running[request]
