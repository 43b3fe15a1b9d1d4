"""The measured cells of the founding tables, what is predicted for them in sample, and held out from stored fits.

A held-out figure takes a fit of its own, so all of them are stored (docs/accuracy.json) with a fingerprint of what they
were made from; everything else is predicted again whenever the page is written or checked.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tokenize import COMMENT, tokenize
from typing import Any

import fit_step_model
import numpy as np
from fit_step_model import Case, Parameters, fit, run_of
from fit_tables import Load, loads_of
from fit_tables import rows_of as reach_of

from loadproof.capacity import PlannedDeployment, PredictedRun, fitting, predict_run
from loadproof.capacity.confidence import near_limit
from loadproof.capacity.curve import batch_capacity
from loadproof.capacity.servers import fitted_prompts

# Fewer figures than this calibrate nothing: two cells of one model on an accelerator leave it as good as unseen.
ENOUGH = 8
SPLITS: dict[str, Callable[[Case], Hashable]] = {
    "leave one model out": lambda case: case[0].model,
    "leave one TP degree out": lambda case: case[0].tp_degree,
    "leave one instance type out": lambda case: case[0].instance_type,
    "the 4,096-token payload out": lambda case: case[0].input_tokens,
}
ONLY: dict[str, list[Hashable]] = {"the 4,096-token payload out": [3840]}


@dataclass(frozen=True, slots=True)
class Cell:
    """One measured figure and its prediction; `what` is `throughput` (tokens/s) or `latency` (p90 ms a token)."""

    case: Case
    what: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    @property
    def near_limit(self) -> bool:
        """Whether a small error of memory decides if requests queue (see `confidence.near_limit`)."""
        row, deployment = self.case
        capacity = batch_capacity(deployment, row.input_tokens, row.output_tokens)
        return near_limit(row.concurrency / min(row.concurrency, deployment.copies), capacity)


def cells_of(cases: Sequence[Case], predicted: Sequence[tuple[float, float]]) -> list[Cell]:
    """The measured figures of these cases beside their (tokens/s, p90 ms a token)."""
    cells = []
    for case, (throughput, latency) in zip(cases, predicted, strict=True):
        if case[0].throughput_tok_s:
            cells.append(Cell(case, "throughput", case[0].throughput_tok_s, throughput))
        if case[0].latency_ms_per_token:
            cells.append(Cell(case, "latency", case[0].latency_ms_per_token, latency))
    return cells


def shipped_cells(cases: Sequence[Case]) -> list[Cell]:
    """Every cell as the shipped rows predict it."""
    runs = [predict_run(d, row.input_tokens, row.output_tokens, row.concurrency) for row, d in cases]
    return cells_of(cases, [_figures(case, run) for case, run in zip(cases, runs, strict=True)])


def held_out_cells(cases: Sequence[Case], split: str, stored: Sequence[Sequence[float]]) -> list[Cell]:
    """Cells of each group as a fit that saw none of the group predicted them, with the grade they would have had."""
    pairs = _held_out_pairs(cases, split)
    return cells_of([graded(case, seen) for case, seen in pairs], [(one, other) for one, other in stored])


def fit_held_out(cases: Sequence[Case], split: str) -> list[tuple[float, float]]:
    """(tokens/s, p90 ms a token) of each held-out case, in the order `held_out_cells` reads. Takes half a minute."""
    fits: dict[int, Parameters] = {}
    found = []
    for case, seen in _held_out_pairs(cases, split):
        if id(seen) not in fits:
            fits[id(seen)] = fit(seen)
        throughput, latency = _figures(case, run_of(case, fits[id(seen)]))
        found.append((float(f"{throughput:.5g}"), float(f"{latency:.5g}")))
    return found


def graded(case: Case, seen: Sequence[Case]) -> Case:
    """The case as if calibrated on the cases seen: their accelerators, and their degrees on its fabric."""
    row, deployment = case
    return row, calibrated_on(deployment, loads_of(seen), ENOUGH)


def calibrated_on(deployment: PlannedDeployment, seen: Sequence[Load], enough: int = 1) -> PlannedDeployment:
    """With what so many of those seen share: their accelerators, and their degrees on this one's fabric; and with the
    prompts of any of them."""
    others = [load.deployment for load in seen]
    chips = Counter(other.accelerator.name for other in others)
    degrees = Counter(other.accelerators for other in others if other.instance.fabric == deployment.instance.fabric)
    fabric, server = deployment.fabric, deployment.server
    prompts = fitted_prompts(server.family, deployment.accelerator.name, reach_of(seen))
    if deployment.accelerators > 1:
        fabric = replace(fabric, calibrated_degrees=_enough(degrees, enough))
    server = replace(server, calibrated_on=_enough(chips, enough), fitted_prompts=prompts)
    return replace(deployment, fabric=fabric, server=server)


def applied(
    deployment: PlannedDeployment, parameters: Mapping[str, float], link: str, shared_by: int = 1
) -> PlannedDeployment:
    """The deployment with a candidate's server row, and its fabric row where the fabric is `link`."""
    fabric = deployment.fabric
    if fabric.fabric == link:
        speed = parameters[f"{link}_gb_per_s"] / shared_by
        fabric = replace(fabric, effective_gb_per_s=speed, latency_us=parameters[f"{link}_latency_us"])
    server = {name: value for name, value in parameters.items() if not name.startswith(link)}
    return replace(deployment, fabric=fabric, server=replace(deployment.server, **server))


