"""Histograms merge to what one would have been, and their percentiles keep the error they state."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
import pytest
from bench_records import record
from hypothesis import given
from hypothesis import strategies as st

from loadproof.bench.measure.histogram import GROWTH, RELATIVE_ERROR, Histogram, histogram_of, merged
from loadproof.bench.measure.records import RecordFile
from loadproof.bench.plan import RunPlan
from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens
from loadproof.bench.summary import build_summary

VALUES = st.lists(st.floats(0, 1e7, allow_subnormal=False).map(lambda value: round(value, 6)), min_size=1, max_size=60)


def test_the_error_is_a_quarter_of_a_percent() -> None:
    """√1.005 − 1 = 0.0024969."""
    assert pytest.approx(0.0024969, abs=1e-7) == RELATIVE_ERROR


@given(VALUES, st.sampled_from([50.0, 90.0, 95.0, 99.0, 99.9]))
def test_percentiles_keep_the_stated_error(values: list[float], rank_percent: float) -> None:
    """Against the value at nearest rank of the sorted sample, from microseconds to hours."""
    exact = sorted(values)[max(1, ceil(rank_percent / 100 * len(values) - 1e-9)) - 1]
    found = histogram_of(np.asarray(values)).percentile(rank_percent)
    assert found is not None and abs(found - exact) <= (RELATIVE_ERROR + 1e-9) * exact


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_merging_parts_is_counting_the_whole(parts: list[list[float]]) -> None:
    """However values are spread over machines, the merged histogram is that of all of them."""
    whole = histogram_of(np.concatenate([np.asarray(part) for part in parts]))
    one_by_one = Histogram()
    for part in parts:
        one_by_one = merged([one_by_one, histogram_of(np.asarray(part))])
    assert merged(histogram_of(np.asarray(part)) for part in parts) == one_by_one == whole
    assert whole.count == sum(map(len, parts))


@given(VALUES)
def test_json_and_back(values: list[float]) -> None:
    """What is stored is what was counted."""
    found = histogram_of(np.asarray(values))
    assert Histogram.from_row(found.to_row()) == found


def test_no_values_have_no_percentile() -> None:
    """None, never 0; and buckets of another width are refused."""
    assert Histogram().percentile(50) is None and merged([]) == Histogram() == histogram_of(np.empty(0))
    with pytest.raises(ValueError, match=f"not by {GROWTH}"):
        Histogram.from_row(replace(Histogram().to_row(), growth=1.01))


def test_the_summarys_levels_carry_theirs() -> None:
    """Two gaps of 10 and one of 40 ms: three values, within the stated error, without reading any request."""
    spec = BenchmarkSpec(
        target=Target("openai", "http://localhost:1/v1/completions", "openai"),
        workload=WorkloadSpec(fixed_tokens(10), fixed_tokens(4)),
        concurrency=(1,),
        requests_per_level=1,
    )
    plan = RunPlan("run", "2026-11-21T10:00:00Z", 0, spec, {"loadproof": "0"}, ("2026-11-21T10:00:00Z",))
    [level] = build_summary(plan, RecordFile((record(token_ms=(5, 15, 25, 65), end_ms=65),), 0)).levels
    gaps = Histogram.from_row(level.histograms["itl_ms"])
    assert (gaps.count, gaps.smallest, gaps.largest) == (3, 10, 40)
    assert gaps.percentile(50) == pytest.approx(10, rel=RELATIVE_ERROR)
