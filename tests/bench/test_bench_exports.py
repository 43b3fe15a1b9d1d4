"""JUnit, CSV and markdown of a run: by the schema, by the numbers, and safe with hostile text."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench_summaries import a_summary
from hypothesis import given
from hypothesis import strategies as st
from test_bench_regression import compare, latencies, run_of

from loadproof.bench.compare.regression import Comparison
from loadproof.bench.document import Summary, read_summary
from loadproof.bench.judge.verdict import Verdict
from loadproof.bench.judging import judge_run
from loadproof.bench.objectives import Objective
from loadproof.bench.output.exports import to_csv, to_junit
from loadproof.bench.output.markdown import to_markdown
from loadproof.bench.search.find_max import Bracket
from loadproof.bench.search.levels import SearchResult
from loadproof.bench.search.probes import Stop

# The Ant JUnit schema (windyroad's JUnit.xsd, "JUnit test result schema for the Apache Ant JUnit and JUnitReport
# tasks"): of each element its attributes (True: required) and its children in order with their least and most number.
MANY = 10**6
SCHEMA: dict[str, tuple[dict[str, bool], list[tuple[str, int, int]]]] = {
    "testsuites": ({}, [("testsuite", 0, MANY)]),
    "testsuite": (
        {
            "name": True, "timestamp": True, "hostname": True, "tests": True, "failures": True, "errors": True,
            "skipped": False, "time": True, "package": True, "id": True,
        },
        [("properties", 1, 1), ("testcase", 0, MANY), ("system-out", 1, 1), ("system-err", 1, 1)],
    ),
    "properties": ({}, [("property", 0, MANY)]),
    "property": ({"name": True, "value": True}, []),
    "testcase": (
        {"name": True, "classname": True, "time": True},
        [("skipped", 0, 1), ("error", 0, 1), ("failure", 0, 1)],
    ),
    "failure": ({"message": False, "type": True}, []),
    "error": ({"message": False, "type": True}, []),
    "skipped": ({"message": False}, []),
    "system-out": ({}, []),
    "system-err": ({}, []),
}  # fmt: skip
TYPES = {
    "tests": r"\d+", "failures": r"\d+", "errors": r"\d+", "id": r"\d+", "time": r"\d+\.\d+", "name": r"\s*\S.*",
    "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "hostname": r"\S+",
}  # fmt: skip


def check_junit(element: ElementTree.Element) -> None:
    """Every rule of the schema for this element and all below it."""
    attributes, children = SCHEMA[element.tag]
    assert {name for name, required in attributes.items() if required} <= set(element.attrib) <= set(attributes)
    for name, value in element.attrib.items():
        assert name not in TYPES or re.fullmatch(TYPES[name], value, re.DOTALL), (element.tag, name, value)
    order = [name for name, _, _ in children]
    tags = [child.tag for child in element]
    assert tags == sorted(tags, key=order.index)
    for name, least, most in children:
        assert least <= tags.count(name) <= most
    for child in element:
        check_junit(child)
    if element.tag == "testsuite":
        cases = element.findall("testcase")
        assert int(element.attrib["tests"]) == len(cases)
        assert int(element.attrib["failures"]) == sum(case.find("failure") is not None for case in cases)
        assert int(element.attrib["errors"]) == sum(case.find("error") is not None for case in cases)


def parsed(text: str) -> ElementTree.Element:
    root = ElementTree.fromstring(text)
    check_junit(root)
    return root


def judged(folder: Path, ttfts: list[float], **options: Any) -> Summary:
    run_of(folder, ttfts, **options)
    judge_run(folder)
    return read_summary(folder)


@pytest.fixture(scope="module")
def missed(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """400 requests, 3 of them failed, under two bounds of which one is missed."""
    bounds = (Objective("ttft_p95_ms", 50.0), Objective("error_rate_max", 0.5))
    return judged(tmp_path_factory.mktemp("runs") / "run", latencies(1), failed=3, objectives=bounds)


def test_junit_has_a_test_for_the_verdict_and_each_objective(missed: Summary) -> None:
    """Two of three fail, with what was observed in the message; the third passed."""
    root = parsed(to_junit(missed))
    cases = root.findall("testsuite/testcase")
    assert [case.attrib["name"] for case in cases] == [
        "verdict", "ttft_p95_ms <= 50 at 4 in flight", "error_rate_max <= 0.5 at 4 in flight",
    ]  # fmt: skip
    failures = [case.find("failure") for case in cases]
    assert [failure is not None for failure in failures] == [True, True, False]
    assert failures[1] is not None and failures[1].attrib["type"] == "FAIL"
    assert failures[1].attrib["message"].startswith("ttft_p95_ms: observed ")


def test_what_was_not_shown_fails_and_what_was_not_measured_is_an_error(tmp_path: Path) -> None:
    """Eight requests settle no p95: a failure of type INCONCLUSIVE; a slow client makes an error of type INVALID."""
    summary = judged(tmp_path / "few", latencies(1, size=8))
    assert [one.attrib["type"] for one in parsed(to_junit(summary)).iter("failure")] == ["INCONCLUSIVE"] * 2
    invalid = replace(summary, verdict=replace(summary.verdict, outcome="INVALID"))
    assert [one.attrib["type"] for one in parsed(to_junit(invalid)).iter("error")] == ["INVALID"]
    nothing = replace(summary, verdict=replace(summary.verdict, outcome="NOT JUDGED", reasons=("no objectives",)))
    assert [one.attrib["message"] for one in parsed(to_junit(nothing)).iter("skipped")] == ["no objectives"]


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    runs = tmp_path_factory.mktemp("runs")
    return compare(run_of(runs / "before", latencies(1)), run_of(runs / "after", latencies(2, 3.0)))


def test_a_regression_is_a_suite_of_its_own(missed: Summary, regression: Comparison) -> None:
    """Of what decides, the p95 is worse and the share of failed requests is not."""
    suites = parsed(to_junit(missed, regression)).findall("testsuite")
    assert suites[1].attrib["name"].endswith("against before")
    assert {case.attrib["name"]: case.find("failure") is not None for case in suites[1].findall("testcase")} == {
        "ttft_p95_ms at 4 in flight": True,
        "error_rate_max at 4 in flight": False,
    }


def test_csv_has_a_row_a_level_and_empty_cells_for_no_data(missed: Summary) -> None:
    """The figures are summary.json's own; without a price there is no cost, and no 0 either."""
    [row] = csv.DictReader(io.StringIO(to_csv(missed)))
    [level] = missed.levels
    assert (row["load"], row["judged"], row["requests"], row["errors"]) == ("4 in flight", "True", "400", "3")
    assert float(row["ttft_p95_ms"]) == level.ttft_ms.p95
    assert float(row["queue_p50_ms"]) == level.phases.queue_ms.p50
    assert float(row["output_tokens_per_s"]) == level.output_tokens_per_s
    assert row["cost_per_million_output_tokens_usd"] == "" == row["cost_per_thousand_requests_usd"]


