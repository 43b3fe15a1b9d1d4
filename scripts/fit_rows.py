"""Published rows that vLLM's and SGLang's servers are fitted to: 2026's, and the prompts of TensorRT-LLM's tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import fit_tables
from accuracy_2026 import rows_of_2026
from accuracy_cells import rows_of

from loadproof.capacity import PlannedDeployment
from loadproof.capacity.rows import row_deployment
from loadproof.capacity.servers import GENERATION
from loadproof.simulation.rows import INTERVAL

TENSORRT = "TensorRT"
# TensorRT-LLM's (prompt, answer) tokens that are mostly prompts. All requests are queued at once, 1,500 and more; it
# runs as many as memory holds, up to 2,048 (its docs/source/performance/perf-overview.md, v1.0).
_MOSTLY_PROMPTS = {(2048, 128), (5000, 500)}
_QUEUED, _MOST_SEQUENCES = 1_500, 2_048


@dataclass(frozen=True, slots=True)
class Row:
    """One row of 2026 with its deployment and its lengths in whole tokens."""

    given: dict[str, str]
    deployment: PlannedDeployment
    input_tokens: int
    output_tokens: int


SPLITS: dict[str, Callable[[Row], str]] = {
    "model": lambda row: row.given["model"],
    "accelerator": lambda row: row.deployment.accelerator.name,
    "generation": lambda row: GENERATION[row.deployment.accelerator.name],
    "degree": lambda row: row.given["tp_degree"],
    "prompt length": lambda row: "short" if row.input_tokens <= 2048 else "long",
    "server": lambda row: row.given["server"].split()[0],
}


def read(published: Path, recent: Path) -> list[Row]:
    """The rows of 2026, and TensorRT-LLM's prompts among the published ones."""
    return [*rows_from(rows_of_2026(recent)), *prompts_of_tensorrt(published)]


def rows_from(given_rows: Iterable[dict[str, str]]) -> list[Row]:
    """Rows as `loadproof predict` reads them, with their measured figures."""
    rows = []
    for given in given_rows:
        prompt, answer = (round(float(given[name])) for name in ("input_tokens", "output_tokens"))
        rows.append(Row(given, row_deployment(given, prompt + answer), prompt, answer))
    return rows


def prompts_of_tensorrt(path: Path) -> Iterator[Row]:
    """TensorRT-LLM's rows of mostly prompts, on the machines that they name: weights and KV caches are in 8 bits."""
    for given in rows_of(path, TENSORRT):
        lengths = int(given["input_tokens"]), int(given["output_tokens"])
        if lengths not in _MOSTLY_PROMPTS:
            continue
        machine = "ml.p5.48xlarge" if given["instance_type"].startswith("H100") else "ml.p5e.48xlarge"
        row = {**given, "instance_type": machine, "concurrency": str(_QUEUED), INTERVAL: ""}
        deployment = row_deployment(row, sum(lengths))
        limits = replace(deployment.limits, max_sequences=_MOST_SEQUENCES)
        yield Row(row, replace(deployment, kv_bytes_per_value=1.0, limits=limits), *lengths)


def is_tensorrt(row: Row) -> bool:
    """A witness of prompts alone."""
    return row.given["server"].startswith(TENSORRT)


def of_2026(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not is_tensorrt(row)]


def loads_of(rows: Sequence[Row]) -> list[fit_tables.Load]:
    return [fit_tables.Load(row.deployment, row.input_tokens) for row in rows]
