"""What a calibration did, for people and for programs: error at each level before and after, outliers, parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from loadproof.capacity.calibration import Fit, LevelFit
from loadproof.capacity.observations import FIGURES, FigureName
from loadproof.pages.wording import counted
from loadproof.profiles.schema import Calibration

_HEADINGS: dict[FigureName, str] = {
    "output_tokens_per_s": "tokens/s",
    "ttft_ms": "TTFT ms",
    "tpot_ms": "TPOT ms",
    "e2e_ms": "E2E ms",
    "e2e_p90_ms": "E2E p90 ms",
}
_UNITS = {"gb_per_s": "GB/s", "tflops": "TFLOP/s", "us": "µs", "efficiency": "of the datasheet's", "ms": "ms"}


def render(found: Fit, document: Calibration, left_out: Sequence[str], output: Path) -> Iterator[RenderableType]:
    """The parts in reading order; `left_out` says which levels were not fitted to, and why."""
    server = f"{document.server.family} {document.server.version}".strip()
    where = f"{found.hardware} in place of {document.accelerator}" if found.hardware else document.accelerator
    levels, files = counted(document.levels, "level"), counted(len(document.sources), "file")
    yield escape(f"{server} on {where}: {levels} in {files}")
    yield ""
    yield _levels_table(found)
    yield ""
    yield _parameters_table(found)
    yield (
        f"Priors     {'read off the lowest level' if found.hardware else 'the shipped rows'}; to be a factor e off one "
        f"costs as much as {document.prior_weight:.1%} on one figure"
    )
    if document.simulated:
        yield "Simulated  some levels are a local cloud's twin's: grade and bands of a plan stay as they were"
    yield from (escape(f"Left out   {reason}") for reason in left_out)
    for level in found.levels:
        for name in level.outliers:
            yield escape(
                f"Outlier    {level.observation.label}: {_HEADINGS[name]} is off by {_error(level, name):+.0%}"
            )
    basis = "levels left out in turn" if found.left_out else "too few levels to leave one out"
    if not found.hardware:
        basis += ", and the doubt they leave"
    yield (
        f"Band       throughput and latency within a factor of {1 + document.band:.2f}, TTFT within "
        f"{1 + document.ttft_band:.2f} ({basis})"
    )
    yield escape(f"Written    {output}")


def as_json(found: Fit, document: Calibration, left_out: Sequence[str]) -> str:
    """The calibration with each level's figures, measured, before and after."""
    levels = [
        {
            "label": level.observation.label,
            "concurrency": level.observation.concurrency,
            "input_tokens": level.observation.input_tokens,
            "output_tokens": level.observation.output_tokens,
            "measured": asdict(level.observation.measured),
            "predicted_before": asdict(level.before),
            "predicted_after": asdict(level.after),
            "outliers": list(level.outliers),
        }
        for level in found.levels
    ]
    whole: dict[str, object] = {
        "schema_version": 1,
        "calibration": document.model_dump(mode="json"),
        "levels": levels,
        "left_out": list(left_out),
    }
    return json.dumps(whole, indent=2, allow_nan=False)


def _levels_table(found: Fit) -> Table:
    table = Table(title="Measured, and the planner's error before and after", title_justify="left", show_edge=False)
    table.add_column("in\nflight", justify="right")
    table.add_column("tokens\nin / out", justify="right")
    shown = [name for name in FIGURES if any(_measured(level, name) is not None for level in found.levels)]
    for name in shown:
        table.add_column(_HEADINGS[name].replace(" ", "\n"), justify="right")
        table.add_column("before\nafter", justify="right")
    for level in found.levels:
        cell = level.observation
        figures: list[str] = []
        for name in shown:
            measured = _measured(level, name)
            before, after = (_share(measured, getattr(side, name)) for side in (level.before, level.after))
            mark = " outlier" if name in level.outliers else ""
            figures += ["–" if measured is None else f"{measured:,.1f}", f"{before}\n{after}{mark}"]
        table.add_row(str(cell.concurrency), f"{cell.input_tokens} / {cell.output_tokens}", *figures)
    return table


def _parameters_table(found: Fit) -> Table:
    table = Table(show_edge=False)
    for name in ("parameter", "prior", "fitted", "unit"):
        table.add_column(name, justify="right" if name in ("prior", "fitted") else "left")
    for name, value in found.parameters.items():
        unit = next(unit for ending, unit in _UNITS.items() if f"_{ending}" in name)
        table.add_row(name, f"{found.priors[name]:.4g}", f"{value:.4g}", unit)
    return table


def _measured(level: LevelFit, name: FigureName) -> float | None:
    value: float | None = getattr(level.observation.measured, name)
    return value


def _error(level: LevelFit, name: FigureName) -> float:
    measured, after = _measured(level, name), getattr(level.after, name)
    return after / measured - 1 if measured and after else 0.0


def _share(measured: float | None, predicted: float | None) -> str:
    if measured is None:
        return "–"
    return "none" if predicted is None else f"{predicted / measured - 1:+.1%}"
