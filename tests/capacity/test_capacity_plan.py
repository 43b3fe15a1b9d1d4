"""The whole plan of a profile, its knee, its cost, its outlook and the verb that prints it."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from processes import run_process

from loadproof.capacity import Knee, Plan, find_knee, make_plan
from loadproof.capacity.confidence import confidence_of
from loadproof.cli import main
from loadproof.errors import InputError
from loadproof.profiles import Profile, load_profile
from loadproof.usd import usd_per_million_tokens

DEV = Path(__file__).parents[2] / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml"


def planned(**changes: Any) -> Plan:
    """The dev profile's plan with some keys replaced: `endpoint={"instance_type": ...}` merges one level deep."""
    data = load_profile(DEV).model_dump()
    for key, value in changes.items():
        data[key] = data[key] | value if isinstance(value, dict) and isinstance(data[key], dict) else value
    return make_plan(Profile.model_validate(data))


def test_a_knee_is_where_doubling_the_load_brings_less_than_a_quarter_more() -> None:
    """Throughput 100, 190, 300, 320: from 4 to 8 it grows by 7% for 100% more load."""
    knee = find_knee([(1, 100.0, 10.0), (2, 190.0, 11.0), (4, 300.0, 14.0), (8, 320.0, 26.0)])
    reason = "from 4 to 8 in flight steady throughput changes by +7% and latency goes from 14 to 26 ms"
    assert knee == Knee(4, "marginal gain", reason, output_tokens_per_s=300.0)


def test_a_curve_that_still_grows_has_its_knee_at_its_highest_level_and_says_so() -> None:
    """Doubling brought 80% each time: nothing was found past which latency is paid for nothing."""
    knee = find_knee([(2, 180.0, 11.0), (1, 100.0, 10.0), (4, 324.0, 13.0)])
    assert knee is not None
    assert knee.concurrency == 4
    assert not knee.reached
    assert "still grows" in knee.reason


@pytest.mark.parametrize("rows", [[], [(4, 100.0, 10.0)]])
def test_fewer_than_two_levels_have_no_knee(rows: list[tuple[int, float, float]]) -> None:
    """None, not a guess."""
    assert find_knee(rows) is None


def test_a_curve_without_throughput_has_its_knee_at_the_lowest_level() -> None:
    """Levels at which everything failed gain nothing."""
    knee = find_knee([(1, 0.0, 10.0), (2, 0.0, 10.0)])
    assert knee is not None
    assert knee.concurrency == 1


def test_a_million_tokens_cost_the_hours_they_take() -> None:
    """7.09 USD an hour at 1,000 tokens/s: 3.6 million an hour, 1.969 USD a million."""
    assert usd_per_million_tokens(7.09, 1000) == pytest.approx(1.9694, rel=1e-4)


@pytest.mark.parametrize(("price", "rate"), [(None, 100.0), (7.09, None), (7.09, 0.0)])
def test_no_price_or_no_tokens_cost_none(price: float | None, rate: float | None) -> None:
    """Never 0 and never infinite."""
    assert usd_per_million_tokens(price, rate) is None


def test_the_dev_profile_fits_and_has_a_level_for_each_benchmark_level() -> None:
    """Levels 1, 2, 4, 8 in order; the objectives' level is 4."""
    plan = planned()
    assert plan.memory.fits == "yes"
    assert [level.concurrency for level in plan.levels] == [1, 2, 4, 8]
    assert plan.at_objectives == plan.levels[2]
    assert len(plan.costs_per_million) == 4


def test_an_hour_costs_the_instances_the_copies_need() -> None:
    """1 to 2 copies of one accelerator on ml.g6e.2xlarge (one accelerator, 2.8026 USD): 2.80 to 5.61 USD."""
    cost = planned().cost
    assert (cost.instances_min, cost.instances_max) == (1, 2)
    assert cost.usd_per_hour_min == pytest.approx(2.8026)
    assert cost.usd_per_hour_max == pytest.approx(5.6052)


def test_a_plain_variant_is_paid_by_the_bounds_of_its_instances() -> None:
    """2 to 4 of ml.g6e.2xlarge at 2.8026 USD: 5.61 to 11.21 USD, whatever `copies` says."""
    tracked = {"type": "target_tracking", "metric": "concurrent_requests_per_model", "target": 8}
    cost = planned(
        endpoint={"hosting": "plain_variant", "min_instances": 2, "max_instances": 4}, scaling={"policies": (tracked,)}
    ).cost
    assert cost.usd_per_hour_min == pytest.approx(5.6052)
    assert cost.usd_per_hour_max == pytest.approx(11.2104)


