"""Fit what the planner knows of vLLM and SGLang in one hierarchical search on published rows; prints it.

    .venv/bin/python scripts/fit_servers.py PUBLISHED.csv PUBLISHED_2026.csv [--write]

Mean latency, TTFT and bursts' throughput of 2026's rows, decoding of the SageMaker rows (accuracy_published), and the
prompts of TensorRT-LLM's tables, which are the one witness of dense models on an H100 SXM. The compute that prompts
reach is a product: one share for all, times what a generation, a mixture, both together, 8-bit weights, SGLang and
TensorRT-LLM change; SGLang's server row is vLLM's, times what it changes. All are shrunk towards `PRIORS`, by as
much as those are trusted; what no row speaks of stays there, what one kind of row teaches counts for its relatives.
`--held-out` fits again without a model, an accelerator and more of 2026 in turn.

`--write` writes `servers.csv`'s two rows, `fabrics.csv`'s, all of `fitted.csv` and of `efficiencies.csv`, whose doubts
are the widths of the posterior (Laplace's, at the optimum).
"""

from __future__ import annotations

import csv
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "scripts"), str(REPOSITORY / "tests" / "capacity")]

import accuracy_published  # noqa: E402
import fit_tables  # noqa: E402
import numpy as np  # noqa: E402
from accuracy_2026 import FIGURES, Cell, spread  # noqa: E402
from accuracy_cells import calibrated_on  # noqa: E402
from accuracy_published import Published  # noqa: E402
from fit_rows import SPLITS, Row, is_tensorrt, loads_of, of_2026, read  # noqa: E402
from fit_step_model import cases_of_tables  # noqa: E402

from loadproof.capacity import PlannedDeployment, PredictedRun, predict_run  # noqa: E402
from loadproof.capacity.confidence import confidence_of  # noqa: E402
from loadproof.capacity.fitting import Parameters, search  # noqa: E402
from loadproof.capacity.servers import DATA, GENERATION  # noqa: E402
from loadproof.simulation.rows import INTERVAL  # noqa: E402
from loadproof.simulation.table_runs import first_sent_ms, play_run  # noqa: E402

# (order of magnitude, half-width in which it is trusted, as |log|). PCIe: as under TGI. Linear attention's is fitted on
# one model that has both; the prior holds its ratio to an expert layer.
PRIORS: dict[str, tuple[float, float]] = {
    "step_ms": (1.1, 0.4),
    "step_ms_per_sequence": (0.01, 0.4),
    "single_token_gain": (1.0, 0.1),
    "bandwidth_efficiency": (0.84, 0.05),
    "PCIe_gb_per_s": (18.0, 0.4),
    "PCIe_latency_us": (11.0, 0.4),
    "step_ms_per_expert_layer": (0.04, 0.4),
    "step_ms_per_linear_layer": (0.1, 0.4),
    "step_ms_per_doubling": (0.1, 0.4),
    "NVSwitch_latency_us": (4.0, 0.4),
    "ttft_ms": (15.0, 0.4),
    # Shares of the datasheet's compute, and factors of them.
    "compute": (0.45, 0.3),
    "Hopper": (0.89, 0.3),
    "Ampere": (1.11, 0.3),
    "mixture": (0.62, 0.3),
    "Hopper_mixture": (1.0, 0.15),
    "Ampere_mixture": (1.0, 0.15),
    # Matrix products as NVIDIA measured them, of 2,048 to 8,192 tokens (gemm_perf of H100 and H200 in
    # aiconfigurator-core 0.12.0): vLLM's reach 0.80 of the datasheet in 16 bits and 0.49 to 0.54 in 8, TensorRT-LLM's
    # 0.79 and 0.59 to 0.60.
    "fp8": (0.65, 0.1),
    # SGLang over vLLM. In 16 bits NVIDIA's measured products (the same tables) are alike, 0.77 and 0.80. SGLang's
    # published rows are of one model, in blocks of 8 bits, which it multiplies by kernels of its own.
    "sglang_compute": (1.0, 0.1),
    "sglang_fp8": (1.0, 0.3),
    "sglang_step": (1.0, 0.7),
    "sglang_expert_layer": (1.0, 0.7),
    "sglang_ttft": (1.0, 0.7),
    # TensorRT-LLM over vLLM: nothing but its prompts is fitted.
    "tensorrt_compute": (1.15, 0.15),
}
GENERATIONS = ("Hopper", "Ampere", "")
_ROUNDS, _PASSES = 15, 2
_WEIGHT = 0.05  # of a parameter's squared distance from its prior in trusted half-widths, beside |log error|
_TTFT_WEIGHT = 0.3  # a TTFT is the least certain figure: it shall not pull the step's parameters
_OFTEN, _OFTEN_WEIGHT = 24, 0.3  # a model with more rows than this counts less in each: its errors hang together
_SLOPE = 0.02


