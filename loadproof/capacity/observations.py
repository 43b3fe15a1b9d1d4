"""What levels measured, beside what the planner predicts for them; and which levels cannot be calibrated on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.runs import predict_run
from loadproof.capacity.workload import PlannedWorkload
from loadproof.errors import InputError

FigureName = Literal["output_tokens_per_s", "ttft_ms", "tpot_ms", "e2e_ms", "e2e_p90_ms"]
FIGURES: tuple[FigureName, ...] = ("output_tokens_per_s", "ttft_ms", "tpot_ms", "e2e_ms", "e2e_p90_ms")


@dataclass(frozen=True, slots=True)
class Figures:
    """What one level measured, or is predicted to: means in ms over requests, `e2e_p90_ms` apart. None: not known."""

    output_tokens_per_s: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    e2e_p90_ms: float | None = None

    def pairs(self, other: Figures) -> Iterable[tuple[FigureName, float, float]]:
        """(name, own, other's) of the figures that both have."""
        for name in FIGURES:
            own, others = getattr(self, name), getattr(other, name)
            if own is not None and others is not None:
                yield name, own, others


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured level and the deployment it was measured on. `label` says where it comes from.

    With a `workload` it is the steady state of that load, and predicted as a plan predicts it; without, a whole run of
    requests of which only mean lengths are known. `ttft_factor` is what TTFT is of the formula's where requests meet
    as they did: clients of equal requests keep step, and wait for each other's prompts.
    """

    label: str
    deployment: PlannedDeployment
    input_tokens: int
    output_tokens: int
    concurrency: int
    measured: Figures
    cached_tokens: int = 0
    workload: PlannedWorkload | None = None
    ttft_factor: float = 1.0


def predicted_figures(observation: Observation, deployment: PlannedDeployment | None = None) -> Figures:
    """The same figures from the planner; all None where it says that the level cannot be served."""
    cell, served_by = observation, deployment or observation.deployment
    if cell.workload is not None:
        level = cell.workload.level(served_by, cell.concurrency)
        if level is None:
            return Figures()
        ttft_ms = min(level.ttft_ms * cell.ttft_factor, level.e2e_ms)
        after_first = cell.workload.output_tokens - 1
        tpot_ms = level.tpot_ms + (level.ttft_ms - ttft_ms) / after_first if after_first else None
        return Figures(level.output_tokens_per_s, ttft_ms, tpot_ms, level.e2e_ms)
    run = predict_run(
        served_by,
        cell.input_tokens,
        cell.output_tokens,
        cell.concurrency,
        cached_tokens=cell.cached_tokens,
    )
    if run is None:
        return Figures()
    rest = cell.output_tokens - 1
    # Copies' clocks run apart in a replay, and few requests on several may seem answered before they were sent.
    known = run.ttft_mean_ms > 0
    return Figures(
        output_tokens_per_s=run.output_tokens_per_s,
        ttft_ms=run.ttft_mean_ms if known else None,
        tpot_ms=(run.latency_mean_ms - run.ttft_mean_ms) / rest if rest and known else None,
        e2e_ms=run.latency_mean_ms,
        e2e_p90_ms=run.latency_p90_ms,
    )


def refuse_mixtures(observations: Sequence[Observation]) -> None:
    if not any(cell.measured != Figures() for cell in observations):
        raise InputError("nothing to calibrate on: no level has a throughput or a latency")
    kinds: tuple[tuple[str, Callable[[PlannedDeployment], object]], ...] = (
        ("servers", lambda deployment: f"{deployment.family} {deployment.version}".strip()),
        ("accelerators", lambda deployment: deployment.accelerator.name),
        (
            "methods of speculative decoding",
            lambda deployment: deployment.speculation.method if deployment.speculation else None,
        ),
        ("numbers of accelerators a copy", lambda deployment: deployment.accelerators),
    )
    for what, key in kinds:
        found = sorted({str(one) for cell in observations if (one := key(cell.deployment)) is not None})
        if len(found) > 1:
            raise InputError(f"levels of several {what}: {', '.join(found)}; calibrate each by itself")


def refuse_impossible(observations: Sequence[Observation]) -> None:
    """Memory and limits are not fitted: what the planner says cannot be served was measured on something else."""
    for cell in observations:
        if predicted_figures(cell) == Figures():
            tokens, where = f"{cell.input_tokens} + {cell.output_tokens} tokens", cell.deployment
            raise InputError(
                f"{cell.label}: {tokens} do not fit on {where.model_id} with {where.accelerators} "
                f"{where.accelerator.name}, the planner says; look at its tokens, or give --profile with "
                "the deployment that was measured"
            )
