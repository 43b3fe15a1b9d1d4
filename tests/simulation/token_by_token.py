"""The oracle: both schedulers written the plain way, request by request and token by token, as slow as that is."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import floor

from loadproof.capacity import BatchLimits
from loadproof.errors import InputError
from loadproof.simulation import Rejection, Step
from loadproof.simulation.runs import StepDurations


@dataclass(slots=True)
class _Request:
    request_id: str
    input_tokens: int
    output_tokens: int
    generated: int = 0
    cached: int = 0  # tokens whose KV is computed (chunked only)
    held: int = 0  # tokens of KV cache taken
    decoding: bool = False

    @property
    def context(self) -> int:
        return self.input_tokens + self.generated


class TokenByToken:
    """The interface of `ContinuousBatcher`. Each step costs O(batch)."""

    def __init__(self, step_times: StepDurations, limits: BatchLimits) -> None:
        if not limits.kv_token_capacity:
            raise InputError("no KV cache: the model does not fit its accelerators, or batch_limits() was not used")
        self._times = step_times
        self._limits = limits
        self._capacity = limits.kv_token_capacity
        self._waiting: deque[_Request] = deque()
        self._running: dict[str, _Request] = {}
        self._known: dict[str, _Request] = {}
        self._held_tokens = 0
        self._decodes_since_prefill = 0
        self._leaving = 0
        self._leave_ms = 0.0

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests admitted by the server that are not in the batch yet."""
        return len(self._waiting)

    @property
    def kv_tokens_held(self) -> int:
        """KV cache taken, in tokens; never above the limits' `kv_token_capacity`."""
        return self._held_tokens

    def submit(self, request_id: str, input_tokens: int, output_tokens: int, now_ms: float) -> Rejection | None:
        """Queue a request for the next step; or say why the server refuses it (`too_long` is 422, `queue_full` 429).

        Raises InputError for an id already in flight or a count below 1.
        """
        if request_id in self._known or min(input_tokens, output_tokens) < 1:
            raise InputError(f"request {request_id}: expected a new id and at least 1 input and 1 output token")
        whole = input_tokens + output_tokens
        if whole > min(self._capacity, self._limits.max_request_tokens or whole):
            return "too_long"
        if input_tokens > (self._limits.max_input_tokens or input_tokens):
            return "too_long"
        leaving = self._leaving if now_ms < self._leave_ms else 0
        if len(self._known) + leaving >= self._limits.max_admitted_requests:
            return "queue_full"
        request = _Request(request_id, input_tokens, output_tokens)
        self._known[request_id] = request
        self._waiting.append(request)
        return None

    def cancel(self, request_id: str) -> bool:
        """Forget a request (its client has gone); False when it was not in flight. Its KV cache is free at once."""
        request = self._known.get(request_id)
        if request is None:
            return False
        if request_id in self._running:
            self._release(request)
        else:
            self._waiting.remove(request)
        del self._known[request_id]
        return True

    def next_step(self, now_ms: float) -> Step | None:
        """The step that starts now; None when there is nothing to do until the next `submit`."""
        if not self._known:
            return None
        if self._limits.scheduler == "chunked":
            return self._chunked_step(now_ms)
        if (joining := self._joining()) is not None:
            return self._prefill_step(joining, now_ms)
        return self._decode_step(now_ms)

    # ------------------------------------------------------------------------------------------------ prefill first

    def _joining(self) -> list[_Request] | None:
        """The waiting requests that interrupt decoding now; None to go on decoding.

        TGI's rule: while a batch runs, wait until at least `waiting_served_ratio · batch` requests can join, or
        `max_waiting_steps` decode steps have passed.
        """
        if not self._waiting or len(self._running) >= self._limits.max_sequences:
            return None
        least = 1
        if self._running and self._decodes_since_prefill < self._limits.max_waiting_steps:
            least = max(1, floor(self._limits.waiting_served_ratio * len(self._running)))
        joining: list[_Request] = []
        prompt_tokens, held = 0, self._held_tokens
        for request in self._waiting:
            prompt_tokens += request.input_tokens
            held += request.input_tokens + request.output_tokens
            over_budget = joining and prompt_tokens > self._limits.step_prefill_tokens
            full = len(self._running) + len(joining) >= self._limits.max_sequences
            if over_budget or full or held > self._capacity:
                break
            joining.append(request)
        return joining if len(joining) >= least else None

    def _prefill_step(self, joining: list[_Request], now_ms: float) -> Step:
        self._decodes_since_prefill = 0
        tokens, pairs = 0, 0.0
        for request in joining:
            self._waiting.popleft()
            self._running[request.request_id] = request
            self._hold(request, request.input_tokens + request.output_tokens)
            tokens += request.input_tokens
            pairs += request.input_tokens**2 / 2
        duration_ms = self._times.step_ms(prefill_tokens=tokens, prefill_pairs=pairs, prefill_requests=len(joining))
        return self._deliver(joining, len(joining), now_ms, duration_ms)

    def _decode_step(self, now_ms: float) -> Step:
        self._decodes_since_prefill += 1
        batch = list(self._running.values())
        context = sum(request.context for request in batch)
        duration_ms = self._times.step_ms(decodes=len(batch), context_tokens=context)
        return self._deliver(batch, len(batch), now_ms, duration_ms)

    # ------------------------------------------------------------------------------------------------------ chunked

    def _chunked_step(self, now_ms: float) -> Step:
        decoding = self._decoding()
        context = sum(request.context for request in decoding)
        for request in decoding:
            request.cached += 1
        chunks = self._take_chunks(self._limits.step_prefill_tokens - len(decoding))
        duration_ms = self._times.step_ms(
            decodes=len(decoding),
            context_tokens=context,
            prefill_tokens=sum(tokens for _, tokens in chunks),
            # Each new token attends to what is cached before it; `cached` already counts the chunk itself.
            prefill_pairs=sum(tokens * (request.cached - tokens / 2) for request, tokens in chunks),
            prefill_requests=len(chunks),
        )
        complete = [request for request, _ in chunks if request.cached == request.context]
        return self._deliver([*decoding, *complete], len(decoding) + len(chunks), now_ms, duration_ms)

    def _decoding(self) -> list[_Request]:
        """Running requests that need just their next token, each with KV room for it; the youngest make room."""
        decoding = [request for request in self._running.values() if request.decoding]
        needed = sum(request.context - request.held for request in decoding)
        while self._held_tokens + needed > self._capacity:
            youngest = next(reversed(self._running.values()))
            if decoding and decoding[-1] is youngest:
                needed -= youngest.context - youngest.held
                decoding.pop()
            self._release(youngest)
            youngest.cached, youngest.decoding = 0, False
            self._waiting.appendleft(youngest)
        for request in decoding:
            self._hold(request, request.context)
        return decoding

    def _take_chunks(self, budget_tokens: int) -> list[tuple[_Request, int]]:
        """Prompt chunks within the budget: begun prompts first, then waiting requests while room lasts."""
        chunks: list[tuple[_Request, int]] = []
        for request in self._running.values():
            if budget_tokens <= 0:
                return chunks
            if not request.decoding:
                missing = request.context - request.cached
                budget_tokens -= self._take_chunk(chunks, request, min(budget_tokens, missing))
        while budget_tokens > 0 and self._waiting and len(self._running) < self._limits.max_sequences:
            request = self._waiting[0]
            if self._held_tokens + request.context > self._capacity:
                break
            self._running[request.request_id] = self._waiting.popleft()
            self._hold(request, request.context)
            budget_tokens -= self._take_chunk(chunks, request, min(budget_tokens, request.context))
        return chunks

    @staticmethod
    def _take_chunk(chunks: list[tuple[_Request, int]], request: _Request, tokens: int) -> int:
        request.cached += tokens
        chunks.append((request, tokens))
        return tokens

    # ------------------------------------------------------------------------------------------------------- common

    def _deliver(self, receiving: list[_Request], batch: int, now_ms: float, duration_ms: float) -> Step:
        finished, prefilled = [], []
        for request in receiving:
            if request.generated == 0:
                prefilled.append(request.request_id)
            request.generated += 1
            request.decoding = True
            if request.generated == request.output_tokens:
                finished.append(request.request_id)
                self._release(request)
                del self._known[request.request_id]
        self._leaving, self._leave_ms = len(finished), now_ms + duration_ms
        return Step(
            start_ms=now_ms,
            duration_ms=duration_ms,
            tokens=tuple(request.request_id for request in receiving),
            finished=tuple(finished),
            prefilled=tuple(prefilled),
            batch=batch,
        )

    def _hold(self, request: _Request, tokens: int) -> None:
        self._held_tokens += tokens - request.held
        request.held = tokens

    def _release(self, request: _Request) -> None:
        """Out of the batch, its KV cache free."""
        self._hold(request, 0)
        del self._running[request.request_id]