def test_copies_that_share_an_instance_are_paid_once() -> None:
    """Four one-accelerator copies fit one ml.g5.12xlarge."""
    plan = planned(endpoint={"instance_type": "ml.g5.12xlarge"}, copies={"min": 4, "max": 4})
    assert plan.cost.instances_min == 1


def test_an_instance_without_a_price_costs_none_and_says_so() -> None:
    """ml.p5e.48xlarge has no on-demand row."""
    plan = planned(endpoint={"instance_type": "ml.p5e.48xlarge"})
    assert plan.cost.usd_per_hour_min is None
    assert set(plan.costs_per_million) == {None}
    assert "no on-demand price is known for ml.p5e.48xlarge" in plan.notes


def test_a_machine_whose_figures_nobody_verified_is_planned_with_a_note() -> None:
    """The row of the B300 says `verify` in its source; that of the A10G does not."""
    said = planned(endpoint={"instance_type": "ml.p6-b300.48xlarge"}, copies={"min": 1, "max": 2}).notes
    assert any(note.startswith("the catalog's figures of B300 are unverified: aiconfigurator") for note in said)
    assert not any("unverified" in note for note in planned(endpoint={"instance_type": "ml.g5.2xlarge"}).notes)


def test_a_model_that_does_not_fit_has_no_levels_and_no_promises() -> None:
    """Llama 3.1 70B on one L40S: every objective's outlook is unknown."""
    plan = planned(model={"id": "meta-llama/Llama-3.1-70B"})
    assert plan.memory.fits == "no"
    assert plan.levels == ()
    assert {row.expected for row in plan.outlook} == {"unknown"}
    assert plan.knee is None


@pytest.mark.parametrize(
    ("bound", "expected"),
    [(10.0, "misses"), (27.0, "near"), (200.0, "meets")],
)
def test_an_outlook_is_near_where_the_bound_lies_inside_the_range(bound: float, expected: str) -> None:
    """TPOT is predicted near 27 ms: 10 is below the range, 200 above."""
    (row,) = planned(
        objectives={"tpot_p95_ms": bound, "ttft_p95_ms": None, "e2e_p95_ms": None, "error_rate_max": None}
    ).outlook
    assert (row.name, row.expected) == ("tpot_p95_ms", expected)
    assert row.predicted is not None
    assert row.low is not None
    assert row.high is not None
    assert row.low < row.predicted < row.high


def test_objectives_with_a_lower_bound_are_read_the_other_way() -> None:
    """At least 1 token/s is met, at least a million is missed."""
    for bound, expected in ((1.0, "meets"), (1e6, "misses")):
        rows = {row.name: row for row in planned(objectives={"output_tokens_per_s_min": bound}).outlook}
        assert rows["output_tokens_per_s_min"].expected == expected
        assert rows["output_tokens_per_s_min"].comparison == ">="


def test_refused_requests_miss_the_error_objective() -> None:
    """128 in flight on a server that admits 64: half are refused, and the bound is 1%."""
    plan = planned(objectives={"at_concurrency": 128})
    (row,) = [row for row in plan.outlook if row.name == "error_rate_max"]
    assert (row.predicted, row.expected) == (0.5, "misses")


@pytest.mark.parametrize(
    ("changes", "grade"),
    [
        # TGI's row was fitted under version 1 on A10G and A100; 3.3.6 is another version of it.
        ({"endpoint": {"instance_type": "ml.g5.2xlarge"}, "container": {"version": "1.1.0"}}, "A"),
        ({"endpoint": {"instance_type": "ml.g5.2xlarge"}}, "B"),
        ({"endpoint": {"instance_type": "ml.p4de.24xlarge"}}, "B"),  # A100-80: the same architecture
        ({"endpoint": {"instance_type": "ml.g6e.2xlarge"}}, "C"),
        ({"endpoint": {"instance_type": "ml.inf2.xlarge"}}, "D"),
    ],
)
def test_grades_say_what_was_calibrated(changes: dict[str, Any], grade: str) -> None:
    """A fitted, B its architecture or another version, C the datasheet, D never seen."""
    assert planned(**changes).grade == grade


TRACE = {"process": "trace", "trace": "day.csv"}


@pytest.mark.parametrize(
    ("changes", "unread"),
    [
        ({"workload": {"arrivals": TRACE}}, "trace"),
        ({"benchmark": {"phases": (TRACE,)}}, "trace"),
        ({"workload": {"dataset": "day.jsonl"}}, "dataset"),
    ],
)
def test_requests_of_a_file_that_is_not_read_cost_a_grade(changes: dict[str, Any], unread: str) -> None:
    """Their lengths may be any: a plan of 256 tokens is none of prompts of 6,000."""
    measured = {"endpoint": {"instance_type": "ml.g5.2xlarge"}, "container": {"version": "1.1.0"}}
    plan = planned(**measured, **changes)
    assert (planned(**measured).grade, plan.grade) == ("A", "B")
    assert plan.confidence.meaning.endswith(f"never with requests of a {unread}, which was not read")
    assert [note for note in plan.notes if note.startswith(f"the {unread} is not read: ")]