def rows_of(path: Path, server: str = "") -> Iterator[dict[str, str]]:
    """Rows of a table of measurements whose server is called so at its beginning."""
    with path.open(encoding="utf-8", newline="") as handle:
        yield from (row for row in csv.DictReader(handle) if row["server"].startswith(server))


def goal(met: bool) -> str:
    return "met" if met else "**missed**"


def fingerprint(cases: Sequence[Case], cells: Sequence[Cell]) -> str:
    """A digest of the measured rows, of what the shipped model says of them, to four digits, and of the code that
    fits: held-out figures are another fitter's otherwise."""
    rows = [[str(row), *(f"{c.predicted:.4g}" for c in cells if c.case[0] is row)] for row, _ in cases]
    fitters = [_words(Path(module.__file__ or "")) for module in (fitting, fit_step_model)]
    return sha256(json.dumps([rows, fitters]).encode()).hexdigest()[:16]


def _words(source: Path) -> str:
    """What a source says, without comments and layout: whichever Python reads it, which its syntax tree depends on."""
    with source.open("rb") as handle:
        return "".join("".join(one.string for one in tokenize(handle.readline) if one.type != COMMENT).split())


def _held_out_pairs(cases: Sequence[Case], split: str) -> list[tuple[Case, list[Case]]]:
    """Each held-out case with the cases its fit may see; one list a group."""
    key = SPLITS[split]
    pairs = []
    for group in ONLY.get(split) or sorted({key(case) for case in cases}, key=str):
        seen = [case for case in cases if key(case) != group]
        pairs += [(case, seen) for case in cases if key(case) == group]
    return pairs


def _figures(case: Case, run: PredictedRun | None) -> tuple[float, float]:
    """A row that cannot be served is infinitely wrong."""
    return (run.output_tokens_per_s, run.latency_p90_ms / case[0].output_tokens) if run else (np.inf, np.inf)


def _enough(counts: Counter[Any], enough: int) -> tuple[Any, ...]:
    return tuple(sorted(name for name, count in counts.items() if count >= enough))


def spread(cells: Sequence[Cell], what: str) -> tuple[float, float, int]:
    """(median, 90th percentile, number) of the absolute errors."""
    errors = [abs(cell.error) for cell in cells if cell.what == what]
    return float(np.median(errors)), float(np.quantile(errors, 0.9)), len(errors)


def table(cells: Iterable[Cell]) -> list[str]:
    lines = [
        "| table | model | instances | TP | in | concurrency | figure | measured | predicted | error |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        row = cell.case[0]
        unit = "tokens/s" if cell.what == "throughput" else "p90 ms/token"
        lines.append(
            f"| {row.table} | {row.model} | {row.instance_count} {row.instance_type} | {row.tp_degree} "
            f"| {row.input_tokens} | {row.concurrency} | {unit} | {cell.measured:,.4g} | {cell.predicted:,.4g} "
            f"| {cell.error:+.0%} |"
        )
    return [*lines, ""]
