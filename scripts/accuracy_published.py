"""The section of docs/accuracy.md on published rows that are not ours to commit: only their errors are written."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

import numpy as np

from loadproof.capacity import Deployment, StepTimes, deployment_from_container
from loadproof.capacity.confidence import confidence_of
from loadproof.capacity.fitting import Parameters, search
from loadproof.cli.predict_rows import model_shape
from loadproof.errors import InputError

PRIORS = {
    "step_ms": 1.1,
    "step_ms_per_sequence": 0.01,
    "bandwidth_efficiency": 0.84,
    "PCIe_gb_per_s": 18.0,
    "PCIe_latency_us": 11.0,
}


@dataclass(frozen=True, slots=True)
class Published:
    """One row: its deployment, and tokens/s measured with every prompt found in the prefix cache."""

    deployment: Deployment
    input_tokens: float
    output_tokens: float
    concurrency: int
    throughput_tok_s: float

    @property
    def group(self) -> tuple[str, str]:
        return self.deployment.model_id, self.deployment.instance.instance_type


def section(path: Path) -> list[str]:
    """Errors of the vLLM rows, shipped parameters and one (model, instance type) out."""
    rows, skipped = read(path)
    lines = [
        "## vLLM on SageMaker, published 2026",
        "",
        f"{len(rows)} rows in {len({row.group for row in rows})} groups; {skipped} vLLM rows are of a model whose shape"
        " the catalog lacks. Prompts repeat, so the prefix cache hides most prefill: what is compared is decoding.",
        "",
        "| | throughput: median | p90 | cells | inside the range | goal |",
        "|---|---|---|---|---|---|",
        _line("shipped rows", rows, [error_of(row, None) for row in rows], ""),
    ]
    held: list[float] = []
    ordered: list[Published] = []
    for group in sorted({row.group for row in rows}):
        seen = [row for row in rows if row.group != group]
        fitted = search(lambda p, seen=seen: np.array([error_of(row, p) for row in seen]), PRIORS, 8)
        out = [row for row in rows if row.group == group]
        errors = [error_of(row, fitted) for row in out]
        lines.append(_line(f"without {group[0]} on {group[1]}", out, errors, ""))
        held += errors
        ordered += out
    median = float(np.median(np.abs(np.expm1(held))))
    return [*lines, _line("leave one out, all", ordered, held, f"8.0% {'met' if median <= 0.08 else '**missed**'}"), ""]


def read(path: Path) -> tuple[list[Published], int]:
    """(vLLM rows with a known shape and a concurrency, vLLM rows without a known shape)."""
    rows, skipped = [], 0
    with path.open(encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            if not row["server"].startswith("vLLM (SageMaker") or not row["concurrency"]:
                continue
            try:
                shape = model_shape(row["model"])
            except InputError:
                skipped += 1
                continue
            deployment = deployment_from_container(
                family="vllm",
                version="",
                variables={},
                model_id=shape.hf_id,
                architecture=shape,
                instance_type=row["instance_type"],
                accelerators_per_copy=int(row["tp_degree"]),
                copies=1,
            )
            figures = (float(row[name]) for name in ("input_tokens", "output_tokens"))
            rows.append(Published(deployment, *figures, int(row["concurrency"]), float(row["throughput_tok_s"])))
    return rows, skipped


def error_of(row: Published, parameters: Parameters | None) -> float:
    """log(predicted / measured) throughput of a batch that only decodes: B / decode(B, B · (input + output / 2))."""
    deployment = row.deployment
    if parameters is not None:
        fabric = deployment.fabric
        if fabric.fabric == "PCIe":
            fabric = replace(
                fabric,
                effective_gb_per_s=parameters["PCIe_gb_per_s"] / deployment.accelerators,
                latency_us=parameters["PCIe_latency_us"],
            )
        names = ("step_ms", "step_ms_per_sequence", "bandwidth_efficiency")
        server = replace(deployment.server, **{name: parameters[name] for name in names})
        deployment = replace(deployment, fabric=fabric, server=server)
    batch = row.concurrency
    step_ms = StepTimes(deployment).decode_ms(batch, batch * (row.input_tokens + row.output_tokens / 2))
    return log(batch / step_ms * 1e3 / row.throughput_tok_s)


def _line(label: str, rows: Sequence[Published], log_errors: Sequence[float], goal: str) -> str:
    errors = np.abs(np.expm1(log_errors))
    inside = np.mean(
        [abs(error) <= log(1 + confidence_of(row.deployment).band) for row, error in zip(rows, log_errors, strict=True)]
    )
    tail = float(np.quantile(errors, 0.9))
    return f"| {label} | {np.median(errors):.1%} | {tail:.1%} | {len(errors)} | {inside:.0%} | {goal} |"
