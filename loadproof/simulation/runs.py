"""Runs: steps in a row whose durations grow by the same amount, summed and searched in closed form.

A step's duration is convex and piecewise affine in what grows along a run (tokens of context, attended pairs): sums and
maxima of affine terms. Three points decide whether such a sequence is one line: a convex sequence that meets its chord
at an inner point lies on it everywhere. So a kink, where the roofline's maximum changes sides, costs a few shorter runs
and no approximation.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, sqrt
from typing import Protocol

# A midpoint this close to its chord, relatively, lies on it. A convex sequence is nowhere further below its chord than
# twice its depth in the middle, so no sum is off by more than twice this share.
ON_CHORD = 1e-12


class StepDurations(Protocol):
    """What the scheduler asks of the step model (`loadproof.capacity.StepTimes`).

    For constant `decodes`, `prefill_tokens` and `prefill_requests` it must be convex and piecewise affine in
    `context_tokens` and `prefill_pairs` together.
    """

    def step_ms(
        self,
        *,
        decodes: float = 0,
        context_tokens: float = 0,
        prefill_tokens: float = 0,
        prefill_pairs: float = 0,
        prefill_requests: float = 0,
    ) -> float: ...


def sum_ms(steps: int, first_ms: float, growth_ms: float) -> float:
    """Σ over k < n of (first + k · growth) = n · first + growth · n (n - 1) / 2."""
    return steps * first_ms + growth_ms * (steps * (steps - 1) / 2)


def steps_to_reach(target_ms: float, first_ms: float, growth_ms: float) -> int:
    """The fewest steps n ≥ 1 whose sum is at least `target_ms`; needs `first_ms` > 0 and 0 ≤ `growth_ms`.

    The root of growth/2 · n² + (first - growth/2) · n = target, in the form without cancellation; rounding can miss
    it by one, so its neighbours are compared.
    """
    if target_ms <= first_ms:
        return 1
    slope = first_ms - growth_ms / 2
    root = sqrt(slope * slope + 2 * growth_ms * target_ms)
    steps = max(1, ceil(2 * target_ms / (slope + root)))
    while steps > 1 and sum_ms(steps - 1, first_ms, growth_ms) >= target_ms:
        steps -= 1
    while sum_ms(steps, first_ms, growth_ms) < target_ms:
        steps += 1
    return steps


def affine_prefix(duration_ms: Callable[[int], float], most_steps: int) -> tuple[int, float, float]:
    """(steps, first ms, growth ms): a prefix of the convex sequence `duration_ms(0..most_steps-1)` on one line.

    Halves until the middle lies on the chord: at most log2(`most_steps`) halvings for each kink.
    """
    first_ms = duration_ms(0)
    steps = most_steps
    while steps > 2:
        last_ms, middle = duration_ms(steps - 1), (steps - 1) // 2
        chord_ms = first_ms + (last_ms - first_ms) * middle / (steps - 1)
        if abs(duration_ms(middle) - chord_ms) <= ON_CHORD * chord_ms:
            return steps, first_ms, (last_ms - first_ms) / (steps - 1)
        steps //= 2
    return steps, first_ms, duration_ms(1) - first_ms if steps == 2 else 0.0


class DecodeTimes:
    """Runs of decode steps, whose context grows by one token a sequence and step.

    Where the step model is one line in the context, as a roofline that adds the KV read is, the line is kept for each
    batch size and a run costs two multiplications; else it is looked for again at every run.
    """

    __slots__ = ("_lines", "_most_context", "_step_ms")

    def __init__(self, step_times: StepDurations, most_context_tokens: int) -> None:
        self._step_ms = step_times.step_ms
        self._most_context = most_context_tokens
        self._lines: dict[int, tuple[float, float] | None] = {}

    def run(self, batch: int, context_tokens: int, most_steps: int) -> tuple[int, float, float]:
        """(steps, first ms, growth ms) of at most `most_steps` decode steps, the first on `context_tokens`."""
        try:
            line = self._lines[batch]
        except KeyError:
            line = self._lines[batch] = self._line(batch)
        if line is not None:
            return most_steps, line[0] + line[1] * context_tokens, line[1] * batch
        return affine_prefix(
            lambda step: self._step_ms(decodes=batch, context_tokens=context_tokens + batch * step), most_steps
        )

    def _line(self, batch: int) -> tuple[float, float] | None:
        """(ms at no context, ms a token of context), None when there is a kink below the most context."""
        steps, fixed_ms, growth_ms = affine_prefix(
            lambda context: self._step_ms(decodes=batch, context_tokens=context), self._most_context + 1
        )
        return (fixed_ms, growth_ms) if steps == self._most_context + 1 else None
