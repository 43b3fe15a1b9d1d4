"""vLLM's policy: every step decodes all running requests and fills what is left of its budget with prompt chunks."""

from __future__ import annotations

from loadproof.capacity import BatchLimits
from loadproof.simulation.request import NOT_DECODING, Request
from loadproof.simulation.runs import StepDurations, affine_prefix
from loadproof.simulation.scheduling import Scheduler

# Prefixes are found by whole blocks of KV cache; vLLM's default.
BLOCK_TOKENS = 16


class Chunked(Scheduler):
    """KV cache is taken as it is written; when it runs out, the youngest request is put back and computed again.

    Between commits a decoding request holds one token less than its context, a prompt under way its whole context.
    Prompts are served in order, so at most the youngest running request is a prompt under way (`_begun`).

    The first `shared_prefix_tokens` of every prompt are the same and, once one prompt is done, are not computed again.
    Their memory is counted for each request, and they are never evicted: with long prefixes and full memory the twin
    queues too early. With a `cache` of requests whose blocks are known, shared blocks are counted once.
    """

    __slots__ = ("_begun", "_chunk_tokens", "_completing", "_prefix_tokens", "_reusable_tokens", "_started")

    def __init__(self, step_times: StepDurations, limits: BatchLimits, shared_prefix_tokens: int = 0) -> None:
        super().__init__(step_times, limits)
        self._prefix_tokens = shared_prefix_tokens
        self._reusable_tokens = 0
        self._begun: Request | None = None
        self._chunk_tokens = 0  # what each step of the run gives the prompt that it does not complete
        self._completing: list[Request] = []
        self._started = 0

    @property
    def batch(self) -> int:
        return self.decoding + self._started

    def plan(self, now_ms: float) -> bool:
        if not self.running and not self.waiting:
            return False
        while self.held + self.decoding > self._usable_tokens() and len(self.running) > 1:
            self._put_back_youngest()
        batch, budget_tokens = self.decoding, self.limits.step_prefill_tokens - self.decoding
        if budget_tokens > 0 and (self.waiting or self._begun):
            self._take_chunks(now_ms, budget_tokens)
            if self._started:
                return True
        self._completing, self._chunk_tokens, self._started = [], 0, 0
        steps = min(self.rounds_left(), max(1, (self._usable_tokens() - self.held) // batch))
        room = budget_tokens > 0 and not self.waiting and len(self.running) < self.limits.max_sequences
        self._set_run(now_ms, self.decode_times.run(batch, self.context, steps), room)
        return True

    def _usable_tokens(self, more: int = 0) -> int:
        """KV memory for those in the batch, and so many more. One alone has all: else it would wait for ever."""
        requests = len(self.running) + more
        return self.capacity if self.cache is None or requests < 2 else self.cache.usable_tokens(requests)

    def _put_back_youngest(self) -> None:
        request = next(reversed(self.running))
        self._out(request)
        request.cached = request.kept = 0
        request.put_back = True
        self.waiting.appendleft(request)

    def _out(self, request: Request) -> None:
        """Out of the batch before its last token."""
        if request is self._begun:
            self._begun = None
            held = request.input_tokens + request.generated
            computed = request.cached
        else:
            self._stop_decoding(request)
            held = computed = request.input_tokens + request.generated - 1
        self._leave(request, held, computed)

    def _leave(self, request: Request, held_tokens: int, computed_tokens: int | None = None) -> None:
        del self.running[request]
        self.held -= held_tokens
        if self.cache is not None and request.blocks:
            self.held += self.cache.leave(request, computed_tokens)

    def _take_chunks(self, now_ms: float, budget_tokens: int) -> None:
        """Plan a step with prompt chunks: the prompt under way first, then waiting ones while room lasts.

        A prompt that swallows the whole budget for several steps makes them one run.
        """
        tokens, pairs, chunk = 0, 0.0, 0
        completing: list[Request] = []
        request, self._begun = self._begun, None
        while request is not None or (request := self._admit()) is not None:
            missing = request.input_tokens + request.generated - request.cached
            chunk = min(budget_tokens, missing)
            budget_tokens -= chunk
            tokens += chunk
            # Each new token attends to what is cached before it and, on average, to half of its own chunk.
            pairs += chunk * (request.cached + chunk / 2)
            if chunk < missing:
                self._begun = request
                break
            completing.append(request)
            request, chunk = None, 0
            if budget_tokens == 0:
                break
        self._completing, self._chunk_tokens = completing, chunk
        self._started = len(completing) + (self._begun is not None)
        if not self._started:
            return
        if self._begun is not None and not completing:
            self._plan_chunks_alone(now_ms, self._begun)
            return
        step_ms = self.step_times.step_ms(
            decodes=self.decoding,
            context_tokens=self.context,
            prefill_tokens=tokens,
            prefill_pairs=pairs,
            prefill_requests=self._started,
        )
        self._set_run(now_ms, (1, step_ms, 0.0), open_to_arrivals=False)

    def _admit(self) -> Request | None:
        """The first in the queue, if there is a place and room for its context beside this step's new tokens."""
        if not self.waiting or len(self.running) >= self.limits.max_sequences:
            return None
        request = self.waiting[0]
        context = new_tokens = request.input_tokens + request.generated
        cache = self.cache if request.blocks else None
        if cache is not None:
            new_tokens -= cache.shared_tokens(request)
        if self.held + self.decoding + new_tokens > self._usable_tokens(1):
            return None
        self.running[self.waiting.popleft()] = None
        found = max(self._reusable_tokens, request.kept)
        if cache is not None:
            found = cache.take(request, self.held, new_tokens, len(self.running))
        self.held += new_tokens
        if found:  # the last token is always computed: it brings the first
            reused = min(found, request.input_tokens, context - 1)
            request.cached = reused // BLOCK_TOKENS * BLOCK_TOKENS
        return request

    def _plan_chunks_alone(self, now_ms: float, request: Request) -> None:
        """Equal chunks of one long prompt beside a constant batch: attended pairs grow by chunk² a step."""
        chunk, batch = self._chunk_tokens, self.decoding
        missing = request.input_tokens + request.generated - request.cached
        steps = (missing - 1) // chunk
        if batch:
            steps = min(steps, self.rounds_left(), max(1, (self._usable_tokens() - self.held) // batch))

        def duration_ms(step: int) -> float:
            return self.step_times.step_ms(
                decodes=batch,
                context_tokens=self.context + batch * step,
                prefill_tokens=chunk,
                prefill_pairs=chunk * (request.cached + chunk * step + chunk / 2),
                prefill_requests=1,
            )

        self._set_run(now_ms, affine_prefix(duration_ms, steps), open_to_arrivals=False)

    def receiving(self) -> list[Request]:
        return [request for request in self.running if request.ends_at != NOT_DECODING] + self._completing

    def commit(self) -> list[Request]:
        self.held += self.decoding * self.steps
        ended = self._pass_rounds(self.steps)
        if self._begun is not None:
            self._begun.cached += self._chunk_tokens * self.steps
        for request in self._completing:
            request.cached = request.input_tokens + request.generated
            self._reusable_tokens = max(self._reusable_tokens, min(self._prefix_tokens, request.input_tokens))
            if self._first_token(request):
                ended.append(request)
        for request in ended:
            self._leave(request, request.input_tokens + request.output_tokens - 1)
        return ended

    def remove(self, request: Request) -> None:
        if request in self.running:
            self._out(request)
        else:
            self.waiting.remove(request)
