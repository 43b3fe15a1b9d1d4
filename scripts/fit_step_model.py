"""Refit the planner's TGI and fabric rows on the founding posts' tables and print them with their errors.

    .venv/bin/python scripts/fit_step_model.py

`loadproof.capacity.fitting` searches. Prints rows for loadproof/capacity/data/*.csv; writes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "capacity"))

from capacity_seed import SeedRow, seed_rows

from loadproof.capacity import PlannedDeployment
from loadproof.capacity.fitting import BOUNDS, Parameters, search
from loadproof.capacity.runs import PredictedRun, predict_run

# Where the search starts, and what a parameter no row speaks of keeps: orders of magnitude, not fitted values.
# `PCIe_gb_per_s` is what all accelerators of an instance share, for there they meet at the host; eight of them span
# both of its sockets and are slower by `PCIe_slower_by_8`.
PRIORS = {
    "step_ms": 4.0,
    "step_ms_per_layer": 0.05,
    "step_ms_per_doubling": 2.0,
    "step_ms_per_sequence": 0.15,
    "prefill_us_per_token_per_doubling": 5.0,
    "bandwidth_efficiency": 0.84,
    "compute_efficiency": 0.6,
    "reserve_gib": 0.7,
    "PCIe_gb_per_s": 16.0,
    "PCIe_latency_us": 11.0,
    "PCIe_slower_by_8": 1.0,
    "NVSwitch_gb_per_s": 150.0,
    "NVSwitch_latency_us": 20.0,
}
# No all-reduce is faster than the A100's link.
LIMITS = {**BOUNDS, "NVSwitch_gb_per_s": (15.0, 300.0)}
SERVER = tuple(PRIORS)[:8]  # the server's row; the rest are the fabrics'
Case = tuple[SeedRow, PlannedDeployment]


def applied(deployment: PlannedDeployment, parameters: Parameters) -> PlannedDeployment:
    """The deployment with the candidate's server and fabric rows."""
    fabric = deployment.fabric
    bandwidth = parameters.get(f"{fabric.fabric}_gb_per_s")
    if bandwidth is not None:
        shared_by = 1.0
        if fabric.fabric == "PCIe":
            shared_by = deployment.accelerators * (parameters["PCIe_slower_by_8"] if deployment.accelerators > 4 else 1)
        fabric = replace(
            fabric,
            effective_gb_per_s=bandwidth / shared_by,
            latency_us=parameters[f"{fabric.fabric}_latency_us"],
        )
    return replace(
        deployment, fabric=fabric, server=replace(deployment.server, **{name: parameters[name] for name in SERVER})
    )


def run_of(case: Case, parameters: Parameters) -> PredictedRun | None:
    row, deployment = case
    return predict_run(applied(deployment, parameters), row.input_tokens, row.output_tokens, row.concurrency)


def log_errors(case: Case, run: PredictedRun | None) -> list[float]:
    """log(predicted / measured) of throughput and of p90 latency per token, those measured; 1 for `cannot serve`."""
    row = case[0]
    errors = []
    if row.throughput_tok_s:
        errors.append(log(run.output_tokens_per_s / row.throughput_tok_s) if run else 1.0)
    if row.latency_ms_per_token:
        errors.append(log(run.latency_p90_ms / row.output_tokens / row.latency_ms_per_token) if run else 1.0)
    return errors


def residuals(cases: Sequence[Case], parameters: Parameters) -> np.ndarray:
    return np.array([error for case in cases for error in log_errors(case, run_of(case, parameters))])


def fit(cases: Sequence[Case], rounds: int = 12) -> Parameters:
    """The parameters of the TGI and fabric rows that suit these cells best."""
    return search(lambda parameters: residuals(cases, parameters), PRIORS, rounds, bounds=LIMITS)


def cases_of_tables() -> list[Case]:
    """Every TGI row but the one of a text client, whose token counts are guesses."""
    return [(row, row.deployment()) for row in seed_rows() if row.input_tokens >= 256]


def describe(cases: Sequence[Case], parameters: Parameters) -> str:
    """Median and 90th percentile of the absolute errors of throughput and of p90 latency."""
    runs = [(case, run_of(case, parameters)) for case in cases]
    parts = []
    for label, pick in (("throughput", "throughput_tok_s"), ("p90 latency", "latency_ms_per_token")):
        errors = []
        for (row, deployment), run in runs:
            if getattr(row, pick):
                only = replace(
                    row, **{name: None for name in ("throughput_tok_s", "latency_ms_per_token") if name != pick}
                )
                errors.append(abs(np.expm1(log_errors((only, deployment), run)[0])))
        parts.append(f"{label} median {np.median(errors):.1%} p90 {np.quantile(errors, 0.9):.1%} of {len(errors)}")
    return "; ".join(parts)


def main() -> None:
    cases = cases_of_tables()
    fitted = fit(cases)
    print("priors:", describe(cases, PRIORS))
    print("fitted:", describe(cases, fitted))
    for name, value in fitted.items():
        print(f"{name:22s} {PRIORS[name]:8.3f} -> {value:.4g}")


if __name__ == "__main__":
    main()
