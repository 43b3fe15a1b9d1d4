"""`report.html` of a run: one file that needs no network, readable with scripts off, safe with hostile names."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from benchmarks.report import charts, wording
from benchmarks.report.looks import MIDDLE, TAIL, Figure
from benchmarks.report.reading import Level, Objective, Summary, read_summary
from benchmarks.report.timeline import Timeline, read_timeline

_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def render_report(run_folder: Path) -> Path:
    """Write `report.html` into the run's folder and return its path.

    Reads `summary.json` and, if there, `requests.jsonl`. The file appears whole or not at all. Raises InputError when
    the summary is missing or malformed, OSError when the folder cannot be written.
    """
    summary = read_summary(run_folder)
    target = run_folder / "report.html"
    write_whole(page_of(summary, read_timeline(run_folder)), target)
    return target


def write_whole(page: str, target: Path) -> None:
    """Write a page whole or not at all: never half a file under its name. Raises OSError."""
    handle, unfinished = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=".html")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as out:
            out.write(page)
        Path(unfinished).chmod(0o644)  # mkstemp's 0600 would hide a page that a web server publishes
        Path(unfinished).replace(target)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def page_of(summary: Summary, timeline: Timeline | None) -> str:
    """The page's whole text."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": wording.number,
        "visible": wording.visible,
        "margin": wording.margin,
    }
    figures = _figures(summary, timeline)
    # CRLF would be normalised by the browser's parser before it hashes the script.
    scripts = [text.replace("\r\n", "\n") for text in (get_plotlyjs(), _text("page.js"))]
    return environment.get_template("page.html.j2").render(
        summary=summary,
        timeline=timeline,
        wording=wording,
        position=charts.position,
        at=charts.at,
        predicted_at=charts.predicted_at,
        predicted={level.concurrency: level for level in summary.predicted.levels} if summary.predicted else {},
        verdict_sentence=verdict_sentence(summary),
        other_reasons=_other_reasons(summary),
        judged=_judged(summary),
        on_twin=_on_twin(summary),
        conditions=_conditions(summary),
        figures=figures,
        figures_json=Markup(json_in_script(figures)),
        style=Markup(_text("page.css")),
        scripts=[Markup(script) for script in scripts],
        policy=_policy(scripts),
    )


def verdict_sentence(summary: Summary) -> str:
    """Why the verdict is what it is, in one sentence; the verdict's own first reason where objectives do not say it."""
    verdict = summary.verdict
    where = f" at {verdict.at_concurrency} requests in flight" if verdict.at_concurrency else ""
    if verdict.at_load and not verdict.at_load.endswith("in flight"):  # an open loop goes by its rate
        where = f" at {wording.visible(verdict.at_load, 120)}"
    decisive = [objective for objective in summary.objectives if objective.verdict == verdict.outcome]
    if decisive:
        closest = min(decisive, key=lambda objective: objective.margin if objective.margin is not None else math.inf)
        return _SENTENCES[verdict.outcome](closest, len(decisive), where)
    if verdict.reasons:
        return wording.visible(verdict.reasons[0])
    return {
        "PASS": "No objectives were given; requests succeeded.",
        "FAIL": f"The objectives were not met{where}.",
        "INCONCLUSIVE": f"The samples do not settle whether the objectives hold{where}.",
        "INVALID": "The measurement itself cannot be trusted.",
    }[verdict.outcome]


def _passed(closest: Objective, count: int, where: str) -> str:
    objectives = "The one objective was" if count == 1 else f"All {count} objectives were"
    value = wording.objective_value(closest.name, closest.observed)
    room = f", {wording.margin(closest.margin)} its bound" if closest.margin is not None else ""
    return f"{objectives} met{where}; the closest is {wording.objective_title(closest.name)} with {value}{room}."


def _failed(worst: Objective, count: int, where: str) -> str:
    value = wording.objective_value(worst.name, worst.observed)
    more = f"; {count - 1} more missed" if count > 1 else ""
    return f"{wording.objective_title(worst.name)} was {value}{where}, the objective is {wording.bound(worst)}{more}."


def _undecided(closest: Objective, count: int, where: str) -> str:
    title, more = wording.objective_title(closest.name), f"; {count - 1} more undecided" if count > 1 else ""
    if closest.observed is None:
        return f"{title} has no data{where}, so {wording.bound(closest)} stays open{more}."
    value = wording.objective_value(closest.name, closest.observed)
    spread = f" (95 % interval {wording.interval(closest)})" if closest.low is not None else ""
    needed = closest.more_requests
    advice = f"; about {needed:,} more requests like these would" if needed else ""
    return f"{title} was {value}{spread}{where}: too few samples to settle {wording.bound(closest)}{advice}{more}."


