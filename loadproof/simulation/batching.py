"""Continuous batching without input or output: requests in, steps out. The caller owns the clock, virtual or real."""

from __future__ import annotations

from dataclasses import dataclass

from loadproof.capacity import BatchLimits
from loadproof.errors import InputError
from loadproof.simulation.chunked import Chunked
from loadproof.simulation.dynamic import Dynamic
from loadproof.simulation.prefill_first import PrefillFirst
from loadproof.simulation.request import Request
from loadproof.simulation.runs import StepDurations
from loadproof.simulation.scheduling import Rejection, Scheduler


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the server, from `start_ms` to `start_ms + duration_ms`.

    At its end every request in `tokens` receives one token, those in `finished` their last one. `prefilled` are the
    requests whose prompt this step completed, `batch` how many requests it worked on.
    """

    start_ms: float
    duration_ms: float
    tokens: tuple[str, ...]
    finished: tuple[str, ...]
    prefilled: tuple[str, ...]
    batch: int


def scheduler_for(
    step_times: StepDurations, limits: BatchLimits, *, shared_prefix_tokens: int = 0, outside_ms: float = 0.0
) -> Scheduler:
    """The scheduler of one copy, `outside_ms` what its server adds to a request outside of its steps.

    Only `chunked` ones reuse a shared prefix. Raises InputError where the limits know no KV cache.
    """
    copy: Scheduler
    if limits.scheduler == "chunked":
        copy = Chunked(step_times, limits, shared_prefix_tokens)
    elif limits.scheduler == "dynamic":
        copy = Dynamic(step_times, limits)
    else:
        copy = PrefillFirst(step_times, limits)
    copy.outside_ms = outside_ms
    return copy


class ContinuousBatcher:
    """The scheduler of one copy, one step at a time: first come, first served.

    `prefill_first` (TGI): a step either prefills waiting requests or decodes the running ones; a request is let in
    when its prompt and whole answer fit the KV cache. `chunked` (vLLM): every step decodes all running requests and
    fills what is left of its token budget with prompt chunks; KV cache is taken as it is written, and when it runs out
    the youngest request is put back and computed again. `dynamic` (LMI with `rolling_batch: disable`): batches are
    gathered, padded and answered whole, so in their last step a request stands in `tokens` once for each token.

    Sans-IO and deterministic: `next_step` decides a step and applies its effects at once; the caller lets
    `duration_ms` pass, delivers the tokens and asks again. A request counts as in flight until its last step's end.
    `simulate_fleet` drives the same schedulers in virtual time, many steps at once.
    """

    def __init__(self, step_times: StepDurations, limits: BatchLimits) -> None:
        self._scheduler = scheduler_for(step_times, limits)
        self._known: dict[str, Request] = {}
        self._leaving = 0
        self._leave_ms = 0.0

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._scheduler.running)

    @property
    def waiting(self) -> int:
        """Requests admitted by the server that are not in the batch yet."""
        return len(self._scheduler.waiting)

    @property
    def kv_tokens_held(self) -> int:
        """KV cache taken, in tokens; never above the limits' `kv_token_capacity`."""
        return self._scheduler.held

    def submit(self, request_id: str, input_tokens: int, output_tokens: int, now_ms: float) -> Rejection | None:
        """Queue a request for the next step; or say why the server refuses it (`too_long` is 422, `queue_full` 429).

        Raises InputError for an id already in flight or a count below 1.
        """
        if request_id in self._known or min(input_tokens, output_tokens) < 1:
            raise InputError(f"request {request_id}: expected a new id and at least 1 input and 1 output token")
        leaving = self._leaving if now_ms < self._leave_ms else 0
        refused = self._scheduler.refusal(input_tokens, output_tokens, leaving)
        if refused is None:
            self._known[request_id] = request = Request(request_id, input_tokens, output_tokens, now_ms)
            self._scheduler.waiting.append(request)
        return refused

    def cancel(self, request_id: str) -> bool:
        """Forget a request (its client has gone); False when it was not in flight. Its KV cache is free at once."""
        request = self._known.pop(request_id, None)
        if request is None:
            return False
        self._scheduler.remove(request)
        return True

    def next_step(self, now_ms: float) -> Step | None:
        """The step that starts now; None when there is nothing to do until the next `submit`."""
        scheduler = self._scheduler
        if not scheduler.plan(now_ms):
            return None
        scheduler.shorten(1)
        batch, receiving = scheduler.batch, scheduler.receiving()
        prefilled = dict.fromkeys(request.name for request in receiving if not request.generated)
        ended = scheduler.commit()
        for request in ended:
            del self._known[request.name]
        self._leaving, self._leave_ms = len(ended), scheduler.end_ms
        return Step(
            start_ms=now_ms,
            duration_ms=scheduler.first_ms,
            tokens=tuple(request.name for request in receiving),
            finished=tuple(request.name for request in ended),
            prefilled=tuple(prefilled),
            batch=batch,
        )