def efficiency(parameters: Mapping[str, float], server: str, generation: str, *, mixture: bool, fp8: bool) -> float:
    """The share of the datasheet's compute that prompts reach."""
    found = parameters["compute"] * parameters.get(generation, 1.0)
    if mixture:
        found *= parameters["mixture"] * parameters.get(f"{generation}_mixture", 1.0)
    if fp8:
        found *= parameters["fp8"] * parameters.get(f"{server}_fp8", 1.0)
    return min(0.9, found * parameters.get(f"{server}_compute", 1.0))


def server_values(parameters: Mapping[str, float], server: str) -> dict[str, float]:
    """The columns of a server's row that are fitted."""
    names: tuple[str, ...] = ("step_ms", "step_ms_per_expert_layer", "step_ms_per_linear_layer", "step_ms_per_doubling")
    names += ("step_ms_per_sequence", "bandwidth_efficiency", "single_token_gain", "ttft_ms")
    values = {name: parameters[name] for name in names}
    values["bandwidth_efficiency"] = min(0.87, values["bandwidth_efficiency"])
    if server == "sglang":
        for name in ("step_ms", "step_ms_per_sequence", "step_ms_per_doubling"):
            values[name] *= parameters["sglang_step"]
        values["step_ms_per_expert_layer"] *= parameters["sglang_expert_layer"]
        values["ttft_ms"] *= parameters["sglang_ttft"]
    return values


def applied(deployment: PlannedDeployment, parameters: Parameters) -> PlannedDeployment:
    """The deployment with a candidate's server row, efficiency and fabric."""
    fabric, chip = deployment.fabric, deployment.accelerator
    if fabric.fabric == "PCIe":
        speed = parameters["PCIe_gb_per_s"] / deployment.accelerators
        fabric = replace(fabric, effective_gb_per_s=speed, latency_us=parameters["PCIe_latency_us"])
    elif fabric.fabric == "NVSwitch":
        fabric = replace(fabric, latency_us=parameters["NVSwitch_latency_us"])
    reached = efficiency(
        parameters,
        _compute_of(deployment),
        GENERATION.get(chip.name, ""),
        mixture=bool(deployment.architecture.experts),
        fp8=deployment.quantization == "fp8" and bool(chip.fp8_tflops),
    )
    values: dict[str, Any] = {**server_values(parameters, deployment.family), "compute_efficiency": reached}
    return replace(deployment, fabric=fabric, server=replace(deployment.server, **values))


def _compute_of(deployment: PlannedDeployment) -> str:
    """Whose kernels compute its prompts: a container of one's own stands for TensorRT-LLM in these rows."""
    return "tensorrt" if deployment.family == "custom" else deployment.family


Run = Callable[[PlannedDeployment, int, int, int], PredictedRun | None]


def errors_of(row: Row, parameters: Parameters, run: Run = play_run) -> dict[str, float]:
    """log(predicted / measured) by figure."""
    concurrency = int(row.given["concurrency"])
    found = run(applied(row.deployment, parameters), row.input_tokens, row.output_tokens, concurrency)
    assert found is not None, f"{row.given} was measured, so it can be served"
    ttft_ms = first_sent_ms(found, row.output_tokens, int(row.given[INTERVAL] or 1))
    predicted = (found.latency_mean_ms / row.output_tokens, ttft_ms, found.output_tokens_per_s)
    errors = {}
    for (what, column, _), value in zip(FIGURES, predicted, strict=True):
        if row.given[column] and not (what == "throughput" and row.given["latency_ms_per_token"]):
            errors[what] = log(value / float(row.given[column]))
    return errors


