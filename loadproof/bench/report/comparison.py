"""Two or more runs on one page: their curves over each other, their figures side by side, and what may explain them.

Reads summary.json of each run, so that imported results and runs without their requests can be shown too. Runs are told
apart by mark and dash as well as by colour. A run of the twin is labelled *predicted* wherever its name stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from loadproof.bench.compare.regression import Comparison
from loadproof.bench.document import Level, Summary, read_summary
from loadproof.bench.measure.histogram import Histogram
from loadproof.bench.measure.scaling import Deployed
from loadproof.bench.plan import model_of, read_plan
from loadproof.bench.report import charts, wording
from loadproof.bench.report.choice import Candidate, brief_of_runs
from loadproof.bench.report.page import POLICY, environment, histogram_of_row, sourced, style
from loadproof.errors import InputError
from loadproof.pages.brief import brief_in_html
from loadproof.pages.figures import Figure, FigurePoint, Series, draw, figure_of, levels_ticks, swatch, tip_of
from loadproof.pages.looks import RUNS, Look

MOST_RUNS = 12
_ALWAYS_DIFFERENT = ("run", "created (UTC)")


@dataclass(frozen=True, slots=True)
class Shown:
    """One run on the page: the name it goes by, its summary, its look, and which model it was, where that is known."""

    name: str
    summary: Summary
    look: Look
    model: str | None

    @property
    def candidate(self) -> Candidate:
        return Candidate(self.name, self.summary, self.model)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure at one load: (value, its ratio to the first run's) for each run; None where it has none."""

    title: str
    unit: str
    cells: tuple[tuple[float | None, float | None], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """All figures at one load, in words. `valid`: of each run, whether what it measured there counts."""

    load: str
    valid: tuple[bool, ...]
    rows: tuple[Row, ...]


_FIGURES: tuple[tuple[str, str, Callable[[Level], float | None]], ...] = (
    ("TTFT p50", "ms", lambda level: level.ttft_ms.p50),
    ("TTFT p95", "ms", lambda level: level.ttft_ms.p95),
    ("TTFT p99", "ms", lambda level: level.ttft_ms.p99),
    ("TPOT p50", "ms", lambda level: level.tpot_ms.p50),
    ("TPOT p95", "ms", lambda level: level.tpot_ms.p95),
    ("ITL p99", "ms", lambda level: level.itl_ms.p99),
    ("E2E p95", "ms", lambda level: level.e2e_ms.p95),
    ("Output", "tokens/s", lambda level: level.output_tokens_per_s),
    ("Requests", "1/s", lambda level: level.requests_per_s),
    ("Goodput", "1/s", lambda level: level.goodput_per_s),
    ("Cost", "USD/M output tokens", lambda level: level.cost_per_million_output_tokens_usd),
)


def read_runs(folders: Sequence[Path], labels: Sequence[str] = ()) -> list[Shown]:
    """Raises InputError for fewer than two runs, labels that do not fit them, and folders without a summary."""
    if not 2 <= len(folders) <= MOST_RUNS:
        raise InputError(f"give 2 to {MOST_RUNS} runs to compare, found {len(folders)}")
    if labels and len(labels) != len(folders):
        raise InputError(f"--label: {len(labels)} for {len(folders)} runs; give one for each, in their order")
    summaries = [read_summary(folder).by_concurrency() for folder in folders]
    names = list(labels) or [summary.name for summary in summaries]
    if len(set(names)) < len(names):
        names = [
            summary.run_id if names.count(name) > 1 else name for name, summary in zip(names, summaries, strict=True)
        ]
    return [
        Shown(
            wording.visible(name, 60) + (", predicted" if summary.on_twin else ""),
            summary,
            RUNS[index % len(RUNS)],
            _model_in(folder, summary),
        )
        for index, (folder, name, summary) in enumerate(zip(folders, names, summaries, strict=True))
    ]


def _model_in(folder: Path, summary: Summary) -> str | None:
    """An imported run has no plan."""
    if summary.conditions.model:
        return wording.visible(summary.conditions.model, 120)
    with suppress(InputError):
        return wording.visible(model, 120) if (model := model_of(read_plan(folder))) else None
    return None


def comparison_page(runs: Sequence[Shown], comparisons: Sequence[Comparison | None] = ()) -> str:
    """The page's text. `comparisons`: of each run but the first with the first, where both have their requests."""
    changes = [one for one in comparisons if one is not None]
    return (
        environment()
        .get_template("comparison.html.j2")
        .render(
            runs=runs,
            swatch=swatch,
            figures={place: draw(figure) for place, figure in _figures(runs).items()},
            tables=tables(runs),
            facts=facts(runs),
            sourced=sourced,
            comparisons=changes,
            brief=brief_in_html(brief_of_runs([run.candidate for run in runs], changes)),
            wording=wording,
            any_twin=any(run.summary.on_twin for run in runs),
            any_invalid=any(not level.valid for run in runs for level in run.summary.levels),
            style=Markup(style()),
            policy=POLICY,
        )
    )


def tables(runs: Sequence[Shown]) -> list[Table]:
    """Of every load that two runs or more have, lightest first."""
    return [_table(load, [_level_at(run.summary, load) for run in runs]) for load in _common_loads(runs)]


def _table(load: str, levels: Sequence[Level | None]) -> Table:
    rows = []
    for title, unit, figure in _FIGURES:
        values = [None if level is None else figure(level) for level in levels]
        first = values[0]
        cells = tuple((value, value / first if value is not None and first else None) for value in values)
        if any(value is not None for value in values):
            rows.append(Row(title, unit, cells))
    return Table(load, tuple(level is None or level.valid for level in levels), tuple(rows))


def facts(runs: Sequence[Shown]) -> list[tuple[str, tuple[str, ...], bool]]:
    """(name, its value in each run, whether they differ): what ran where, and under what conditions."""
    rows: dict[str, list[str]] = {}
    for run in runs:
        for name, value in _facts(run).items():
            rows.setdefault(name, []).append(_fact(value))
    return [
        (name, tuple(values), len(set(values)) > 1 and name not in _ALWAYS_DIFFERENT) for name, values in rows.items()
    ]


def _facts(run: Shown) -> dict[str, object]:
    summary = run.summary
    target, deployed, conditions = summary.target, summary.deployed or Deployed(), summary.conditions
    return {
        "run": summary.run_id,
        "created (UTC)": summary.created_utc,
        "endpoint": target.endpoint,
        "component": target.component,
        "model": run.model,
        "image": deployed.image,
        "instance type": deployed.instance_type,
        "region": target.region,
        "protocol": target.protocol,
        "input tokens": summary.workload.input_tokens,
        "output tokens": summary.workload.output_tokens,
        "USD per hour": conditions.usd_per_hour,
        "price": conditions.price,
        "knee": f"{summary.knee_concurrency} in flight" if summary.knee_concurrency else None,
        "loadproof": summary.loadproof_version,
        "client": conditions.platform,
    }


def _fact(value: object) -> str:
    return wording.NO_DATA if value in (None, "") else wording.visible(value, 400)


def _figures(runs: Sequence[Shown]) -> dict[str, Figure]:
    drawn = {f"curve-{latency}": _curve(runs, latency) for latency in ("ttft", "tpot")}
    drawn["e2e"] = _by_load(runs, lambda level: level.e2e_ms.p95, "E2E p95 (ms)", "ms")
    drawn["tokens"] = _by_load(runs, lambda level: level.output_tokens_per_s, "output tokens per second", "/s")
    drawn["goodput"] = _by_load(runs, lambda level: level.goodput_per_s, "goodput (requests per second)", "/s")
    cost = "USD per million output tokens"
    drawn["cost"] = _by_load(runs, lambda level: level.cost_per_million_output_tokens_usd, cost, "USD")
    loads = _common_loads(runs)
    for latency in ("ttft", "itl") if loads else ():
        named = [
            (charts.marked(run.name, level.valid), run.look, counts)
            for run in runs
            if (level := _level_at(run.summary, loads[-1])) and (counts := _histogram(level, latency))
        ]
        drawn[f"distribution-{latency}"] = charts.distribution(named, latency)
    return {place: figure for place, figure in drawn.items() if figure is not None}


def _curve(runs: Sequence[Shown], latency: str) -> Figure | None:
    """p95 over output tokens/s; each mark is a level, named by its requests in flight."""
    series = []
    for run in runs:
        levels = run.summary.levels
        points = [(level.output_tokens_per_s, charts.at(level, latency, "p95"), level.concurrency) for level in levels]
        named = [f"{level.concurrency:,}" for level in levels]
        valid = [level.valid for level in levels]
        series.append(charts.series_of(points, run.name, run.look, named=named, valid=valid))
    return figure_of(Figure(("output tokens per second", f"{wording.SHORT[latency]} p95 (ms)"), tuple(series)))


def _by_load(runs: Sequence[Shown], figure: Callable[[Level], float | None], title: str, unit: str) -> Figure | None:
    def mark(name: str, level: Level) -> FigurePoint:
        tip = tip_of(name, figure(level), unit, charts.marked(_place(level), level.valid))
        return FigurePoint(level.concurrency, figure(level), tip, valid=level.valid)

    ticks = levels_ticks([level.concurrency for run in runs for level in run.summary.levels])
    return figure_of(Figure((charts.IN_FLIGHT, title), _series(runs, mark), x_ticks=ticks))


def _series(runs: Sequence[Shown], mark: Callable[[str, Level], FigurePoint | None]) -> tuple[Series, ...]:
    """A line a run; levels without a mark are left out."""
    marks = ((run, [mark(run.name, level) for level in run.summary.levels]) for run in runs)
    return tuple(Series(run.name, run.look, tuple(one for one in found if one)) for run, found in marks)


def _common_loads(runs: Sequence[Shown]) -> list[str]:
    """Loads, in words, that two runs or more were measured at; by the mean in flight."""
    counts: dict[str, list[int]] = {}
    for run in runs:
        for place, in_flight in {_place(level): level.concurrency for level in run.summary.levels}.items():
            counts.setdefault(place, []).append(in_flight)
    common = {place: found for place, found in counts.items() if len(found) > 1}
    return sorted(common, key=lambda place: (max(common[place]), place))


def _level_at(summary: Summary, load: str) -> Level | None:
    """The last level of that load: of repeats the latest."""
    return next((level for level in reversed(summary.levels) if _place(level) == load), None)


def _place(level: Level) -> str:
    return wording.visible(level.load, 80) if level.load else f"{level.concurrency} in flight"


def _histogram(level: Level, latency: str) -> Histogram | None:
    row = level.histograms.get(f"{latency}_ms")
    counts = histogram_of_row(row) if row else None
    return counts if counts is not None and counts.count else None
