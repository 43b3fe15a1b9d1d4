"""Copies, scaling activities and metrics beside a run: what is noted, and what becomes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bench_fakes import FakeEndpoint, serving
from bench_records import record
from botocore.exceptions import ClientError

from loadproof.bench.connect import parse_target
from loadproof.bench.measure import observer
from loadproof.bench.measure.observer import Row, observing
from loadproof.bench.measure.records import RecordFile
from loadproof.bench.measure.scaling import Deployed, deployed_of, read_observed, scaling_lines, scaling_of
from loadproof.bench.measure.watcher import Watcher
from loadproof.bench.plan import RunPlan, planned_in_full, write_plan
from loadproof.bench.spec import BenchmarkSpec, WorkloadSpec, fixed_tokens
from loadproof.bench.summary import build_summary

S = 10**9
START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
ZERO_NS = int(START.timestamp()) * S


def plan_at(url: str | None = None) -> RunPlan:
    spec = BenchmarkSpec(
        target=parse_target("sagemaker://demo/demo-main", "tgi", streaming=True, endpoint_url=url),
        workload=WorkloadSpec(fixed_tokens(16), fixed_tokens(6)),
        concurrency=(1,),
        requests_per_level=1,
    )
    plan = RunPlan("run", "2026-11-21T10:00:00Z", ZERO_NS, spec, {"loadproof": "0"}, ("2026-11-21T10:00:00Z",))
    return planned_in_full(plan)


def copies(at_s: float, current: int, desired: int) -> dict[str, Any]:
    return {"schema_version": 1, "kind": "copies", "at_ns": round(at_s * S), "current": current, "desired": desired}


def activity(start_s: float, name: str = "a") -> dict[str, Any]:
    row = {"schema_version": 1, "kind": "activity", "at_ns": 99 * S, "id": name, "start_ns": round(start_s * S)}
    return row | {"end_ns": None, "status": "InProgress", "description": "setting desired copies"}


class Cloud:
    """Answers of three services, as told."""

    def __init__(self, states: list[tuple[int, int]], refused: bool = False) -> None:
        self.states, self.refused = states, refused

    def __call__(self, service: str) -> Cloud:
        return self

    def describe_inference_component(self, **_: str) -> Mapping[str, Any]:
        current, desired = self.states[0] if len(self.states) == 1 else self.states.pop(0)
        return {
            "InferenceComponentStatus": "InService",
            "RuntimeConfig": {"CurrentCopyCount": current, "DesiredCopyCount": desired},
            "Specification": {"Container": {"DeployedImage": {"SpecifiedImage": "tgi:3.3"}}},
        }

    def describe_endpoint(self, **_: str) -> Mapping[str, Any]:
        return {"EndpointConfigName": "config", "EndpointArn": "arn:aws:sagemaker:eu-west-1:123456789012:endpoint/e"}

    def describe_endpoint_config(self, **_: str) -> Mapping[str, Any]:
        return {"ProductionVariants": [{"InstanceType": "ml.g5.2xlarge"}]}

    def describe_scaling_activities(self, **_: str) -> Mapping[str, Any]:
        if self.refused:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeScalingActivities")
        rows = ((1, START.replace(minute=1)), (2, START.replace(hour=9)))
        return {
            "ScalingActivities": [
                {"ActivityId": str(number), "StartTime": at, "StatusCode": "Successful", "Description": "x"}
                for number, at in rows
            ]
        }

    def get_metric_data(self, **query: Any) -> Mapping[str, Any]:
        assert query["StartTime"] == START
        return {"MetricDataResults": [{"Id": "m0", "Timestamps": [START], "Values": [12.0]}]}


def watched(cloud: Cloud, act: Callable[[Watcher], None]) -> list[Row]:
    rows: list[Row] = []
    act(Watcher(plan_at(), cloud, rows.append, clock_ns=lambda: ZERO_NS + 5 * S))
    return rows


def test_only_changes_of_copies_are_noted() -> None:
    """Of 1/1, 1/1, 1/2, 2/2 three are new."""

    def poll(watcher: Watcher) -> None:
        for _ in range(4):
            watcher.copies()

    rows = watched(Cloud([(1, 1), (1, 1), (1, 2), (2, 2)]), poll)
    assert [(row["current"], row["desired"]) for row in rows] == [(1, 1), (1, 2), (2, 2)]
    assert {row["at_ns"] for row in rows} == {5 * S}


def test_the_last_words_are_copies_activities_of_the_run_and_metrics() -> None:
    """The activity of an hour before the run is not the run's; times count from the run's zero."""
    rows = watched(Cloud([(1, 1)]), lambda watcher: watcher.last_words())
    assert [row["kind"] for row in rows] == ["copies", "activity", "metric"]
    assert (rows[1]["id"], rows[1]["start_ns"], rows[1]["end_ns"]) == ("1", 60 * S, None)
    assert (rows[2]["name"], rows[2]["statistic"], rows[2]["value"], rows[2]["start_ns"]) == (
        "Invocations", "Sum", 12.0, 0,
    )  # fmt: skip


def test_what_may_not_be_read_is_said_once() -> None:
    """Without the right to see scaling activities a line says so, and the rest is noted."""

    def twice(watcher: Watcher) -> None:
        watcher.last_words()
        watcher.last_words()

    rows = watched(Cloud([(1, 1)], refused=True), twice)
    assert [row["what"] for row in rows if row["kind"] == "problem"] == ["scaling activities"]
    assert sum(row["kind"] == "metric" for row in rows) == 2


def test_what_runs_is_noted() -> None:
    """Image of the component, the endpoint's ARN, instance type of its configuration, and which that is."""
    rows = watched(Cloud([(1, 1)]), lambda watcher: watcher.deployed())
    arn = "arn:aws:sagemaker:eu-west-1:123456789012:endpoint/e"
    assert deployed_of(rows) == Deployed("tgi:3.3", "ml.g5.2xlarge", endpoint_config="config", endpoint_arn=arn)


