"""The page itself: one HTML file with drawings inside, no script and no network."""

from __future__ import annotations

from importlib.resources import files

from markupsafe import Markup

from loadproof.advice.alternatives import Alternatives
from loadproof.advice.page import curves, ladder, memory, shares, wording
from loadproof.advice.page.brief import brief_of
from loadproof.advice.page.levels import rows_of
from loadproof.capacity import Plan, PredictedLevel
from loadproof.capacity.cost import price_of
from loadproof.capacity.outlook import predicted_value
from loadproof.pages.brief import brief_in_html
from loadproof.pages.figures import swatch
from loadproof.pages.style import house_style
from loadproof.pages.templates import page_environment
from loadproof.pages.wording import SHORT, TITLES, counted, objective_title, objective_value, visible
from loadproof.pages.wording import number as number_text
from loadproof.usd import usd_per_million_tokens


def page_of(plan: Plan, alternatives: Alternatives | None = None, profile: str = "") -> str:
    """The page as text, with the alternatives where they are given; `profile` is how its commands name the profile.

    Untrusted text (names, notes) is escaped, and its control characters are spelled out.
    """
    environment = page_environment("loadproof.advice.page", number=number_text, visible=visible)
    return environment.get_template("page.html.j2").render(
        plan=plan,
        wording=wording,
        mark=wording.MARKS[wording.outcome(plan)],
        brief=brief_in_html(brief_of(plan, alternatives, profile), promise=False),
        titles=TITLES,
        curve_pictures={latency: curves.curve(plan, latency) for latency in TITLES},
        series={latency: curves.series_of(plan, latency) for latency in TITLES},
        bounds={latency: curves.bounds_of(plan, latency) for latency in TITLES},
        swatch=swatch,
        shares_picture=shares.shares(plan),
        parts=shares.PARTS,
        percent=shares.percent,
        memory_picture=memory.memory_bar(plan.memory),
        memory_parts=memory.memory_parts(plan.memory),
        rows=rows_of(plan),
        judged=_judged(plan),
        percentile=lambda level, name: predicted_value(name, level, plan.workload),
        alternatives=alternatives,
        ladders=_ladders(alternatives) if alternatives else {},
        key_figures=_key_figures(plan),
        objective_title=objective_title,
        objective_value=objective_value,
        interval=lambda level, name: _interval(plan, level, name),
        sources=_sources(plan),
        style=Markup(f"{house_style()}\n{_text('page.css')}"),
    )


def _ladders(alternatives: Alternatives) -> dict[str, Markup]:
    return {
        field: ladder.ladder(ladder.rungs_of(alternatives, field), unit)
        for field, unit in (("usd_per_hour", "USD/h"), ("usd_per_million_tokens", "USD/M"))
    }


def _interval(plan: Plan, level: PredictedLevel, name: str) -> str:
    """`19.9 to 41.8`: the range of a level's figure, by the field's name."""
    low, high = plan.confidence.range_of(name, getattr(level, name), level)
    return f"{number_text(low)} to {number_text(high)}"


def _key_figures(plan: Plan) -> list[tuple[str, float | None, str, str]]:
    """(name, value, unit, range) at the objectives' level, then what it costs."""
    level, figures = plan.at_objectives, []
    if level is not None:
        for latency in TITLES:
            field = f"{latency}_ms"
            figures.append((f"{SHORT[latency]} mean", getattr(level, field), "ms", _interval(plan, level, field)))
        field = "output_tokens_per_s"
        figures.append(("Output", level.output_tokens_per_s, "tokens/s", _interval(plan, level, field)))
        per_million = usd_per_million_tokens(plan.cost.usd_per_hour_min, level.output_tokens_per_s)
        figures.append(("Cost per M output tokens", per_million, "USD", ""))
    cost = plan.cost
    figures.append((f"Cost, {counted(cost.instances_min, 'instance')}", cost.usd_per_hour_min, "USD/hour", ""))
    if cost.instances_max > cost.instances_min:
        figures.append((f"Cost, {counted(cost.instances_max, 'instance')}", cost.usd_per_hour_max, "USD/hour", ""))
    return figures


def _sources(plan: Plan) -> list[tuple[str, str]]:
    deployment = plan.deployment
    instance = deployment.instance
    return [
        ("Server parameters", deployment.server.source),
        ("Server calibrated on", ", ".join(deployment.server.calibrated_on) or "nothing yet"),
        (deployment.accelerator.name, deployment.accelerator.source),
        (instance.instance_type, instance.source),
        ("Price", price_of(instance) or "none known"),
    ]


def _text(name: str) -> str:
    return (files("loadproof.advice.page") / name).read_text(encoding="utf-8")


def _judged(plan: Plan) -> dict[str, str]:
    """The latency objectives of all requests, each a column of levels: name by title."""
    return {objective_title(row.name): row.name for row in plan.outlook if row.name.endswith("_ms") and not row.part}
