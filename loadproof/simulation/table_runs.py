"""What a row of a published table would have measured: a closed loop of which only the mean lengths are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from loadproof.capacity import PlannedDeployment, PredictedRun, predict_run
from loadproof.capacity.curve import batch_capacity
from loadproof.simulation.replay import play

# Tables' requests are nearly alike: InferenceMAX draws lengths within 11% of their mean, AWS's suite leaves them equal.
_UNEVEN: Final = 0.05
_ROUNDS: Final = 10  # requests a client sends, as InferenceMAX has it
_MOST_REQUESTS: Final = 2_000  # but for three a client, which the founding tables sent


def play_run(
    deployment: PlannedDeployment, input_tokens: int, output_tokens: int, concurrency: int, *, cached_tokens: int = 0
) -> PredictedRun | None:
    """`predict_run`, of a chunked scheduler request by request: the twin's means and percentiles.

    One copy's share of the clients is played, from their start together. Each sends ten requests of nearly equal
    lengths, fewer where many are in flight.
    """
    run = predict_run(deployment, input_tokens, output_tokens, concurrency, cached_tokens=cached_tokens)
    if run is None or deployment.limits.scheduler != "chunked" or concurrency <= run.refused:
        return run
    served = concurrency - run.refused
    clients = max(1, round(served / min(deployment.copies, served)))
    requests = max(3 * clients, min(_ROUNDS * clients, _MOST_REQUESTS))
    sizes = _sizes(deployment, input_tokens, output_tokens, cached_tokens)
    played = play(deployment, clients, requests, sizes, input_tokens + output_tokens)
    if played is None:
        return run
    return replace(
        run,
        output_tokens_per_s=requests * output_tokens / played.duration_ms * 1e3 * served / clients,
        latency_mean_ms=played.e2e_ms,
        latency_p90_ms=played.tails.e2e_ms.p90,
        latency_p95_ms=played.tails.e2e_ms.p95,
        ttft_mean_ms=played.ttft_ms,
    )


def first_sent_ms(run: PredictedRun, output_tokens: int, interval: int) -> float:
    """Mean time to what a server sends first: the first token, or so many of them."""
    ahead = min(interval, output_tokens) - 1
    if ahead == 0:
        return run.ttft_mean_ms
    return run.ttft_mean_ms + ahead * (run.latency_mean_ms - run.ttft_mean_ms) / (output_tokens - 1)


def _sizes(
    deployment: PlannedDeployment, input_tokens: int, output_tokens: int, cached_tokens: int
) -> Iterator[tuple[int, int, int]]:
    """(prompt, answer, prompt tokens that are cached) without end; what the server would not take has the mean."""
    chance = Random(0)
    new_tokens = input_tokens - cached_tokens
    while True:
        new, answer = (
            max(1, round(mean * chance.uniform(1 - _UNEVEN, 1 + _UNEVEN))) for mean in (new_tokens, output_tokens)
        )
        if batch_capacity(deployment, cached_tokens + new, answer) == 0:
            new, answer = new_tokens, output_tokens
        yield cached_tokens + new, answer, cached_tokens
