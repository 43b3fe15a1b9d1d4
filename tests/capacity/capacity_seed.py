"""The founding posts' TGI tables as (row, deployment) pairs: a fixture with its source in each row."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from loadproof import catalog
from loadproof.capacity import PlannedDeployment, deployment_from_container

TABLE = Path(__file__).parent / "seed_benchmarks.csv"

# What JumpStart's images of January 2024 ran with: TGI 1.1, 4,096 tokens a request, 4,096 prompt tokens a step.
VARIABLES = {
    "MAX_INPUT_TOKENS": "4095",
    "MAX_TOTAL_TOKENS": "4096",
    "MAX_BATCH_PREFILL_TOKENS": "4096",
    "MAX_CONCURRENT_REQUESTS": "512",
    "WAITING_SERVED_RATIO": "1.2",
}


@dataclass(frozen=True, slots=True)
class SeedRow:
    model: str
    instance_type: str
    instance_count: int
    tp_degree: int
    input_tokens: int
    output_tokens: int
    concurrency: int
    throughput_tok_s: float | None
    latency_ms_per_token: float | None
    table: str = ""

    def deployment(self) -> PlannedDeployment:
        by_name = {shape.name: shape for shape in catalog.architectures().values()}
        return deployment_from_container(
            family="tgi",
            version="1.1.0",
            variables=VARIABLES,
            model_id=self.model,
            architecture=by_name[self.model],
            instance_type=self.instance_type,
            accelerators_per_copy=self.tp_degree,
            copies=self.instance_count,
        )


def seed_rows() -> list[SeedRow]:
    """All TGI rows of base models with a concurrency."""
    with TABLE.open(encoding="utf-8", newline="") as handle:
        return [
            SeedRow(
                table=row["table"],
                model=row["model"],
                instance_type=row["instance_type"],
                instance_count=int(row["instance_count"]),
                tp_degree=int(row["tp_degree"]),
                input_tokens=int(row["input_tokens"]),
                output_tokens=int(row["output_tokens"]),
                concurrency=int(row["concurrency"]),
                throughput_tok_s=float(row["throughput_tok_s"]) if row["throughput_tok_s"] else None,
                latency_ms_per_token=float(row["latency_ms_per_token"]) if row["latency_ms_per_token"] else None,
            )
            for row in csv.DictReader(handle)
            if row["server"] == "TGI" and row["concurrency"] and not row["model"].endswith(("Chat", "Instruct"))
        ]