def test_markdown_says_the_verdict_first(missed: Summary, regression: Comparison) -> None:
    """Heading, objectives, what changed, levels; every table has as many cells a row as columns."""
    text = to_markdown(missed, regression)
    assert text.startswith("## ❌ FAIL: http://localhost:1/v1/completions\n")
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings[1:] == ["### Objectives at 4 in flight", "### ❌ REGRESSION against before", "### Levels"]
    for table in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1


def test_markdown_begins_with_the_brief(missed: Summary) -> None:
    """Cost a month, how sure, what next, above the first table; a command stays one to copy."""
    text = to_markdown(missed).partition("### ")[0]
    assert [line.partition("**:")[0] for line in text.splitlines() if line.startswith("- **")] == [
        "- **Cost a month",
        "- **How sure",
        "- **Next",
    ]
    assert "`loadproof plan " in text
    dear = replace(missed, conditions=replace(missed.conditions, usd_per_hour=2.0))
    assert "- **Cost a month**: \\$1,460 for the instances" in to_markdown(dear)


@given(st.text(st.characters(codec=None), max_size=40))
def test_no_text_breaks_out(hostile: str) -> None:
    """Whatever an endpoint answers or is called: the XML parses and keeps the schema, a markdown table its columns."""
    plain = a_summary()
    target, verdict = replace(plain.target, endpoint=hostile), Verdict("FAIL", 1, reasons=(hostile,))
    summary = replace(plain, run_id=hostile, target=target, verdict=verdict)
    parsed(to_junit(summary))
    text = to_markdown(summary)
    assert "<script" not in text and text.count("\n## ") == 0


def test_times_are_those_of_the_load(missed: Summary) -> None:
    """The run's seconds for the verdict, the judged level's for what is judged there; of one level the same."""
    seconds = f"{missed.levels[0].duration_s:.3f}"
    assert float(seconds) > 0
    assert {case.attrib["time"] for case in parsed(to_junit(missed)).iter("testcase")} == {seconds}


def test_a_search_and_the_length_of_answers_are_in_every_export(missed: Summary) -> None:
    """What was found and between what; how many tokens came of how many asked for."""
    bracket, stop = Bracket(20.0, 24.0, (True,), (False,)), Stop("converged", "they hold at 20 and are missed at 24")
    search = SearchResult("find_max", "in flight", 20.0, bracket, 1, 0.05, 5, None, stop, ())
    level = replace(missed.levels[0], asked_output_tokens=64.0, answered_output_tokens=2.0, wrong_counts=3)
    summary = replace(missed, search=search, levels=(level,))
    parsed_line = "Highest load that meets the objectives: 20 in flight"
    assert parsed_line in to_junit(summary) and parsed_line in to_markdown(summary)
    assert "2 of 64 asked for" in to_markdown(summary)
    [row] = csv.DictReader(io.StringIO(to_csv(summary)))
    assert (row["asked_output_tokens"], row["answered_output_tokens"], row["wrong_counts"]) == ("64.0", "2.0", "3")
