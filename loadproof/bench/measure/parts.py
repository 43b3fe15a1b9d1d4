"""What each objective is held against: all requests of a level, or those of one class of the traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from loadproof.bench.measure.metrics import LevelMetrics, measure_level
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.objectives import Objective
from loadproof.bench.spec import BenchmarkSpec


class Held(NamedTuple):
    """An objective with the requests that it is of, and what they measured. `part`: their class; empty: all."""

    part: str
    objective: Objective
    records: Sequence[RequestRecord]
    level: LevelMetrics


def held_against(spec: BenchmarkSpec, records: Sequence[RequestRecord], level: LevelMetrics) -> Iterator[Held]:
    """The benchmark's objectives over `records`, whose level it is, then those of each class over its own."""
    for objective in spec.objectives:
        yield Held("", objective, records, level)
    for part, objectives in spec.class_objectives.items():
        ours = [record for record in records if record.part == part]
        own = replace(measure_level(level.concurrency, ours), offered=level.offered)
        for objective in objectives:
            yield Held(part, objective, ours, own)
