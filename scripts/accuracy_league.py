"""The same published cells through Loadproof and through NVIDIA aiconfigurator: errors, coverage and CPU seconds.

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install aiconfigurator==0.12.0 aiconfigurator-core==0.12.0
    .venv/bin/python scripts/accuracy_league.py ROWS.csv --published PUBLISHED.csv --peer /tmp/peer/bin/python

Keeps its table in docs/accuracy.json, from which scripts/accuracy.py writes docs/accuracy.md. ROWS.csv are the rows
of 2026 that `scripts/accuracy_2026.py` reads, PUBLISHED.csv those that the vLLM row is fitted on besides.
"""

from __future__ import annotations

import json
import subprocess
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import accuracy
import accuracy_published
import fit_rows
import fit_servers
import numpy as np
from accuracy_2026 import Cell, cells_of, rows_of_2026

from loadproof.capacity.rows import model_shape
from loadproof.catalog import instances
from loadproof.simulation.rows import INTERVAL

SYSTEMS = {"H100": "h100_sxm", "H200": "h200_sxm", "A100-40": "a100_sxm", "A100-80": "a100_sxm", "L40S": "l40s"}
PEER = Path(__file__).with_name("league_peer.py")
MS_A_TOKEN, TTFT = "latency_ms_per_token", "ttft_ms"
Row = dict[str, str]


def asked(row: Row) -> dict[str, object]:
    """What the peer is told of a row."""
    shape = model_shape(row["model"])
    return {
        "model": shape.hf_id,
        "system": SYSTEMS[instances()[row["instance_type"]].accelerator],
        "backend": row["server"].split()[0].casefold(),
        "input_tokens": round(float(row["input_tokens"])),
        "output_tokens": round(float(row["output_tokens"])),
        "concurrency": int(row["concurrency"]),
        "degree": int(row["tp_degree"]),
        "mixture": bool(shape.experts),
    }


def peers(rows: Sequence[Row], python: Path) -> tuple[list[Cell], dict[str, int], float]:
    """(its cells, rows without an estimate by reason, CPU seconds)."""
    command = [str(python), str(PEER)]
    done = subprocess.run(
        command, input=json.dumps([asked(row) for row in rows]), capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout)
    cells: list[Cell] = []
    reasons: dict[str, int] = {}
    for row, answer in zip(rows, said["answers"], strict=True):
        if isinstance(answer, str):
            reasons[answer] = reasons.get(answer, 0) + 1
            continue
        # Of a server that sends several tokens at once, TTFT is the time to the last of the first ones.
        answers, at_once = float(row["output_tokens"]), int(row[INTERVAL] or 1)
        chunk_ms = answer[1] + (at_once - 1) * (answer[0] * answers - answer[1]) / (answers - 1)
        for what, column, predicted in (("latency", MS_A_TOKEN, answer[0]), ("TTFT", TTFT, chunk_ms)):
            cells.append(Cell(row, what, predicted / float(row[column]) - 1, inside=False))
    return cells, reasons, said["cpu_s"]


def section(path: Path, published: Path, python: Path) -> list[str]:
    """The section that docs/accuracy.md begins with."""
    rows = [row for row in rows_of_2026(path) if row[MS_A_TOKEN] and row[TTFT]]
    theirs, reasons, their_cpu_s = peers(rows, python)
    before_s = time.process_time()
    ours = [cell for cell in cells_of(path)[0] if cell.what != "throughput"]
    our_cpu_s = time.process_time() - before_s
    recent = fit_rows.read(published, path)
    unseen = fit_servers.held_out(accuracy_published.read(published)[0], recent, ("model", "generation"))
    out = {f"Loadproof, {split}": cells for split, cells in unseen}
    shared = {_key(cell.row) for cell in theirs}
    contenders = {"aiconfigurator 0.12.0": theirs, "Loadproof": ours, **out}
    return [
        "## Beside another planner",
        "",
        f"The {len(rows)} loops of 2026 with a latency and a TTFT"
        " ([below](#vllm-and-sglang-on-a100-h100-and-h200-published-2025-12-to-2026-01)), through NVIDIA's"
        " aiconfigurator, which reads a database of measured kernels and was not"
        " fitted to these rows, and through Loadproof: as shipped, fitted to them among others, and fitted without the"
        " model or the generation in question, which is the fair line. SGLang sent ten tokens at once: there both"
        " planners' TTFT is the time to ten.",
        "",
        "| planner | latency: median error | p90 | TTFT: median error | p90 | rows | CPU seconds |",
        "|---|---|---|---|---|---|---|",
        *(
            _line(label, [cell for cell in cells if _key(cell.row) in shared], cpu_s)
            for (label, cells), cpu_s in zip(
                contenders.items(), (f"{their_cpu_s:.0f}", f"{our_cpu_s:.1f}", "", ""), strict=True
            )
        ),
        "",
        "By server and model, median error of latency and of TTFT:",
        "",
        f"| rows | {' | '.join(contenders)} |",
        f"|---{'|---' * len(contenders)}|",
        *_by_table(contenders, shared),
        "",
        *(f"- aiconfigurator has no estimate for {count} rows: {reason}" for reason, count in reasons.items()),
        *([""] if reasons else []),
    ]


def _key(row: Row) -> tuple[str, ...]:
    names = ("table", "model", "instance_type", "tp_degree", "input_tokens", "output_tokens", "concurrency")
    return tuple(row[name] for name in names)


def _line(label: str, cells: Sequence[Cell], cpu_s: str) -> str:
    figures = [_errors(cells, what) for what in ("latency", "TTFT")]
    columns = [f"{np.median(one):.1%} | {np.quantile(one, 0.9):.1%}" for one in figures]
    return f"| {label} | {' | '.join(columns)} | {len(figures[0])} | {cpu_s or '–'} |"


def _by_table(contenders: dict[str, Sequence[Cell]], shared: set[tuple[str, ...]]) -> list[str]:
    lines = []
    first = next(iter(contenders.values()))
    for group in sorted({(cell.row["server"], cell.row["model"], cell.row["instance_type"]) for cell in first}):
        columns = []
        for cells in contenders.values():
            here = [
                cell
                for cell in cells
                if (cell.row["server"], cell.row["model"], cell.row["instance_type"]) == group
                and _key(cell.row) in shared
            ]
            latency, ttft = (_errors(here, what) for what in ("latency", "TTFT"))
            columns.append(f"{np.median(latency):.1%}, {np.median(ttft):.1%}" if here else "–")
        lines.append(f"| {', '.join(group)} | {' | '.join(columns)} |")
    return lines


def _errors(cells: Sequence[Cell], what: str) -> list[float]:
    return [abs(cell.error) for cell in cells if cell.what == what]


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--published", type=Path, required=True)
    parser.add_argument("--peer", type=Path, required=True, help="a Python with aiconfigurator")
    given = parser.parse_args()
    stored = json.loads(accuracy.STORED.read_text(encoding="utf-8"))
    stored["league"] = section(given.rows, given.published, given.peer)
    accuracy.write(stored)
    print("\n".join(stored["league"]))


if __name__ == "__main__":
    main()
