"""Refit the planner's TGI and fabric rows on the founding posts' tables and print them with their errors.

    .venv/bin/python scripts/fit_step_model.py

Coordinate search on the mean absolute log error of throughput and latency (robust against the tables' outliers).
Prints rows for loadproof/capacity/data/*.csv; writes nothing.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from math import log
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "capacity"))

from capacity_seed import SeedRow, seed_rows

from loadproof.capacity import Deployment, predict_level

SERVER = (
    "step_ms",
    "step_ms_per_doubling",
    "step_ms_per_sequence",
    "bandwidth_efficiency",
    "compute_efficiency",
    "reserve_gib",
)
UPPER = {"bandwidth_efficiency": 0.95, "compute_efficiency": 0.95}
# These tables cannot tell PCIe's latency from the server's time per doubling; published vLLM decode times on four
# L40S (no server overhead to speak of) put it near 11 us.
LOWER = {"PCIe_latency_us": 11.0}
Parameters = dict[str, float]


def applied(deployment: Deployment, parameters: Parameters) -> Deployment:
    """The deployment with the candidate's server and fabric rows."""
    fabric = deployment.fabric
    key = f"{fabric.fabric}{fabric.accelerators}"
    if f"{key}_gb_per_s" in parameters:
        fabric = replace(
            fabric,
            effective_gb_per_s=parameters[f"{key}_gb_per_s"],
            latency_us=parameters[f"{fabric.fabric}_latency_us"],
        )
    return replace(
        deployment, fabric=fabric, server=replace(deployment.server, **{name: parameters[name] for name in SERVER})
    )


def errors(cases: list[tuple[SeedRow, Deployment]], parameters: Parameters) -> tuple[list[float], list[float]]:
    """(log errors of throughput, log errors of latency per token); latency only where nothing is predicted to queue,
    for the tables give the p90 of it and the closed form the mean."""
    throughput, latency = [], []
    for row, deployment in cases:
        level = predict_level(applied(deployment, parameters), row.input_tokens, row.output_tokens, row.concurrency)
        if level is None:
            throughput.append(2.0)
            continue
        if row.throughput_tok_s:
            throughput.append(log(level.output_tokens_per_s / row.throughput_tok_s))
        if row.latency_ms_per_token and level.queue_ms == 0:
            latency.append(log(level.e2e_ms / row.output_tokens / row.latency_ms_per_token))
    return throughput, latency


def loss(cases: list[tuple[SeedRow, Deployment]], parameters: Parameters) -> float:
    throughput, latency = errors(cases, parameters)
    return sum(map(abs, throughput)) / len(throughput) + 0.5 * sum(map(abs, latency)) / len(latency)


def fit(cases: list[tuple[SeedRow, Deployment]], parameters: Parameters) -> Parameters:
    """Coordinate search with steps that halve from 30% to 1%."""
    best, step = loss(cases, parameters), 0.3
    while step > 0.01:
        improved = False
        for name in parameters:
            for factor in (1 + step, 1 / (1 + step)):
                value = max(LOWER.get(name, 0.0), min(parameters[name] * factor, UPPER.get(name, 1e9)))
                candidate = parameters | {name: value}
                if (found := loss(cases, candidate)) < best - 1e-5:
                    parameters, best, improved = candidate, found, True
                    break
        step = step if improved else step / 2
    return parameters


def main() -> None:
    cases = [(row, row.deployment()) for row in seed_rows()]
    server = cases[0][1].server
    start = {name: getattr(server, name) for name in SERVER}
    for _, deployment in cases:
        fabric = deployment.fabric
        if fabric.accelerators > 1:
            start[f"{fabric.fabric}{fabric.accelerators}_gb_per_s"] = fabric.effective_gb_per_s
            start[f"{fabric.fabric}_latency_us"] = fabric.latency_us
    fitted = fit(cases, start)
    for label, parameters in (("before", start), ("after", fitted)):
        throughput, latency = (sorted(map(abs, values)) for values in errors(cases, parameters))
        print(
            f"{label}: throughput median {throughput[len(throughput) // 2]:.1%} p90 "
            f"{throughput[int(0.9 * len(throughput))]:.1%} of {len(throughput)}; latency median "
            f"{latency[len(latency) // 2]:.1%} p90 {latency[int(0.9 * len(latency))]:.1%} of {len(latency)}"
        )
    for name, value in fitted.items():
        print(f"{name:28s} {start[name]:8.3f} -> {value:.4g}")


if __name__ == "__main__":
    main()
