"""`report.html` of a run: one file that needs no network, readable with scripts off, safe with hostile names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from loadproof.bench.document import Level, Summary, as_json, read_summary
from loadproof.bench.measure.histogram import Histogram, HistogramRow
from loadproof.bench.report import charts, timeline_charts, wording
from loadproof.bench.report.brief import brief_of, verdict_sentence
from loadproof.bench.report.timeline import Moments, Timeline, read_timeline, timeline_at
from loadproof.catalog import price_addresses
from loadproof.pages.brief import brief_in_html
from loadproof.pages.figures import Figure, draw
from loadproof.pages.file import write_whole
from loadproof.pages.looks import FAR_TAIL, MIDDLE, TAIL, Look
from loadproof.pages.style import house_style
from loadproof.pages.templates import page_environment
from loadproof.pages.wording import linked

if TYPE_CHECKING:
    from jinja2 import Environment

# Nothing is loaded and nothing runs; styles are inline, and with every load forbidden they can fetch nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_LONGEST_PRICE = 400  # characters; the longest source in the catalog has 388


def render_report(run_folder: Path, summary: Summary | None = None, moments: Sequence[Moments] | None = None) -> Path:
    """Write `report.html` into the run's folder and return its path.

    Reads `summary.json` (not where its `summary` is given) and, if there, `requests.jsonl` (not where the `moments` of
    its requests are). The file appears whole or not at all. Raises InputError when the summary is missing or malformed,
    OSError when the folder cannot be written.
    """
    summary = (summary or read_summary(run_folder)).by_concurrency()
    target = run_folder / "report.html"
    judged = _judged(summary)
    level = judged.planned.level if judged else None
    timeline = read_timeline(run_folder, level) if moments is None else timeline_at(moments, level)
    write_whole(page_of(summary, timeline, run_folder), target)
    return target


def page_of(summary: Summary, timeline: Timeline | None, run_folder: Path | None = None) -> str:
    """The page's whole text. `run_folder`: named in the commands that it gives."""
    figures = {place: draw(figure) for place, figure in _figures(summary).items()}
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            summary=summary,
            timeline=timeline,
            wording=wording,
            position=charts.position,
            at=charts.at,
            predicted_at=charts.predicted_at,
            verdict_sentence=verdict_sentence(summary),
            brief=brief_in_html(brief_of(summary, run_folder), promise=False),
            other_reasons=_other_reasons(summary),
            judged=_judged(summary),
            phased=[level for level in summary.levels if level.phases.baseline],
            conditions=_conditions(summary),
            figures=figures | _over_time(summary, timeline),
            style=Markup(style()),
            searched=_search_lines(summary),
            policy=POLICY,
        )
    )


@cache
def environment() -> Environment:
    """Templates of this folder, escaping whatever they are given."""
    return page_environment(
        "loadproof.bench.report", number=wording.number, visible=wording.visible, margin=wording.margin
    )


def style() -> str:
    """The style sheets, and the colours of series as variables."""
    return f"{house_style()}\n{_text('charts.css')}"


def _figures(summary: Summary) -> dict[str, Figure]:
    """Figures by the id of their place on the page; what has no data is absent."""
    noun = "on the twin" if summary.on_twin else "measured"
    tokens = (("output_tokens_per_s", noun, MIDDLE),)
    requests = (
        ("requests_per_s", f"{noun}, all", TAIL),
        ("goodput_per_s", f"{noun}, within the objectives", MIDDLE),
    )
    drawn = {f"curve-{latency}": charts.curve(summary, latency, noun) for latency in ("ttft", "tpot")}
    drawn |= {f"percentiles-{latency}": charts.percentiles(summary, latency, noun) for latency in wording.LATENCIES}
    drawn["tokens"] = charts.throughput(summary, tokens, "output tokens per second")
    drawn["requests"] = charts.throughput(summary, requests, "requests per second")
    judged = _judged(summary)
    for latency in wording.LATENCIES:
        drawn[f"distribution-{latency}"] = charts.distribution(_distributions(summary, judged, latency), latency)
    return {place: figure for place, figure in drawn.items() if figure is not None}


