"""The dashboard: every widget well formed, every metric one that is published for the kind of hosting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stacks_support import ENVIRONMENT, Synthesized, merged, profile, synthesize

DASHBOARD = "AWS::CloudWatch::Dashboard"
SCALED = {
    "buffer": {"max_concurrency": 2},
    "scaling": {"policies": [{"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 8.0}]},
}
VARIANT = {"endpoint": {"hosting": "plain_variant", "instance_type": "ml.g5.12xlarge", "max_instances": 1}}


def widgets(stack: Synthesized) -> list[dict[str, Any]]:
    """The body, names that only CloudFormation knows replaced by a word."""
    body = stack.only(DASHBOARD)["DashboardBody"]
    text = body if isinstance(body, str) else "".join(p if isinstance(p, str) else "NAME" for p in body["Fn::Join"][1])
    found: list[dict[str, Any]] = json.loads(text)["widgets"]
    return found


def titled(stack: Synthesized, word: str) -> dict[str, Any]:
    (found,) = [widget for widget in widgets(stack) if word in widget["properties"].get("title", "")]
    properties: dict[str, Any] = found["properties"]
    return properties


@pytest.mark.parametrize("changes", [SCALED, VARIANT, {}], ids=["buffered", "variant", "plain"])
def test_widgets_fit_the_grid_and_overlap_nowhere(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Twenty-four columns, each cell taken at most once."""
    taken: set[tuple[int, int]] = set()
    for widget in widgets(synthesize(profile(tmp_path, changes))):
        assert widget["x"] + widget["width"] <= 24
        cells = {(widget["x"] + x, widget["y"] + y) for x in range(widget["width"]) for y in range(widget["height"])}
        assert not cells & taken
        taken |= cells


@pytest.mark.parametrize("changes", [SCALED, VARIANT, {}], ids=["buffered", "variant", "plain"])
def test_metrics_have_the_form_that_cloudwatch_reads(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Namespace, name, pairs of dimensions, options; formulas use ids that the same widget gives, each id once."""
    for widget in widgets(synthesize(profile(tmp_path, changes))):
        if widget["type"] != "metric":
            continue
        rows = widget["properties"]["metrics"]
        ids = [row[-1]["id"] for row in rows if "id" in row[-1]]
        assert len(ids) == len(set(ids))
        for row in rows:
            if "expression" in row[0]:
                used = {
                    word for word in row[0]["expression"].replace("(", " ").replace(",", " ").split() if word in ids
                }
                assert used and len(row) == 1
            else:
                assert len(row) % 2 == 1 and all(isinstance(part, str) for part in row[:-1])
                assert set(row[-1]) <= {"label", "stat", "period", "yAxis", "id", "visible"}


def test_latency_is_in_the_objectives_unit_with_the_objective_drawn(tmp_path: Path) -> None:
    """SageMaker's microseconds are divided by 1000, and 3000 ms is a line."""
    graph = titled(synthesize(profile(tmp_path)), "latency, ms")
    formulas = [row[0]["expression"] for row in graph["metrics"] if "expression" in row[0]]
    assert formulas == [f"{word}{at} / 1000" for at in range(3) for word in ("model", "overhead")]
    assert graph["annotations"] == {"horizontal": [{"label": "e2e_p95_ms", "value": 3000.0}]}


def test_scaling_target_is_drawn_where_its_metric_is(tmp_path: Path) -> None:
    """Eight in flight on a copy, beside the metric that the policy follows."""
    graph = titled(synthesize(profile(tmp_path, SCALED)), "in flight")
    assert graph["annotations"] == {"horizontal": [{"label": "scaling target 8", "value": 8.0}]}
    assert graph["metrics"][0][1] == "ConcurrentRequestsPerCopy"


def test_four_devices_are_averaged(tmp_path: Path) -> None:
    """ml.g5.12xlarge has four GPUs: SageMaker's sum of up to 400% is divided by 4; CPU and memory are not."""
    graph = titled(synthesize(profile(tmp_path, VARIANT)), "utilization")
    assert [row[0]["expression"] for row in graph["metrics"] if "expression" in row[0]] == ["gpu / 4", "gpumemory / 4"]
    assert {row[0] for row in graph["metrics"] if len(row) > 1} == {"/aws/sagemaker/Endpoints"}


def test_cost_rate_is_instances_times_list_price(tmp_path: Path) -> None:
    """ml.g5.12xlarge: 7.09 USD an hour in us-east-1, as the catalog has it, with the price's date in the title."""
    graph = titled(synthesize(profile(tmp_path, VARIANT)), "Cost rate")
    counted, formula = graph["metrics"]
    assert (counted[1], counted[-1]["stat"], counted[-1]["id"]) == ("CPUUtilization", "SampleCount", "count0")
    assert formula[0]["expression"] == "FILL(count0, 0) * 7.09"
    assert "us-east-1, 20" in graph["title"]


@pytest.mark.parametrize("period_s", [10, 60, 300])
def test_instances_are_counted_once_however_often_they_report(tmp_path: Path, period_s: int) -> None:
    """An instance publishes one figure a period: counting by the minute would show six of one, or a fifth of it."""
    changes = merged(VARIANT, {"endpoint": {"metrics": {"period_s": period_s}}})
    counted, _ = titled(synthesize(profile(tmp_path, changes)), "Cost rate")["metrics"]
    assert (counted[-1]["stat"], counted[-1]["period"]) == ("SampleCount", period_s)


def test_every_alarm_of_the_stack_is_shown(tmp_path: Path) -> None:
    """The alarm widget lists each by its ARN."""
    stack = synthesize(profile(tmp_path, SCALED))
    (widget,) = [widget for widget in widgets(stack) if widget["type"] == "alarm"]
    alarms = [*stack.all("AWS::CloudWatch::Alarm").values(), *stack.all("AWS::CloudWatch::CompositeAlarm").values()]
    names = {body["Properties"]["AlarmName"] for body in alarms if "AlarmName" in body["Properties"]}
    prefix = f"arn:aws:cloudwatch:us-east-1:{ENVIRONMENT.account}:alarm:"
    assert {arn.removeprefix(prefix) for arn in widget["properties"]["alarms"]} == names


def test_queue_is_shown_only_where_there_is_one(tmp_path: Path) -> None:
    """Four graphs more with a buffer, none without."""
    with_queue, without = (widgets(synthesize(profile(tmp_path, changes))) for changes in (SCALED, {}))
    assert len(with_queue) - len(without) == 4
