"""Levels between the listed ones: the ladder the knees are found on, and the last level that still will do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from loadproof.capacity.curve import INVOCATION_LIMIT_MS, PredictedLevel
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.runs import predict_run
from loadproof.capacity.workload import PlannedWorkload

# No endpoint is planned past this; a ladder of doublings reaches it in 16 steps.
MOST_IN_FLIGHT = 1 << 16
_WORTH_CLIMBING = 0.01


@dataclass(frozen=True, slots=True)
class InvocationLimit:
    """The most requests in flight of which 19 in 20 end within SageMaker's 60 s for an answer in one piece.

    `applies` is False for streams, which may take longer. `concurrency` is 0 where even one request alone takes too
    long; `reached` is False where the server admits no more and none takes too long. `latency_p95_ms` is the tail at
    `concurrency`.
    """

    limit_s: float
    applies: bool
    concurrency: int
    reached: bool
    latency_p95_ms: float | None


def ladder(
    level: Callable[[int], PredictedLevel | None],
    deployment: PlannedDeployment,
    listed: Iterable[int] = (),
    unit: int = 1,
) -> tuple[PredictedLevel, ...]:
    """The listed levels and doublings of `unit`, up to where throughput stands still or requests are refused.

    Never past what the copies admit: there the server answers with errors, and a faster error is no throughput. Nor
    past a level whose predecessor fills every batch: further requests wait, whatever a play adds by chance.
    """
    most = min(admitted(deployment), MOST_IN_FLIGHT)
    listed = {rung for rung in listed if rung <= most}
    found: dict[int, PredictedLevel] = {}
    rung, before, stands_still = min(unit, most), 0.0, False
    while not stands_still or rung <= max(listed, default=0):
        row = level(rung)
        if row is None:
            return ()
        found[rung] = row
        full = rung >= 2 * row.batch * deployment.copies
        stands_still = full or (before > 0 and row.output_tokens_per_s / before - 1 < _WORTH_CLIMBING)
        before = row.output_tokens_per_s
        if rung == most:
            break
        rung = min(2 * rung, most)
    found |= {rung: row for rung in listed - found.keys() if (row := level(rung)) is not None}
    return tuple(found[rung] for rung in sorted(found))


def admitted(deployment: PlannedDeployment) -> int:
    """Requests that all copies take in before one of them refuses, spread evenly."""
    return deployment.limits.max_admitted_requests * deployment.copies


def last_that(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last number of low..high-1 up to which `holds`, given that it holds at `low` and not at `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def invocation_limit(
    deployment: PlannedDeployment, workload: PlannedWorkload, *, streaming: bool
) -> InvocationLimit | None:
    """The exact number of requests in flight, by doubling and halving; None when none can be served at all.

    Whole runs are predicted (`predict_run`: equal requests, three a client), because the limit cuts the slowest off.
    """

    def tail_ms(concurrency: int) -> float | None:
        run = predict_run(deployment, workload.input_tokens, workload.output_tokens, concurrency)
        return None if run is None else run.latency_p95_ms

    def within(concurrency: int) -> bool:
        tail = tail_ms(concurrency)
        return tail is not None and tail <= INVOCATION_LIMIT_MS

    limit_s, applies = INVOCATION_LIMIT_MS / 1e3, not streaming
    first = tail_ms(1)
    if first is None:
        return None
    if first > INVOCATION_LIMIT_MS:
        return InvocationLimit(limit_s, applies, 0, True, None)
    most = min(admitted(deployment), _MOST_REPLAYED)
    high = 1
    while high < most and within(min(2 * high, most)):
        high = min(2 * high, most)
    if high == most:
        return InvocationLimit(limit_s, applies, most, False, tail_ms(most))
    exact = last_that(within, high, min(2 * high, most))
    return InvocationLimit(limit_s, applies, exact, True, tail_ms(exact))


_MOST_REPLAYED = 1 << 12  # requests are replayed one by one: past this a plan would take seconds
