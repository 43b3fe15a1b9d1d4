"""LMI's dynamic against its continuous batching: the table of 2023-10-11 beside the twin's prediction.

.venv/bin/python scripts/accuracy_batching.py      prints the section that docs/accuracy.md includes; a second or two
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from loadproof.capacity import PlannedDeployment, deployment_from_container  # noqa: E402
from loadproof.simulation import ClosedLoop, SimulationSummary, fresh_copies, simulate_fleet, summarise  # noqa: E402

ROWS = REPOSITORY / "tests" / "capacity" / "seed_benchmarks.csv"
LIMIT_MS = 60_000.0  # SageMaker's, on an invocation that is not streamed
ROUNDS = 3  # requests a client sends
CONTINUOUS_CLIENTS = 2
BATCH_SIZE = 4

Shape = tuple[int, int]  # (input tokens, output tokens)
SHAPES: tuple[Shape, ...] = ((32, 128), (256, 32))

_INTRODUCTION = """\
## Dynamic against continuous batching (LMI, Falcon 40B on ml.g5.48xlarge)

The table of the AWS post of 2023-10-11 does not say how many clients it was measured with, so they are read from its
own figures. Dynamic: its long-prompt row has a p90 just below SageMaker's limit of 60 s, so its load is the most whole
batches of which the last is still answered in time ({dynamic} clients, as predicted). Continuous: by Little's law the
short-prompt row had at most 56.04 · 4.74 s / 128 = 2.1 in flight ({continuous} clients). The other row of each engine
is then predicted at the same load. Every client sends {rounds} requests, as in the founding tables, and gives up after
60 s; LMI goes on working for it. The engines: LMI's continuous one of that year came from TGI, whose row it gets;
the dynamic one is taken for Hugging Face Accelerate, which lays whole layers on one GPU after the other, so that one
works at a time. Its row of `servers.csv` was set by orders of magnitude, with these figures in view, and is not fitted.
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of the table and its prediction."""

    engine: str  # "dynamic" or "continuous"
    shape: Shape
    measured_tokens_per_s: float
    measured_p90_s: float
    predicted: SimulationSummary

    @property
    def predicted_tokens_per_s(self) -> float:
        return self.predicted.output_tokens_per_s or 0.0

    @property
    def predicted_p90_s(self) -> float:
        return (self.predicted.e2e.percentile_ms(90) or 0.0) / 1000


def falcon(engine: str) -> PlannedDeployment:
    """Falcon 40B over the eight A10G, batched by one engine or the other."""
    dynamic = engine == "dynamic"
    return deployment_from_container(
        family="lmi" if dynamic else "tgi",
        version="" if dynamic else "1.1",
        variables={
            "OPTION_ROLLING_BATCH": "disable",
            "SERVING_BATCH_SIZE": str(BATCH_SIZE),
            "SERVING_MAX_BATCH_DELAY": "100",
            "MAX_TOTAL_TOKENS": "2048",
            "MAX_BATCH_PREFILL_TOKENS": "4096",
        },
        model_id="tiiuae/falcon-40b",
        architecture=None,
        instance_type="ml.g5.48xlarge",
        accelerators_per_copy=8,
        copies=1,
    )


@cache
def predicted(engine: str, shape: Shape, clients: int, rounds: int = ROUNDS) -> SimulationSummary:
    """What that many clients see, each sending `rounds` requests."""
    sizes = [shape] * (rounds * clients)
    results = simulate_fleet(fresh_copies(falcon(engine)), ClosedLoop(clients), sizes, give_up_after_ms=LIMIT_MS)
    return summarise(results)


@cache
def dynamic_clients() -> int:
    """The most clients, in whole batches, none of whose long-prompt requests times out."""
    clients = BATCH_SIZE
    while not predicted("dynamic", SHAPES[1], clients + BATCH_SIZE).timed_out:
        clients += BATCH_SIZE
    return clients


@cache
def cells() -> tuple[Cell, ...]:
    """The four rows of dynamic and continuous batching (the one with PagedAttention is left out: no such switch)."""
    clients = {"dynamic": dynamic_clients(), "continuous": CONTINUOUS_CLIENTS}
    found = []
    with ROWS.open(encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            if not row["table"].startswith("T7_lmi") or "Paged" in row["server"]:
                continue
            engine = "dynamic" if "dynamic" in row["server"] else "continuous"
            shape = (int(row["input_tokens"]), int(row["output_tokens"]))
            p90_s = float(row["latency_ms_per_token"]) * shape[1] / 1000
            summary = predicted(engine, shape, clients[engine])
            found.append(Cell(engine, shape, float(row["throughput_tok_s"]), p90_s, summary))
    return tuple(found)


def ratios() -> dict[Shape, tuple[float, float]]:
    """(measured, predicted) throughput of continuous over dynamic batching, by shape."""
    by_key = {(cell.engine, cell.shape): cell for cell in cells()}
    found = {}
    for shape in SHAPES:
        ahead, behind = by_key["continuous", shape], by_key["dynamic", shape]
        found[shape] = (
            ahead.measured_tokens_per_s / behind.measured_tokens_per_s,
            ahead.predicted_tokens_per_s / behind.predicted_tokens_per_s,
        )
    return found


def section() -> str:
    """The part of docs/accuracy.md, as markdown."""
    lines = [
        _INTRODUCTION.format(dynamic=dynamic_clients(), continuous=CONTINUOUS_CLIENTS, rounds=ROUNDS),
        "| batching | tokens in → out | tokens/s | predicted | error | p90 latency, s | predicted | error |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for cell in cells():
        tokens = _beside(cell.measured_tokens_per_s, cell.predicted_tokens_per_s)
        latency = _beside(cell.measured_p90_s, cell.predicted_p90_s)
        lines.append(f"| {cell.engine} | {cell.shape[0]} → {cell.shape[1]} | {tokens} | {latency} |")
    lines += ["", "| continuous over dynamic | measured | predicted | error |", "|---|---:|---:|---:|"]
    for shape, (measured, found) in ratios().items():
        lines.append(f"| {shape[0]} → {shape[1]} tokens | {_beside(measured, found)} |")
    lines += ["", _sensitivity(), ""]
    return "\n".join(lines)


def _sensitivity() -> str:
    """How much of the ratios is the load: said in figures, since it is not known."""
    spread = []
    for shape in SHAPES:
        behind = predicted("dynamic", shape, dynamic_clients()).output_tokens_per_s or 0.0
        one, four = (
            (predicted("continuous", shape, clients).output_tokens_per_s or 0.0) / behind for clients in (1, 4)
        )
        spread.append(f"{one:.1f} to {four:.1f} ({shape[0]} → {shape[1]})")
    more = dynamic_clients() + 2 * BATCH_SIZE
    beyond = predicted("dynamic", SHAPES[1], more)
    longer = predicted("dynamic", SHAPES[0], dynamic_clients(), 2 * ROUNDS)
    return (
        "The ratios are as good as the loads that were read: with 1 to 4 clients of the continuous engine they are "
        f"{' and '.join(spread)}; with {more} clients of the dynamic one, {beyond.timed_out} of {ROUNDS * more} "
        f"long-prompt requests time out and it is left with {beyond.output_tokens_per_s or 0.0:.1f} tokens/s; "
        f"with {2 * ROUNDS} requests a client its short-prompt row is {longer.output_tokens_per_s or 0.0:.1f}, "
        "for after the first minute no answer of it comes in time. "
        "At the same load the continuous engine is ahead by far more. The measured p90 of continuous batching with "
        "long prompts, 3.9 s, is not explained."
    )


def _beside(measured: float, found: float) -> str:
    return f"{measured:.2f} | {found:.2f} | {found / measured - 1:+.0%}"


if __name__ == "__main__":
    print(section())