_SENTENCES = {"PASS": _passed, "FAIL": _failed, "INCONCLUSIVE": _undecided}


def json_in_script(value: Any) -> str:
    """JSON that cannot end the script element it stands in, nor break a parser on U+2028 or U+2029 (pure ASCII)."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, escaped in _IN_SCRIPT.items():
        text = text.replace(character, escaped)
    return text


def _figures(summary: Summary, timeline: Timeline | None) -> dict[str, Figure]:
    """Figures by the id of their place on the page; what has no data is absent."""
    noun = "on the twin" if _on_twin(summary) else "measured"
    tokens = (("output_tokens_per_s", noun, MIDDLE),)
    requests = (
        ("requests_per_s", f"{noun}, all", TAIL),
        ("goodput_per_s", f"{noun}, within the objectives", MIDDLE),
    )
    drawn = {f"curve-{latency}": charts.curve(summary, latency, noun) for latency in ("ttft", "tpot")}
    drawn |= {f"percentiles-{latency}": charts.percentiles(summary, latency, noun) for latency in wording.LATENCIES}
    drawn["tokens"] = charts.throughput(summary, tokens, "output tokens per second")
    drawn["requests"] = charts.throughput(summary, requests, "requests per second")
    drawn["timeline"] = charts.timeline(timeline) if timeline else None
    return {place: figure for place, figure in drawn.items() if figure is not None}


def _policy(scripts: Iterable[str]) -> str:
    """Content-Security-Policy: nothing is loaded, and only these very scripts run.

    Styles are inline and Plotly sets some of its own; with every load forbidden they can fetch nothing.
    """
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _other_reasons(summary: Summary) -> list[str]:
    """The verdict's reasons that neither the sentence nor the objectives table tells already."""
    if summary.verdict.outcome == "PASS" and summary.objectives:
        return []
    told = tuple(f"{objective.name}:" for objective in summary.objectives)
    shown = [wording.visible(reason) for reason in summary.verdict.reasons if not reason.startswith(told)]
    return [reason for reason in shown if reason != verdict_sentence(summary)]


def _judged(summary: Summary) -> Level | None:
    """The level the page's key figures are of: the judged one, else the knee."""
    if summary.verdict.at_concurrency is not None:
        return next((level for level in summary.levels if wording.is_judged(level, summary)), None)
    knee = summary.knee.concurrency if summary.knee else None
    return next((level for level in summary.levels if level.concurrency == knee), None)


def _on_twin(summary: Summary) -> bool:
    return summary.conditions.get("local_cloud") is True and summary.conditions.get("backend", "twin") == "twin"


def _conditions(summary: Summary) -> list[tuple[str, list[tuple[str, str]]]]:
    """What the run was, as titled groups of (name, value) with foreign text made visible; a nested map is a group."""
    run = {"run": summary.run_id, "created (UTC)": summary.created_utc}
    if "loadproof" not in summary.conditions:
        run["loadproof"] = summary.loadproof_version
    sources = sorted({level.token_source for level in summary.levels if level.token_source})
    parts: list[tuple[str, Mapping[str, Any]]] = [
        ("Run", run),
        ("Target", summary.target.model_dump()),
        ("Profile", summary.profile.model_dump() if summary.profile else {}),
        ("Workload", summary.workload | {"output tokens counted by": ", ".join(sources) or None}),
        ("Conditions", summary.conditions),
    ]
    groups: list[tuple[str, list[tuple[str, str]]]] = []
    for title, values in parts:
        nested = [(name, value) for name, value in values.items() if isinstance(value, dict)]
        groups.append((title, _pairs({name: value for name, value in values.items() if not isinstance(value, dict)})))
        groups += [(wording.visible(f"{title}: {name}", longest=80), _pairs(value)) for name, value in nested]
    return [(title, pairs) for title, pairs in groups if pairs]


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(wording.visible(name.replace("_", " "), longest=80), _said(value)) for name, value in values.items()]


def _said(value: Any) -> str:
    if value is None or value == "" or value == []:
        return wording.NO_DATA
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, list):
        return wording.visible(", ".join(str(item) for item in value))
    return wording.visible(value)


def _text(name: str) -> str:
    return (files("benchmarks.report") / name).read_text(encoding="utf-8")
