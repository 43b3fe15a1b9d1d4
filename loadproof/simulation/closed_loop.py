"""A closed loop in virtual time: the simplest traffic, and the planner's cross-check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadproof.capacity import Deployment, StepTimes
from loadproof.capacity.memory import batch_limits
from loadproof.errors import InputError
from loadproof.simulation.batching import ContinuousBatcher


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """One request's virtual times, in ms from the start: *predicted*, never measured."""

    sent_ms: float
    first_token_ms: float
    end_ms: float
    output_tokens: int

    @property
    def ttft_ms(self) -> float:
        return self.first_token_ms - self.sent_ms

    @property
    def e2e_ms(self) -> float:
        return self.end_ms - self.sent_ms


def simulate_closed_loop(
    deployment: Deployment, input_tokens: int, output_tokens: int, concurrency: int, requests: int
) -> list[SimulatedRequest]:
    """`simulate_requests` for `requests` equal requests."""
    return simulate_requests(deployment, [(input_tokens, output_tokens)] * requests, concurrency)


def simulate_requests(
    deployment: Deployment, sizes: Sequence[tuple[int, int]], concurrency: int
) -> list[SimulatedRequest]:
    """Send requests of (input, output) tokens to one copy in order, `concurrency` in flight, until all have ended.

    Returns them in order of end. Raises InputError when the server would refuse one of them.
    """
    batcher = ContinuousBatcher(StepTimes(deployment), batch_limits(deployment))
    sent_ms: list[float] = []
    first_ms: dict[str, float] = {}
    done: list[SimulatedRequest] = []
    now_ms = 0.0

    def send() -> None:
        input_tokens, output_tokens = sizes[len(sent_ms)]
        if (refusal := batcher.submit(str(len(sent_ms)), input_tokens, output_tokens, now_ms)) is not None:
            raise InputError(f"the server refuses {input_tokens} + {output_tokens} tokens: {refusal}")
        sent_ms.append(now_ms)

    for _ in range(min(concurrency, len(sizes))):
        send()
    while (step := batcher.next_step(now_ms)) is not None:
        now_ms += step.duration_ms
        first_ms.update(dict.fromkeys(step.prefilled, now_ms))
        for request_id in step.finished:
            index = int(request_id)
            done.append(SimulatedRequest(sent_ms[index], first_ms[request_id], now_ms, sizes[index][1]))
            if len(sent_ms) < len(sizes):
                send()
    return done