def test_worse_grades_have_wider_ranges() -> None:
    """A prediction nobody calibrated is not shown as narrow as one that was."""
    changes = [
        {"endpoint": {"instance_type": "ml.g5.2xlarge"}, "container": {"version": "1.1.0"}},
        {"endpoint": {"instance_type": "ml.g5.2xlarge"}},
        {"endpoint": {"instance_type": "ml.g6e.2xlarge"}},
        {"endpoint": {"instance_type": "ml.inf2.xlarge"}},
    ]
    bands = [confidence_of(planned(**change).deployment).band for change in changes]
    assert bands == sorted(set(bands))


def test_a_bedrock_profile_has_nothing_to_plan() -> None:
    """Bedrock shows no machines."""
    data = load_profile(DEV).model_dump() | {"backend": "bedrock", "container": None, "endpoint": None}
    with pytest.raises(InputError, match="nothing to plan"):
        make_plan(Profile.model_validate(data))


FEW = ("--instances", "ml.g5.2xlarge,ml.g6e.2xlarge")  # what is asked here hangs on no other machine


def run_plan(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """In this process: that the verb starts in one of its own, the test of an ASCII terminal sees."""
    out, errors, command = io.StringIO(), io.StringIO(), ["plan", *FEW, *arguments]
    with pytest.MonkeyPatch.context() as patch, chdir(cwd), redirect_stdout(out), redirect_stderr(errors):
        patch.setenv("COLUMNS", "120")
        code = main.run(command)
    return subprocess.CompletedProcess(command, code, out.getvalue(), errors.getvalue())


def test_the_verb_prints_a_labelled_prediction_from_any_directory(tmp_path: Path) -> None:
    """Title, memory, curve, knee, cost, outlook and grade, and the word that says it was not measured."""
    result = run_plan(str(DEV), cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    for words in (
        "predicted",
        "fits: yes",
        "TTFT",
        "Knees",
        "$2,046 at the expected",
        "ttft_p95_ms",
        "meets",
        "grade C",
    ):
        assert words in result.stdout


def test_the_verb_survives_a_terminal_without_unicode(tmp_path: Path) -> None:
    """An ASCII terminal gets question marks in the bar, never a traceback."""
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    code = "from loadproof.cli.main import main; main()"
    result = run_process([sys.executable, "-c", code, "plan", *FEW, str(DEV)], cwd=tmp_path, env=environment)
    assert (result.returncode, result.stderr) == (0, "")


def test_json_carries_every_level_with_its_range(tmp_path: Path) -> None:
    """One document; low ≤ predicted ≤ high for every figure."""
    result = run_plan(str(DEV), "--format", "json", cwd=tmp_path)
    document = json.loads(result.stdout)
    assert document["predicted"] is True
    assert [level["concurrency"] for level in document["levels"]] == [1, 2, 4, 8]
    for level in document["levels"]:
        for name, bounds in level["ranges"].items():
            assert bounds["low"] <= level[name] <= bounds["high"]


def test_a_profile_that_does_not_fit_exits_1_and_says_by_how_much(tmp_path: Path) -> None:
    """Llama 3.1 8B's weights fit an A10G, but 50,000 tokens of KV cache need 6.1 GiB, and 4.3 are left."""
    profile = tmp_path / "long.yaml"
    text = DEV.read_text(encoding="utf-8").replace("ml.g6e.2xlarge", "ml.g5.2xlarge")
    profile.write_text(text.replace("max_total_tokens: 5120", "max_total_tokens: 50000"), encoding="utf-8")
    result = run_plan(str(profile), cwd=tmp_path)
    assert result.returncode == 1
    assert "DOES NOT FIT" in result.stdout
    assert re.search(r"predicted to be 1\.\d+\s+GiB short on each\s+A10G", result.stdout)


def test_a_bad_profile_exits_2_with_its_place(tmp_path: Path) -> None:
    """The loader's own message, no traceback."""
    profile = tmp_path / "bad.yaml"
    profile.write_text("name: x\nmodle: {}\n", encoding="utf-8")
    result = run_plan(str(profile), cwd=tmp_path)
    assert result.returncode == 2
    assert "bad.yaml:2:1" in result.stderr
    assert "Traceback" not in result.stderr