def _distributions(summary: Summary, judged: Level | None, latency: str) -> list[tuple[str, Look, Histogram]]:
    """Of the lowest, the judged and the highest level, each once."""
    shown = dict.fromkeys(summary.levels.index(level) for level in (*summary.levels[-1:], *summary.levels[:1]))
    if judged is not None:
        shown |= dict.fromkeys([summary.levels.index(judged)])
    found = []
    for look, index in zip((TAIL, MIDDLE, FAR_TAIL), sorted(shown), strict=False):
        level = summary.levels[index]
        row = level.histograms.get(f"{latency}_ms")
        counts = histogram_of_row(row) if row else None
        if counts is not None and counts.count:
            notes = [*["judged"] * (level is judged), *["INVALID"] * (not level.valid)]
            name = f"{level.concurrency:,} in flight" + (f" ({', '.join(notes)})" if notes else "")
            found.append((name, look, counts))
    return found


def histogram_of_row(row: HistogramRow) -> Histogram | None:
    """None for a histogram this version does not know."""
    try:
        return Histogram.from_row(row)
    except ValueError:
        return None


def _over_time(summary: Summary, timeline: Timeline | None) -> dict[str, Markup]:
    if timeline is None:
        return {}
    copies = []
    if summary.scaling and timeline.sessions == 1:  # rests between sessions are cut out of the timeline
        copies = [replace(count, at_s=count.at_s - timeline.zero_s) for count in summary.scaling.copies]
    found = {f"timeline-{name}": one for name, one in timeline_charts.timeline(timeline, copies).items()}
    return found | ({"waterfall": timeline_charts.waterfall(timeline)} if timeline.waterfall else {})


def _other_reasons(summary: Summary) -> list[str]:
    """The verdict's reasons that neither the sentence nor the objectives table tells already."""
    if summary.verdict.outcome == "PASS" and summary.objectives:
        return []
    told = tuple(f"{objective.label}:" for objective in summary.objectives)
    shown = [wording.visible(reason) for reason in summary.verdict.reasons if not reason.startswith(told)]
    return [reason for reason in shown if reason != verdict_sentence(summary)]


def _search_lines(summary: Summary) -> list[str]:
    return [wording.visible(line) for line in summary.search.lines()] if summary.search else []


def _judged(summary: Summary) -> Level | None:
    """The level the page's key figures are of: the judged one, else the knee."""
    if summary.verdict.at_concurrency is not None:
        return next((level for level in summary.levels if summary.is_judged(level)), None)
    knee = summary.knee.concurrency if summary.knee else None
    return next((level for level in summary.levels if level.concurrency == knee), None)


def _conditions(summary: Summary) -> list[tuple[str, list[tuple[str, str]]]]:
    """What the run was, as titled groups of (name, value) with foreign text made visible; a nested map is a group."""
    run = {"run": summary.run_id, "created (UTC)": summary.created_utc}
    if summary.conditions.loadproof is None:
        run["loadproof"] = summary.loadproof_version
    sources = sorted({level.token_source for level in summary.levels if level.token_source})
    parts: list[tuple[str, Mapping[str, object]]] = [
        ("Run", run),
        ("Target", as_json(summary.target)),
        ("Profile", as_json(summary.profile) if summary.profile else {}),
        ("Workload", as_json(summary.workload) | {"output tokens counted by": ", ".join(sources) or None}),
        ("Conditions", as_json(summary.conditions)),
    ]
    groups: list[tuple[str, list[tuple[str, str]]]] = []
    for title, values in parts:
        nested = [(name, value) for name, value in values.items() if isinstance(value, dict)]
        groups.append((title, _pairs({name: value for name, value in values.items() if not isinstance(value, dict)})))
        groups += [(wording.visible(f"{title}: {name}", longest=80), _pairs(value)) for name, value in nested]
    return [(title, pairs) for title, pairs in groups if pairs]


def _pairs(values: Mapping[str, object]) -> list[tuple[str, str]]:
    return [
        (wording.visible(name.replace("_", " "), longest=80), _priced(value) if name == "price" else _said(value))
        for name, value in values.items()
    ]


def _priced(value: object) -> str:
    return sourced(value) if isinstance(value, str) else _said(value)


def sourced(price: str) -> Markup:
    """Whence a price is: an address of the catalog is a link, one of anybody else's run is none."""
    return linked(price, price_addresses(), _LONGEST_PRICE)


def _said(value: object) -> str:
    if value is None or value in ("", []):
        return wording.NO_DATA
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, list):
        return wording.visible(", ".join(str(item) for item in value))
    return wording.visible(value)


def _text(name: str) -> str:
    return (files("loadproof.bench.report") / name).read_text(encoding="utf-8")
