"""Metrics in what functions print."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from loadproof.localcloud.queue.emf import Datum, metrics_of


def line(**changes: object) -> str:
    directive = {
        "Namespace": "Shop",
        "Dimensions": [["Endpoint"], ["Endpoint", "Kind"]],
        "Metrics": [{"Name": "Stored", "Unit": "Count"}],
    }
    document = {
        "_aws": {"Timestamp": 1_790_000_000_000, "CloudWatchMetrics": [directive]},
        "Endpoint": "chat",
        "Kind": "fast",
        "Stored": 3,
    }
    return json.dumps(document | changes)


def test_a_value_counts_for_every_set_of_dimensions() -> None:
    """One metric, two sets of dimensions: two data."""
    at_ms = 1_790_000_000_000
    assert metrics_of(line()) == [
        Datum("Shop", "Stored", 3.0, {"Endpoint": "chat"}, "Count", at_ms),
        Datum("Shop", "Stored", 3.0, {"Endpoint": "chat", "Kind": "fast"}, "Count", at_ms),
    ]


def test_a_list_holds_many_values() -> None:
    assert [datum.value for datum in metrics_of(line(Stored=[1, 2.5]))] == [1.0, 2.5, 1.0, 2.5]


def test_other_lines_are_no_metrics() -> None:
    """Text, other JSON, a document that lacks its value or whose value is text."""
    without = json.loads(line())
    del without["Stored"]
    for text in ("hello", "{}", "[1]", "null", json.dumps(without), line(Stored="many"), line(_aws=7)):
        assert metrics_of(text) == [], text


@given(st.recursive(st.none() | st.text() | st.integers(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)))
def test_no_line_breaks_the_reader(content: object) -> None:
    """Whatever a function prints, within the format or not."""
    metrics_of(json.dumps({"_aws": {"Timestamp": 1, "CloudWatchMetrics": content}, "a": content}))
    metrics_of(json.dumps(content))
