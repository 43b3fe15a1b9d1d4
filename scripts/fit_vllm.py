"""Refit the planner's vLLM row, its PCIe and NVSwitch rows and its compute efficiencies on published rows; prints them.

    .venv/bin/python scripts/fit_vllm.py PUBLISHED.csv PUBLISHED_2026.csv

Mean latency, TTFT and bursts' throughput of 2026's vLLM rows, and decoding of the SageMaker rows (accuracy_published).
Priors are orders of magnitude, so what no row speaks of stays there. Then leaves models, accelerators and more of
2026 out in turn. SGLang's rows are never fitted. Writes nothing.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "scripts"), str(REPOSITORY / "tests" / "capacity")]

import accuracy_published  # noqa: E402
from accuracy_2026 import FIGURES, Cell, spread  # noqa: E402
from accuracy_cells import calibrated_on, rows_of  # noqa: E402
from accuracy_published import Published  # noqa: E402

from loadproof.capacity import PlannedDeployment, predict_run  # noqa: E402
from loadproof.capacity.confidence import confidence_of  # noqa: E402
from loadproof.capacity.fitting import BOUNDS, Parameters, search  # noqa: E402
from loadproof.capacity.rows import row_deployment  # noqa: E402
from loadproof.capacity.servers import GENERATION  # noqa: E402

# PCIe: as under TGI. Linear attention's is fitted on one model that has both; the prior holds its ratio
# to an expert layer.
PRIORS = {
    "step_ms": 1.1,
    "step_ms_per_sequence": 0.01,
    "single_token_gain": 1.0,
    "bandwidth_efficiency": 0.84,
    "PCIe_gb_per_s": 18.0,
    "PCIe_latency_us": 11.0,
    "step_ms_per_expert_layer": 0.04,
    "step_ms_per_linear_layer": 0.1,
    "step_ms_per_doubling": 0.1,
    "NVSwitch_latency_us": 4.0,
    "ttft_ms": 15.0,
    "prompts_ahead": 0.05,
    "Hopper_0": 0.4,
    "Hopper_1": 0.25,
    "Ampere_0": 0.5,
    "Ampere_1": 0.3,
}
LIMITS = {
    **BOUNDS,
    "bandwidth_efficiency": (0.7, 0.87),
    **{f"{name}_{mixture}": (0.05, 0.9) for name in ("Hopper", "Ampere") for mixture in (0, 1)},
}
SPLITS: dict[str, Callable[[Row], str]] = {
    "model": lambda row: row.given["model"],
    "accelerator": lambda row: row.deployment.accelerator.name,
    "generation": lambda row: GENERATION[row.deployment.accelerator.name],
    "degree": lambda row: row.given["tp_degree"],
    "prompt length": lambda row: "short" if row.input_tokens <= 2048 else "long",
}
_OTHERS = ("PCIe", "NVSwitch", "Hopper", "Ampere")
_PRIOR_WEIGHT = 0.3  # 0.05 and 1 tried: chosen by SageMaker's groups held out (decision 33)
_TTFT_WEIGHT = 0.3  # a TTFT is the least certain figure: it shall not pull the step's parameters
_OFTEN, _OFTEN_WEIGHT = 24, 0.3  # a model with more rows than this counts less in each: its errors hang together


@dataclass(frozen=True, slots=True)
class Row:
    """One row of 2026 with its deployment and its lengths in whole tokens."""

    given: dict[str, str]
    deployment: PlannedDeployment
    input_tokens: int
    output_tokens: int


def read(path: Path) -> list[Row]:
    rows = []
    for given in rows_of(path, "vLLM"):
        prompt, answer = (round(float(given[name])) for name in ("input_tokens", "output_tokens"))
        rows.append(Row(given, row_deployment(given, prompt + answer), prompt, answer))
    return rows


def applied(deployment: PlannedDeployment, parameters: Parameters) -> PlannedDeployment:
    """The deployment with a candidate's server row, efficiency and fabric."""
    fabric, server = deployment.fabric, deployment.server
    if fabric.fabric == "PCIe":
        speed = parameters["PCIe_gb_per_s"] / deployment.accelerators
        fabric = replace(fabric, effective_gb_per_s=speed, latency_us=parameters["PCIe_latency_us"])
    elif fabric.fabric == "NVSwitch":
        fabric = replace(fabric, latency_us=parameters["NVSwitch_latency_us"])
    chosen = {name: value for name, value in parameters.items() if not name.startswith(_OTHERS)}
    kind = f"{GENERATION.get(deployment.accelerator.name)}_{int(bool(deployment.architecture.experts))}"
    chosen["compute_efficiency"] = parameters.get(kind, server.compute_efficiency)
    return replace(deployment, fabric=fabric, server=replace(server, **chosen))  # type: ignore[arg-type]


