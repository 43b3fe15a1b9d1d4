"""The page's line charts, out of a summary. `noun` says what the solid series are: "measured", or "on the twin".

A series without data is left out and a figure without series is None. No foreign text goes in here: every label is made
of our own words and numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loadproof.bench.document import Level, Summary
from loadproof.bench.judge.judgement import Judgement
from loadproof.bench.measure.histogram import Histogram
from loadproof.bench.measure.statistics import Spread
from loadproof.bench.spec import PredictedPoint
from loadproof.pages.figures import Figure, FigurePoint, Series, figure_of, levels_ticks, tip_of
from loadproof.pages.looks import FAR_TAIL, MIDDLE, PREDICTED, TAIL, Look
from loadproof.pages.wording import SHORT, latency_of, number, on_a_bar

IN_FLIGHT = "requests in flight"
_RANKS = ((50.0, "50"), (75.0, "75"), (90.0, "90"), (95.0, "95"), (99.0, "99"), (99.9, "99.9"))


def curve(summary: Summary, latency: str, noun: str) -> Figure | None:
    """Latency over output tokens/s, a mark a level: the judged tail, p50, predicted with its range, knee, bounds."""
    bounds, levels = _bounds(summary, latency), _one_a_load(summary)
    tail = max((statistic for statistic, _ in bounds if statistic != "p50"), default="p95")
    series = []
    for statistic, look in ((tail, TAIL), ("p50", MIDDLE)):
        points = [(level.output_tokens_per_s, at(level, latency, statistic), level.concurrency) for level in levels]
        named = [_mark_name(level, summary) if statistic == tail else "" for level in levels]
        series.append(series_of(points, f"{statistic} {noun}", look, named=named, valid=_valid(levels)))
    expected = _predicted_levels(summary)
    points = [(level.output_tokens_per_s, predicted_at(level, latency), level.concurrency) for level in expected]
    series.append(series_of(points, "predicted mean", PREDICTED))
    titles = "output tokens per second", f"{SHORT[latency]} (ms)"
    rings = [
        (f"knee: {level.concurrency} in flight", x, y)
        for level in levels
        if level.concurrency == summary.knee_concurrency
        and (x := level.output_tokens_per_s) is not None
        and (y := at(level, latency, tail)) is not None
    ]
    return figure_of(
        Figure(titles, tuple(series), _named(bounds), rings=tuple(rings[-1:]), band=_band(summary, latency))
    )


def percentiles(summary: Summary, latency: str, noun: str) -> Figure | None:
    """One latency over concurrency: p50, p95, p99 measured, the predicted one, and the objectives on it."""
    series = []
    levels = _one_a_load(summary)
    for statistic, look in (("p99", FAR_TAIL), ("p95", TAIL), ("p50", MIDDLE)):
        figures = [(level.concurrency, at(level, latency, statistic)) for level in levels]
        series.append(_by_concurrency(figures, f"{statistic} {noun}", look, valid=_valid(levels)))
    expected = [(level.concurrency, predicted_at(level, latency)) for level in _predicted_levels(summary)]
    series.append(_by_concurrency(expected, "predicted mean", PREDICTED))
    bounds = _named(_bounds(summary, latency))
    titles = IN_FLIGHT, f"{SHORT[latency]} (ms)"
    return figure_of(Figure(titles, tuple(series), bounds, x_ticks=_level_ticks(series)))


def throughput(summary: Summary, rates: Sequence[tuple[str, str, Look]], y_title: str) -> Figure | None:
    """Rates over concurrency. `rates`: (field of Level, label, look); the first also has its prediction."""
    series = []
    levels = _one_a_load(summary)
    for field, label, look in rates:
        figures = [(level.concurrency, getattr(level, field)) for level in levels]
        series.append(_by_concurrency(figures, label, look, unit="/s", valid=_valid(levels)))
    first = rates[0][0]
    expected = [(level.concurrency, getattr(level, first, None)) for level in _predicted_levels(summary)]
    series.append(_by_concurrency(expected, "predicted", PREDICTED, unit="/s"))
    fields = {f"{field}_min" for field, *_ in rates}
    bounds = [(f"≥ {number(one.bound)}", one.bound) for one in summary.objectives if one.name in fields]
    return figure_of(Figure((IN_FLIGHT, y_title), tuple(series), tuple(bounds), x_ticks=_level_ticks(series)))


def distribution(named: Sequence[tuple[str, Look, Histogram]], latency: str) -> Figure | None:
    """A latency's percentiles from the median to the far tail; each nine is as wide as the last.

    A percentile is drawn only where at least one value lies beyond it: there is no p99.9 of a hundred requests.
    """
    series = tuple(
        Series(
            name,
            look,
            tuple(
                FigurePoint(
                    100 / (100 - rank), value, tip_of(f"p{words} {name}", value, "ms", f"{counts.count:,} samples")
                )
                for rank, words in _RANKS
                if counts.count * (100 - rank) >= 100 and (value := counts.percentile(rank)) is not None
            ),
        )
        for name, look, counts in named
    )
    highest = max((mark.x for one in series for mark in one.marks), default=0.0)
    ticks = tuple((100 / (100 - rank), words) for rank, words in _RANKS if 100 / (100 - rank) <= highest + 1e-9)
    return figure_of(Figure(("percentile", f"{SHORT[latency]} (ms)"), series, x_ticks=ticks))


def at(level: Level, latency: str, statistic: str) -> float | None:
    """One latency's statistic of a measured level, in milliseconds."""
    values: Spread = getattr(level, f"{latency}_ms")
    value: float | None = getattr(values, statistic)
    return value


