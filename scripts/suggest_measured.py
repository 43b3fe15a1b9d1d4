"""Two levels of measured servers: does what a calibration on them says hold at the other levels?

    python scripts/suggest_measured.py [--table published_benchmarks_2026.csv]

Without --table the founding tables (TGI, throughput and p90 latency); with it rows as `loadproof predict` reads them,
with `throughput_tok_s`, `latency_ms_per_token` (mean) and `ttft_ms`. Each series of four levels or more is calibrated
on two of its levels and judged at its others: nothing here is simulated.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from fit_step_model import cases_of_tables

from loadproof.capacity import PlannedDeployment, predict_run
from loadproof.capacity.calibration import fit, fit_document
from loadproof.capacity.confidence import Confidence, confidence_of
from loadproof.capacity.deployment import with_calibration
from loadproof.capacity.observations import Figures, Observation, predicted_figures
from loadproof.capacity.rows import row_deployment
from loadproof.errors import InputError
from loadproof.profiles.schema import CalibrationSource

DESIGNS = ("quarter points", "ends", "lowest two", "random two")
SOURCE = [CalibrationSource(file="a table", sha256="0" * 64, levels=2)]
Series = list[Observation]


@dataclass(slots=True)
class Tally:
    """What was inside of the levels left out: (TTFT or not) -> inside; and bands, shipped and own."""

    series: int = 0
    before: dict[bool, list[bool]] = field(default_factory=lambda: {False: [], True: []})
    after: dict[bool, list[bool]] = field(default_factory=lambda: {False: [], True: []})
    bands: list[tuple[float, float, float]] = field(default_factory=list)

    def row(self, design: str) -> str:
        cells = [design, str(self.series), str(len(self.after[False]))]
        cells += [f"{share(self.before[False])} → {share(self.after[False])}"]
        cells += [f"{share(self.before[True])} → {share(self.after[True])}"]
        shipped, own, own_ttft = (median(one[at] for one in self.bands) for at in range(3))
        cells += [f"{shipped:.0%} → {own:.0%}", f"{own_ttft:.0%}"]
        return "| " + " | ".join(cells) + " |"


def share(values: Sequence[bool]) -> str:
    return f"{sum(values) / len(values):.0%}" if values else "–"


def founding_series() -> Iterator[Series]:
    groups: dict[tuple[object, ...], Series] = defaultdict(list)
    for row, deployment in cases_of_tables():
        per_token = row.latency_ms_per_token
        figures = Figures(
            output_tokens_per_s=row.throughput_tok_s or None,
            e2e_p90_ms=per_token * row.output_tokens if per_token else None,
        )
        key = (row.model, row.instance_type, row.instance_count, row.tp_degree, row.input_tokens, row.output_tokens)
        groups[key].append(
            Observation(str(key), deployment, row.input_tokens, row.output_tokens, row.concurrency, figures)
        )
    yield from groups.values()


def table_series(table: Path) -> Iterator[Series]:
    groups: dict[tuple[object, ...], Series] = defaultdict(list)
    with table.open(encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            if not row["concurrency"] or not row["server"].startswith("vLLM"):
                continue
            prompt, answer = round(float(row["input_tokens"])), round(float(row["output_tokens"]))
            counts = {"input_tokens": str(prompt), "output_tokens": str(answer)}
            key = (row["table"], row["model"], row["instance_type"], row["tp_degree"], prompt, answer, row["server"])
            rate, ttft_ms, per_token = (
                float(row[name]) if row[name] else None
                for name in ("throughput_tok_s", "ttft_ms", "latency_ms_per_token")
            )
            figures = Figures(rate, ttft_ms, None, per_token * answer if per_token else None)
            deployment = row_deployment({**row, **counts}, prompt + answer)
            cell = Observation(str(key), deployment, prompt, answer, int(row["concurrency"]), figures)
            if predicted_figures(cell) != Figures():
                groups[key].append(cell)
    yield from groups.values()


def chosen(design: str, cells: Series) -> Series:
    if design == "ends":
        return [cells[0], cells[-1]]
    if design == "lowest two":
        return cells[:2]
    if design == "quarter points":
        return [cells[len(cells) // 4], cells[3 * len(cells) // 4]]
    return Random(cells[0].label).sample(cells, 2)


def inside(cells: Series, deployment: PlannedDeployment, confidence: Confidence) -> Iterator[tuple[bool, bool]]:
    """(is it a TTFT, is it inside) of each measured figure."""
    for cell in cells:
        load = predict_run(deployment, cell.input_tokens, cell.output_tokens, cell.concurrency)
        for name, measured, predicted in cell.measured.pairs(predicted_figures(cell, deployment)):
            figure = "e2e_p90_ms" if name == "e2e_p90_ms" else name.replace("e2e_ms", "latency")
            low, high = confidence.range_of(figure, predicted, load)
            yield name == "ttft_ms", low <= measured <= high


def tally(design: str, every: Sequence[Series]) -> Tally:
    found = Tally()
    for series in every:
        cells = sorted(series, key=lambda cell: cell.concurrency)
        if len(cells) < 4:
            continue
        picked = chosen(design, cells)
        try:
            document = fit_document(fit(picked, loads=[cell.concurrency for cell in cells]), SOURCE, None)
        except InputError as error:
            print(f"{design}: {error}")
            continue
        shipped = cells[0].deployment
        own = with_calibration(shipped, document)
        rest = [cell for cell in cells if cell not in picked]
        for sides, deployment in ((found.before, shipped), (found.after, own)):
            for ttft, held in inside(rest, deployment, confidence_of(deployment)):
                sides[ttft].append(held)
        found.series += 1
        found.bands.append((confidence_of(shipped).band, document.band, document.ttft_band))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path)
    table = parser.parse_args().table
    every = list(founding_series() if table is None else table_series(table))
    print(
        "| two levels | series | figures left out | inside, before → after | TTFT inside | band | TTFT's band after |"
    )
    print("|" + "---|" * 7)
    for design in DESIGNS:
        print(tally(design, every).row(design))


if __name__ == "__main__":
    main()