def errors_of(row: Row, parameters: Parameters) -> dict[str, float]:
    """log(predicted / measured) by figure."""
    concurrency = int(row.given["concurrency"])
    run = predict_run(applied(row.deployment, parameters), row.input_tokens, row.output_tokens, concurrency)
    assert run is not None, f"{row.given} was measured, so it can be served"
    predicted = (run.latency_mean_ms / row.output_tokens, run.ttft_mean_ms, run.output_tokens_per_s)
    found = {}
    for (what, column, _), value in zip(FIGURES, predicted, strict=True):
        if row.given[column] and not (what == "throughput" and row.given["latency_ms_per_token"]):
            found[what] = log(value / float(row.given[column]))
    return found


def fit(published: Sequence[Published], rows: Sequence[Row], rounds: int = 15) -> Parameters:
    """The parameters that suit these rows best."""
    often = Counter(row.given["model"] for row in rows)
    weights = [_OFTEN_WEIGHT if often[row.given["model"]] > _OFTEN else 1.0 for row in rows]

    def evaluate(parameters: Parameters) -> list[float]:
        decoding = [
            accuracy_published.error_of(replace(row, deployment=applied(row.deployment, parameters)))
            for row in published
        ]
        weighed = [
            weight * (_TTFT_WEIGHT if what == "TTFT" else 1.0) * error
            for row, weight in zip(rows, weights, strict=True)
            for what, error in errors_of(row, parameters).items()
        ]
        return [*decoding, *weighed]

    return search(evaluate, PRIORS, rounds, bounds=LIMITS, prior_weight=_PRIOR_WEIGHT)


def held_out(published: Sequence[Published], rows: Sequence[Row]) -> Iterator[tuple[str, list[Cell]]]:
    """(split, its cells) of 2026's rows: each group as a fit without it predicts it, with the range it would have."""
    yield "in sample", _cells(rows, fit(published, rows), rows)
    for split, key in SPLITS.items():
        cells: list[Cell] = []
        for group in sorted({key(row) for row in rows}):
            seen = [row for row in rows if key(row) != group]
            cells += _cells([row for row in rows if key(row) == group], fit(published, seen), seen)
        yield f"leave one {split} out", cells


def _cells(rows: Sequence[Row], parameters: Parameters, seen: Sequence[Row]) -> list[Cell]:
    """Errors of rows, and whether the range held them that a calibration on the seen ones would state."""
    cells = []
    others = [row.deployment for row in seen]
    for row in rows:
        confidence = confidence_of(calibrated_on(row.deployment, others))
        for what, error in errors_of(row, parameters).items():
            measured, predicted = exp(-error), 1.0
            if what == "TTFT":  # in ms, for its range has a part in ms
                measured = float(row.given["ttft_ms"])
                predicted = measured * exp(error)
            low, high = confidence.interval(predicted, ttft=what == "TTFT")
            cells.append(Cell(row.given, what, exp(error) - 1, low <= measured <= high))
    return cells


def section(published: Sequence[Published], rows: Sequence[Row]) -> list[str]:
    """The held-out part of the section on 2026's rows in docs/accuracy.md."""
    lines = [
        "Held out: fitted again (`scripts/fit_vllm.py`) without the rows in question, with the range they would have.",
        "",
        "| | figure | median error | p90 | bias | inside the range | cells |",
        "|---|---|---|---|---|---|---|",
    ]
    for label, cells in held_out(published, rows):
        for what, _, _ in FIGURES:
            lines.append(f"| {label} | {what} | {spread([cell for cell in cells if cell.what == what])} |")
    return [*lines, ""]


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("published", type=Path)
    parser.add_argument("published_2026", type=Path)
    arguments = parser.parse_args()
    published, _ = accuracy_published.read(arguments.published)
    rows = read(arguments.published_2026)
    for name, value in fit(published, rows).items():
        print(f"{name:26s} {PRIORS[name]:8.3f} -> {value:.4g}")
    print("\n".join(section(published, rows)))


if __name__ == "__main__":
    main()