def predicted_at(level: PredictedPoint, latency: str) -> float | None:
    """The predicted latency of a level, in milliseconds; the planner's steady gap between tokens is TPOT and ITL."""
    value: float | None = getattr(level, "tpot_ms" if latency == "itl" else f"{latency}_ms")
    return value


def position(objective: Judgement) -> dict[str, float] | None:
    """Where bound, observation, the same without the client, interval stand on a bar of 0..100; None without data."""
    if objective.observed is None:
        return None
    low = objective.observed if objective.low is None else objective.low
    high = objective.observed if objective.high is None else objective.high
    share = (objective.client_share or 0.0) * (1 if objective.comparison == "<=" else -1)
    ends = {"without_client": objective.observed - share, "low": low, "high": high}
    return on_a_bar(1.15, bound=objective.bound, observed=objective.observed, **ends)


def _one_a_load(summary: Summary) -> Sequence[Level]:
    """The levels, but of a load that a search measured several times the judged one, else the last."""
    if summary.search is None:
        return summary.levels
    shown: dict[float | None, Level] = {}
    for level in summary.levels:
        kept = shown.get(level.planned.load)
        if kept is None or not summary.is_judged(kept):
            shown[level.planned.load] = level
    return list(shown.values())


def _valid(levels: Sequence[Level]) -> list[bool]:
    return [level.valid for level in levels]


def _mark_name(level: Level, summary: Summary) -> str:
    """Its requests in flight, `8 (2 of 3 met)` where a search measured it several times; the knee has its own note."""
    if level.concurrency == summary.knee_concurrency:
        return ""
    met, cast = summary.search.votes(level.planned.load) if summary.search else (0, 0)
    return f"{level.concurrency:,} ({met} of {cast} met)" if cast > 1 else f"{level.concurrency:,}"


def _predicted_levels(summary: Summary) -> list[PredictedPoint]:
    return sorted(summary.predicted.levels, key=lambda level: level.concurrency) if summary.predicted else []


def _band(summary: Summary, latency: str) -> tuple[tuple[float, float, float], ...]:
    """The planner's range about its prediction over output tokens/s, where it gave one."""
    ranges = [
        (level.output_tokens_per_s, getattr(level, f"{latency}_range_ms")) for level in _predicted_levels(summary)
    ]
    return tuple((x, span[0], span[1]) for x, span in ranges if x is not None and span is not None)


def _bounds(summary: Summary, latency: str) -> list[tuple[str, float]]:
    named = [(latency_of(objective.name), objective.bound) for objective in summary.objectives if not objective.part]
    return [(name[1], bound) for name, bound in named if name and name[0] == latency]


def _named(bounds: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    return tuple((f"objective {statistic} ≤ {number(bound)} ms", bound) for statistic, bound in bounds)


def _level_ticks(series: Iterable[Series]) -> tuple[tuple[float, str], ...]:
    return levels_ticks([round(mark.x) for one in series for mark in one.marks])


Point = tuple[float | None, float | None, int]


def _by_concurrency(
    figures: Sequence[tuple[int, float | None]], name: str, look: Look, *, unit: str = "ms", valid: Sequence[bool] = ()
) -> Series:
    points = [(concurrency, value, concurrency) for concurrency, value in figures]
    return series_of(points, name, look, unit=unit, valid=valid)


def series_of(
    points: Sequence[Point],
    name: str,
    look: Look,
    *,
    named: Sequence[str] = (),
    unit: str = "ms",
    valid: Sequence[bool] = (),
) -> Series:
    """One line through (x, y, requests in flight). `named`: what each mark has beside it; `valid`: whether its level
    is, all of them where nothing is said."""
    beside, sound = named or [""] * len(points), valid or [True] * len(points)
    marks = [
        FigurePoint(x, y, tip_of(name, y, unit, marked(f"{concurrency:,} in flight", good)), words, good)
        for (x, y, concurrency), words, good in zip(points, beside, sound, strict=True)
        if x is not None
    ]
    return Series(name, look, tuple(marks))


def marked(name: str, valid: bool) -> str:
    """The name of a level whose figures do not count says so."""
    return name if valid else f"{name}, INVALID"