def test_a_scale_out_takes_from_wanted_to_there() -> None:
    """Wanted at 10 s, there at 52 s: 42 s. An activity that started at 8.5 s says when it was asked for: 43.5 s."""
    rows = [copies(0, 1, 1), copies(10, 1, 2), copies(52, 2, 2)]
    found = scaling_of(rows)
    assert found is not None
    [out] = found.scale_outs
    assert (out.before, out.after, out.started_s, out.seconds, out.by) == (1, 2, 10, 42, "observed")
    found = scaling_of([*rows, activity(8.5)])
    assert found is not None and (found.scale_outs[0].seconds, found.scale_outs[0].by) == (43.5, "activity")


def test_an_activity_says_what_no_poll_saw() -> None:
    """Between two polls 1 copy became 4: the activity from 9.25 s to 9.75 s took 0.5 s; none known, and it is 0 s."""
    rows = [copies(0, 1, 1), copies(10, 4, 4)]
    found = scaling_of([*rows, activity(9.25) | {"end_ns": 9_750_000_000, "status": "Successful"}])
    assert found is not None and [(out.seconds, out.by) for out in found.scale_outs] == [(0.5, "activity")]
    found = scaling_of(rows)
    assert found is not None and [(out.seconds, out.by) for out in found.scale_outs] == [(0.0, "observed")]


def test_a_scale_out_is_counted_from_the_change_of_load_before_it() -> None:
    """Levels begin at 0 and 4 s, copies are wanted at 10 s and there at 52 s: 48 s; the level at 60 s has no part."""
    rows = [copies(0, 1, 1), copies(10, 1, 2), copies(52, 2, 2)]
    found = scaling_of(rows, [0.0, 4.0, 60.0])
    assert found is not None
    assert (found.scale_outs[0].load_changed_s, found.scale_outs[0].after_load_s) == (4.0, 48.0)
    assert scaling_lines(replace(found, clock_speed=30.0)) == [
        "Scale-out from 1 to 2 copies: 42 s, 48 s after the load changed "
        "(of a clock that runs 30 times as fast as AWS's)"
    ]
    assert scaling_lines(None) == []


def test_steps_on_the_way_and_scaling_in() -> None:
    """1 → 3 by way of 2 is one scale-out; going back to 1 is none."""
    found = scaling_of(
        [copies(0, 1, 1), copies(5, 1, 3), copies(20, 2, 3), copies(30, 3, 3), copies(90, 3, 1), copies(95, 1, 1)]
    )
    assert found is not None
    assert [(out.before, out.after, out.seconds) for out in found.scale_outs] == [(1, 3, 25)]


def test_copies_that_never_came_have_no_time() -> None:
    """Still wanted when the run ended: a scale-out without a duration, not one of 0 s."""
    found = scaling_of([copies(0, 1, 1), copies(5, 1, 2)])
    assert found is not None and [(out.after, out.seconds) for out in found.scale_outs] == [(2, None)]
    assert scaling_of([]) is None


def test_the_observer_runs_beside_the_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real process on a real socket: copies that change while the block runs are in the file and in the summary."""
    monkeypatch.setattr(observer, "LAST_WORDS_WITHIN_S", 20.0)
    with serving(FakeEndpoint(copies=1)) as endpoint:
        plan = plan_at(endpoint.url)
        write_plan(tmp_path, plan)
        with observing(tmp_path, plan.spec.target):
            endpoint.copies = 2
            deadline_s = time.monotonic() + 60
            while len(read_observed(tmp_path)) < 4 and time.monotonic() < deadline_s:
                time.sleep(0.1)
    rows = read_observed(tmp_path)
    assert [(row["current"], row["desired"]) for row in rows if row["kind"] == "copies"] == [(1, 2), (2, 2), (2, 2)]
    file = RecordFile((record(token_ms=(5, 6), end_ms=6),), 0)
    summary = build_summary(plan, file, observed=rows)
    assert summary.scaling is not None
    [out] = summary.scaling.scale_outs
    assert (out.before, out.after) == (1, 2) and out.seconds is not None and 0 < out.seconds < 20
    assert any("scaling activities" in problem for problem in summary.scaling.problems)


def test_a_target_without_copies_is_not_observed(tmp_path: Path) -> None:
    """A plain HTTP server has no control plane: no file, no process."""
    with observing(tmp_path, parse_target("http://localhost:1", "openai", streaming=True)):
        pass
    assert list(tmp_path.iterdir()) == []