class Fit:
    """The parameters that suit these rows best. The search asks the formula, which is quick; what the twin says beyond
    it is added as it was where the search began, and the search begins again there."""

    def __init__(self, published: Sequence[Published], rows: Sequence[Row]) -> None:
        often = Counter(row.given["model"] for row in rows)
        self._published, self._rows = published, rows
        self._weights = [_OFTEN_WEIGHT if often[row.given["model"]] > _OFTEN else 1.0 for row in rows]
        parameters = {name: value for name, (value, _) in PRIORS.items()}
        for _ in range(_PASSES):
            offsets = np.subtract(self._errors(parameters, play_run), self._errors(parameters, predict_run))

            def evaluate(scaled: Parameters, offsets: Any = offsets) -> list[float]:
                candidate = _unscaled(scaled)
                decoding = [self.decoding(row, candidate) for row in published]
                return [*decoding, *(np.asarray(self._errors(candidate, predict_run)) + offsets)]

            start = {name: (parameters[name] / value) ** (1 / width) for name, (value, width) in PRIORS.items()}
            found = search(evaluate, dict.fromkeys(PRIORS, 1.0), _ROUNDS, prior_weight=_WEIGHT, start=start)
            parameters = _unscaled(found)
        self._scaled, self._evaluate, self.parameters = found, evaluate, parameters

    @cached_property
    def covariance(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Of the parameters' logarithms, in the order of `PRIORS`: Laplace's at the optimum, with the errors left."""
        names = list(PRIORS)
        base = np.asarray(self._evaluate(self._scaled))
        slopes = np.stack(
            [
                (np.asarray(self._evaluate({**self._scaled, name: self._scaled[name] * exp(_SLOPE)})) - base) / _SLOPE
                for name in names
            ],
            axis=1,
        )
        weight = 1 / np.maximum(np.abs(base), 0.02)
        curvature = slopes.T @ (weight[:, None] * slopes) + 2 * _WEIGHT * np.eye(len(names))
        width = np.asarray([PRIORS[name][1] for name in names])
        scale = float(np.mean(np.abs(base)))
        return np.asarray(scale * np.linalg.inv(curvature) * np.outer(width, width))

    def doubt(self, server: str, generation: str, *, mixture: bool, fp8: bool) -> float:
        """The half-width, as |log|, that holds eight in ten of what `efficiency` may be."""
        factors = ["compute", generation, *(["mixture", f"{generation}_mixture"] if mixture else [])]
        factors += [f"{server}_compute"] + (["fp8", f"{server}_fp8"] if fp8 else [])
        chosen = np.asarray([float(name in factors) for name in PRIORS])
        unseen = [PRIORS[f"Hopper{name}"][1] for name in ("", "_mixture") if name in factors]
        return sqrt(1.28**2 * float(chosen @ self.covariance @ chosen) + sum(width**2 for width in unseen))

    @staticmethod
    def decoding(row: Published, parameters: Parameters) -> float:
        return accuracy_published.error_of(replace(row, deployment=applied(row.deployment, parameters)))

    def _errors(self, parameters: Parameters, run: Run) -> list[float]:
        return [
            weight * (_TTFT_WEIGHT if what == "TTFT" else 1.0) * error
            for row, weight in zip(self._rows, self._weights, strict=True)
            for what, error in errors_of(row, parameters, run).items()
        ]


def fit(published: Sequence[Published], rows: Sequence[Row]) -> Parameters:
    return Fit(published, rows).parameters


def _unscaled(scaled: Mapping[str, float]) -> Parameters:
    """A search's own parameters are 1 at the prior and e at a trusted half-width from it."""
    return {name: value * scaled[name] ** width for name, (value, width) in PRIORS.items()}


def held_out(
    published: Sequence[Published], rows: Sequence[Row], splits: Sequence[str] = tuple(SPLITS)
) -> Iterator[tuple[str, list[Cell]]]:
    """(split, its cells) of 2026's rows: each group as a fit without it predicts it, with the range it would have.
    What a group shares with TensorRT-LLM's prompts they are left out with."""
    for split in splits:
        key = SPLITS[split]
        cells: list[Cell] = []
        for group in sorted({key(row) for row in of_2026(rows)}):
            seen = [row for row in rows if key(row) != group]
            cells += _cells([row for row in of_2026(rows) if key(row) == group], Fit(published, seen), seen)
        yield f"leave one {split} out", cells


def _cells(rows: Sequence[Row], found: Fit, seen: Sequence[Row]) -> list[Cell]:
    """Errors of rows, and whether the range held them that a calibration on the seen ones would state."""
    cells = []
    for row in rows:
        deployment = _calibrated(row.deployment, found, seen)
        concurrency = int(row.given["concurrency"])
        load = predict_run(applied(deployment, found.parameters), row.input_tokens, row.output_tokens, concurrency)
        # Its client was beside its server.
        confidence = replace(confidence_of(deployment, prompt_tokens=row.input_tokens), ttft_on_top_ms=0.0)
        for what, error in errors_of(row, found.parameters).items():
            figure = {"latency": "e2e_ms", "TTFT": "ttft_ms", "throughput": "output_tokens_per_s"}[what]
            low, high = confidence.range_of(figure, exp(error), load)
            cells.append(Cell(row.given, what, exp(error) - 1, low <= 1.0 <= high, high / exp(error) - 1))
    return cells


def _calibrated(deployment: PlannedDeployment, found: Fit, seen: Sequence[Row]) -> PlannedDeployment:
    """As doubtful as rows fitted on those seen leave it."""
    family, chip = deployment.family, deployment.accelerator
    alike = [row for row in seen if row.deployment.family == family]
    deployment = calibrated_on(deployment, loads_of(alike))
    doubt = found.doubt(
        family,
        GENERATION[chip.name],
        mixture=bool(deployment.architecture.experts),
        fp8=deployment.quantization == "fp8" and bool(chip.fp8_tflops),
    )
    models = tuple(sorted({row.deployment.model_id for row in alike if row.given["ttft_ms"]}))
    return replace(deployment, server=replace(deployment.server, ttft_models=models, prompt_doubt=doubt))


def section(published: Sequence[Published], rows: Sequence[Row]) -> list[str]:
    """The held-out part of the section on 2026's rows in docs/accuracy.md."""
    lines = [
        "Held out: fitted again (`scripts/fit_servers.py`) without the rows in question, with the range they would"
        " have.",
        "",
        "| | figure | median error | p90 | bias | inside the range | its mean width | cells |",
        "|---|---|---|---|---|---|---|---|",
    ]
    found = Fit(published, rows)
    fitted = ("in sample", _cells(of_2026(rows), found, rows))
    for label, cells in (fitted, *held_out(published, rows)):
        for what, _, _ in FIGURES:
            lines.append(f"| {label} | {what} | {spread([cell for cell in cells if cell.what == what])} |")
    return [*lines, "", *_prompts_section(published, rows, found), ""]


def _prompts_section(published: Sequence[Published], rows: Sequence[Row], found: Fit) -> Iterator[str]:
    """Errors of TensorRT-LLM's prompts, in sample and with each of their models out."""
    witnesses = [row for row in rows if is_tensorrt(row)]
    out: list[float] = []
    for model in sorted({row.given["model"] for row in witnesses}):
        without = fit(published, [row for row in rows if row.given["model"] != model])
        out += [errors_of(row, without)["throughput"] for row in witnesses if row.given["model"] == model]
    errors = [errors_of(row, found.parameters)["throughput"] for row in witnesses]
    inside, held_out = (float(np.median(np.abs(np.expm1(some)))) for some in (errors, out))
    yield (
        f"What prompts of dense models reach on an H100 SXM has one witness among published rows: {len(witnesses)} of"
        " TensorRT-LLM 1.0 (Llama 3.1 8B and 405B and 3.3 70B in FP8 on H100 and H200; 2,048 prompt and 128 answer"
        f" tokens, or 5,000 and 500). Throughput is {inside:.1%} off in sample, {held_out:.1%} with their model out."
        " They are fitted for their prompts alone, with a factor for what TensorRT-LLM changes; its other rows are"
        " mostly decoding, and not fitted."
    )


def effect(published: Sequence[Published], rows: Sequence[Row], further: Sequence[Row]) -> list[str]:
    """What further rows would do to every parameter and figure, were they fitted too."""
    before, after = fit(published, rows), fit(published, [*rows, *further])
    lines = ["| parameter | fitted | with the table |", "|---|---|---|"]
    lines += [f"| {name} | {before[name]:.4g} | {after[name]:.4g} |" for name in PRIORS]
    lines += ["", "| rows | figure | median error | with the table |", "|---|---|---|---|"]
    for label, some in (("2026", of_2026(rows)), ("the table", further)):
        medians = [_medians(some, parameters) for parameters in (before, after)]
        lines += [f"| {label} | {what} | {medians[0][what]:.1%} | {medians[1][what]:.1%} |" for what in medians[0]]
    decoding = [
        float(np.median(np.abs(np.expm1([Fit.decoding(row, parameters) for row in published]))))
        for parameters in (before, after)
    ]
    return [*lines, f"| SageMaker 2026 | throughput, decoding | {decoding[0]:.1%} | {decoding[1]:.1%} |"]


def _medians(rows: Sequence[Row], parameters: Parameters) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in rows:
        for what, error in errors_of(row, parameters).items():
            found.setdefault(what, []).append(abs(exp(error) - 1))
    return {what: float(np.median(errors)) for what, errors in found.items()}


def efficiency_rows(found: Fit) -> Iterator[dict[str, object]]:
    """Rows of efficiencies.csv."""
    kinds = product(("vllm", "sglang"), GENERATIONS, (False, True), (False, True))
    for server, generation, mixture, fp8 in kinds:
        if fp8 and generation == "Ampere":
            continue  # no 8-bit products there
        reached = efficiency(found.parameters, server, generation, mixture=mixture, fp8=fp8)
        yield {
            "server": server,
            "generation": generation,
            "mixture": int(mixture),
            "fp8": int(fp8),
            "compute_efficiency": f"{reached:.4g}",
            "doubt": f"{found.doubt(server, generation, mixture=mixture, fp8=fp8):.2g}",
            "source": "scripts/fit_servers.py",
        }


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("published", type=Path)
    parser.add_argument("published_2026", type=Path)
    parser.add_argument("--write", action="store_true", help="write loadproof/capacity/data")
    parser.add_argument("--reach", action="store_true", help="write fitted.csv alone, without a fit")
    parser.add_argument("--held-out", action="store_true", help="fit again without each group")
    arguments = parser.parse_args()
    published, _ = accuracy_published.read(arguments.published)
    rows = read(arguments.published, arguments.published_2026)
    if arguments.reach:
        write_reach(rows)
        return
    found = Fit(published, rows)
    widths = np.sqrt(np.diag(found.covariance))
    for (name, value), width in zip(found.parameters.items(), widths, strict=True):
        print(f"{name:26s} {PRIORS[name][0]:8.3f} -> {value:.4g} ({width:.0%})")
    print(*efficiency_rows(found), sep="\n")
    if arguments.write:
        write(found)
        write_reach(rows)
    if arguments.held_out:
        print("\n".join(section(published, rows)))


def write(found: Fit) -> None:
    """The shipped rows. Columns and sources that are not fitted stay as they are."""
    for server in ("vllm", "sglang"):
        fit_tables.rewrite("servers.csv", server_values(found.parameters, server), family=server)
    latency = {"latency_us": found.parameters["NVSwitch_latency_us"]}
    fit_tables.rewrite("fabrics.csv", latency, fabric="NVSwitch", server="")
    for accelerators, slower in ((2, 1.0), (4, 1.0), (8, 1.213)):
        speed = found.parameters["PCIe_gb_per_s"] / accelerators / slower
        values = {"effective_gb_per_s": speed, "latency_us": found.parameters["PCIe_latency_us"]}
        fit_tables.rewrite("fabrics.csv", values, fabric="PCIe", server="", accelerators=str(accelerators))
    rows = list(efficiency_rows(found))
    with (DATA / "efficiencies.csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_reach(rows: Sequence[Row]) -> None:
    """SageMaker's prompts repeat, so none of them was computed."""
    founding, recent = "founding posts (2024-01-29)", "InferenceMAX and GPUStack (2025-12 to 2026-01)"
    fit_tables.write([(founding, fit_tables.loads_of(cases_of_tables())), (recent, loads_of(of_2026(rows)))])


if __name__ == "__main__":
    main()
