"""What `auto` of a profile's scaling stands for, in a plan's text, page and document: one number everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from loadproof.advice.document import plan_document
from loadproof.advice.page import page_of
from loadproof.capacity import Plan
from loadproof.cli.plan.text import render
from loadproof.profiles import load_profile
from loadproof.simulation import make_plan

DEV = Path(__file__).parents[2] / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"
REASON = "75% of 28 in flight a copy (at 29 in flight ttft_p95_ms is predicted at 511, over 500)"


def planned(folder: Path, *edits: tuple[str, str]) -> Plan:
    """The dev profile's plan with these texts in it replaced, each found once."""
    text = DEV.read_text(encoding="utf-8")
    for before, after in edits:
        assert text.count(before) == 1
        text = text.replace(before, after)
    file = folder / "llama-3-1-8b.yaml"
    file.write_text(text, encoding="utf-8")
    return make_plan(load_profile(file))


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """One automatic target and one automatic wait."""
    folder = tmp_path_factory.mktemp("profile")
    return planned(folder, ("target: 8", "target: auto"), ("out_cooldown_s: 60", "out_cooldown_s: auto"))


def test_document(plan: Plan) -> None:
    """Component, field, number and reason of each."""
    target, cooldown = plan_document(plan)["scaling"]
    assert target == {"component": "main", "field": "scaling.policies[0].target", "value": 21, "reason": REASON}
    assert (cooldown["field"], cooldown["value"]) == ("scaling.policies[0].scale_out_cooldown_s", 450)


def test_text(plan: Plan) -> None:
    """A table with the field, the number and why, under a heading that says where they come from."""
    console = Console(width=200)
    with console.capture() as captured:
        for part in render(plan, width=200):
            console.print(part)
    shown = captured.get()
    assert "Scaling, derived from auto" in shown and "why (predicted)" in shown
    (line,) = [line for line in shown.splitlines() if "policies[0].target" in line]
    assert [cell.strip() for cell in line.split("│")] == ["scaling.policies[0].target", "21", REASON]


def test_page(plan: Plan) -> None:
    """The same row on the page; a profile without any auto has no such section."""
    page = page_of(plan)
    assert (
        f'<th scope="row" class="left">scaling.policies[0].target</th><td>21</td><td class="left meaning">{REASON}'
        in page
    )
    assert "Scaling derived from auto" not in page_of(make_plan(load_profile(DEV)))


def test_what_has_no_number_is_none_with_its_reason(tmp_path: Path) -> None:
    """The plan is made and shown all the same."""
    plan = planned(tmp_path, ("target: 8", "target: auto"), ("ttft_p95_ms: 500", "ttft_p95_ms: 1"))
    (row,) = plan_document(plan)["scaling"]
    assert row["value"] is None and row["reason"].startswith("at 1 in flight ttft_p95_ms is predicted at ")
    assert "<td>none</td>" in page_of(plan)
