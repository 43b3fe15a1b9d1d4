"""Result files of other tools become levels with our units and our meaning of each figure.

llmeter's sample is a real run against a fake server on loopback. The others are made by hand after the real layouts of
the versions in their names; their figures are invented.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from bench_summaries import whole
from hypothesis import given
from hypothesis import strategies as st

from loadproof.bench.imports import MeasuredLevel, read_measured
from loadproof.bench.imports.levels import day, number
from loadproof.bench.measure.statistics import Spread
from loadproof.errors import InputError

HERE = Path(__file__).parent


def only(path: Path) -> MeasuredLevel:
    (level,) = read_measured(path)
    return level


def test_aiperf_calls_our_tpot_inter_token_latency() -> None:
    """The profiling phase's concurrency counts, not the warm-up's; requests are good ones plus errors."""
    level = only(HERE / "aiperf_0_13.json")
    assert (level.concurrency, level.requests, level.errors) == (8, 66, 2)
    assert (level.input_tokens, level.output_tokens, level.model) == (256.0, 64.0, "example/llama")
    assert level.tpot_ms == Spread(p50=20.1, p99=21.0, mean=20.0)
    assert level.itl_ms == Spread()
    assert (level.ttft_ms.p95, level.e2e_ms.mean, level.output_tokens_per_s) == (58.0, 1310.0, 390.4)
    assert level.date == "2026-11-20"


def test_aiperf_before_phases_keeps_its_concurrency_under_loadgen(tmp_path: Path) -> None:
    """Older exports: `input_config.loadgen.concurrency`."""
    document = json.loads((HERE / "aiperf_0_13.json").read_text())
    document["input_config"] = {"loadgen": {"concurrency": 16}}
    (tmp_path / "profile_export_aiperf.json").write_text(json.dumps(document))
    assert only(tmp_path).concurrency == 16


def test_guidellm_counts_the_first_token_in_its_tpot_and_not_in_its_itl() -> None:
    """Ours is the one without the first token: 20.0, not 22.8; request latency is in seconds there."""
    level, _ = read_measured(HERE / "guidellm_0_8.json")
    assert (level.concurrency, level.requests, level.errors) == (4, 35, 3)
    assert level.tpot_ms.mean == 20.0
    assert level.e2e_ms.mean == pytest.approx(1310.0)
    assert level.e2e_ms.p99 == pytest.approx(1390.0)
    assert (level.ttft_ms.p90, level.output_tokens_per_s) == (55.0, 192.0)


def test_guidellm_zeros_of_an_empty_sample_are_no_data() -> None:
    """Five errors and no success: no latency and no throughput, and a Poisson load has no concurrency."""
    _, level = read_measured(HERE / "guidellm_0_8.json")
    assert (level.errors, level.concurrency) == (5, None)
    assert (level.output_tokens_per_s, level.ttft_ms, level.e2e_ms) == (None, Spread(), Spread())


def test_vllm_bench_tokens_are_those_of_one_request() -> None:
    """16,384 prompt tokens of 64 completed requests are 256 each; percentiles nobody asked for are None."""
    level = only(HERE / "vllm_bench_0_32.json")
    assert (level.input_tokens, level.output_tokens, level.concurrency) == (256.0, 64.0, 8)
    assert (level.requests, level.errors) == (66, 2)
    assert level.ttft_ms == Spread(p50=49.0, p99=61.0, mean=50.0)
    assert level.e2e_ms == Spread()
    assert (level.itl_ms.p99, level.date) == (25.0, "2026-11-20")


def test_llmeter_seconds_become_milliseconds() -> None:
    """768 tokens of 24 requests in 8.5436 s are 89.89 and 2.809 a second; TPOT is (1,340.0 - 206.1) / 31 ms."""
    level = only(HERE / "llmeter_0_2.json")
    assert level.output_tokens_per_s == pytest.approx(89.892, abs=0.001)
    assert level.requests_per_s == pytest.approx(2.809, abs=0.001)
    assert (level.ttft_ms.mean, level.e2e_ms.p90) == (pytest.approx(206.12, abs=0.01), pytest.approx(3424.57, abs=0.01))
    assert (level.concurrency, level.tpot_ms.mean) == (4, pytest.approx(36.576, abs=0.001))


def test_an_llmeter_folder_is_read_by_its_stats(tmp_path: Path) -> None:
    """Its summary.json, beside it, holds no figures."""
    shutil.copy(HERE / "llmeter_0_2.json", tmp_path / "stats.json")
    (tmp_path / "summary.json").write_text('{"clients": 8}')
    assert only(tmp_path).concurrency == 4


def test_fmbench_rounds_of_a_level_are_averaged() -> None:
    """Two rounds at 2: (90 + 110) / 2 = 100 tokens/s, (1.40 + 1.20) / 2 = 1,300 ms. `g5.xlarge` is SageMaker's."""
    two, one = read_measured(HERE / "fmbench_2_0.csv")
    assert (two.concurrency, two.requests, two.output_tokens_per_s) == (2, 4, 100.0)
    assert two.e2e_ms.mean == pytest.approx(1300.0)
    assert two.ttft_ms.mean == pytest.approx(90.0)
    assert (two.model, two.tp_degree) == ("example/llama", 1)
    assert (one.instance_type, one.model) == ("ml.g5.xlarge", None)


def test_our_own_run_counts_in_full_swing(tmp_path: Path) -> None:
    """100 tokens/s with 7.5 of 8 in flight on average are 106.7 in full swing; an invalid level is left out."""
    level = {
        "concurrency": 8, "requests": 32, "errors": 1, "output_tokens_per_s": 100.0, "requests_per_s": 2.0,
        "input_tokens_per_s": 500.0, "input_token_source": "server", "mean_in_flight": 7.5, "valid": True,
        "ttft_ms": {"p50": 40.0, "mean": 41.0}, "tpot_ms": {}, "itl_ms": {}, "e2e_ms": {"mean": 3750.0},
    }  # fmt: skip
    document = {"created_utc": "2026-11-21T10:15:00Z", "workload": {"input_tokens": 9}}
    (tmp_path / "summary.json").write_text(json.dumps(whole(document | {"levels": [level, level | {"valid": False}]})))
    found = only(tmp_path)
    assert found.output_tokens_per_s == pytest.approx(106.667, abs=0.001)
    assert not found.simulated
    local = document | {"levels": [level], "conditions": {"backend": "twin"}}
    (tmp_path / "summary.json").write_text(json.dumps(whole(local)))
    assert only(tmp_path).simulated
    assert (found.input_tokens, found.output_tokens) == (250.0, 50.0)
    assert (found.ttft_ms.mean, found.tpot_ms, found.date) == (41.0, Spread(), "2026-11-21")


def test_a_level_that_its_client_had_a_part_in_is_left_out(tmp_path: Path) -> None:
    """5 of 100 ms to the first token may be the client's; of a whole request 51 of 1,000 ms may not."""
    level = {"concurrency": 8, "requests": 32, "ttft_ms": {"mean": 100.0}, "e2e_ms": {"mean": 1000.0}}
    levels = [
        level | {"concurrency": slots, "client_share": {"ttft_ms": {"mean": 5.0}, "e2e_ms": {"mean": share}}}
        for slots, share in ((8, 50.0), (16, 51.0))
    ]
    (tmp_path / "summary.json").write_text(json.dumps(whole({"levels": levels})))
    assert only(tmp_path).concurrency == 8


def test_of_our_own_run_that_queued_the_steady_part_counts(tmp_path: Path) -> None:
    """Room for 16 of 32, three rounds of 1 s each at 960 tokens/s: 16 of 96 requests find no queue, so the mean E2E is
    1.833 s and 29.33 are in flight. Steady are 2 s and 960 tokens/s, not 960 · 32 / 29.33 = 1,047."""
    level = {
        "concurrency": 32, "requests": 96, "output_tokens_per_s": 960.0, "requests_per_s": 16.0,
        "mean_in_flight": 29.3333, "ttft_ms": {"mean": 1033.0}, "e2e_ms": {"mean": 1833.3},
        "steady_state": {"reached": True, "ttft_ms": {"mean": 1200.0}, "e2e_ms": {"mean": 2000.0}},
    }  # fmt: skip
    drifting = level | {"steady_state": level["steady_state"] | {"reached": False}}  # type: ignore[operator]
    (tmp_path / "summary.json").write_text(json.dumps(whole({"levels": [level, drifting]})))
    steady, unsteady = read_measured(tmp_path)
    assert steady.output_tokens_per_s == pytest.approx(960.0, rel=1e-4)
    assert (steady.ttft_ms.mean, steady.e2e_ms.mean) == (1200.0, 2000.0)
    assert unsteady.output_tokens_per_s == pytest.approx(1047.3, rel=1e-4)
    assert (unsteady.ttft_ms.mean, unsteady.e2e_ms.mean) == (1033.0, 1833.3)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("256,64,1.5,50", "concurrency: expected a whole number, found `1.5`"),
        ("256,64,2,-50", "measured_ttft_ms: expected a number above 0, found `-50`"),
    ],
)
def test_a_row_of_our_own_table_that_cannot_be_is_said(tmp_path: Path, row: str, says: str) -> None:
    """Half a request in flight and an answer before the question are mistakes, with their line."""
    (tmp_path / "rows.csv").write_text(f"input_tokens,output_tokens,concurrency,measured_ttft_ms\n{row}\n")
    with pytest.raises(InputError, match=f"rows.csv:2: {says}"):
        read_measured(tmp_path / "rows.csv")


def test_our_own_table_gives_latency_of_whole_requests(tmp_path: Path) -> None:
    """25 ms a token over 64 tokens are 1,600 ms; a row without a measured figure is no level."""
    table = tmp_path / "rows.csv"
    table.write_text(
        "model,input_tokens,output_tokens,concurrency,measured_throughput_tok_s,measured_latency_mean_ms_per_token\n"
        "example/llama,256,64,4,150,25\nexample/llama,256,64,8,,\n"
    )
    level = only(table)
    assert (level.e2e_ms.mean, level.output_tokens_per_s, level.model) == (1600.0, 150.0, "example/llama")
    table.write_text("input_tokens,output_tokens,concurrency,measured_ttft_ms\n256,64,4,50\n256,64,many,50\n")
    with pytest.raises(InputError, match=r"rows\.csv:3: concurrency: expected a number of at least 1, found `many`"):
        read_measured(table)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", '{"hello": 1}', "JSON of no known kind (hello); expected a run folder"),
        ("a.json", '{"hello": ', "a.json:1: not readable as JSON"),
        ("a.json", "[1, 2]", "JSON of no known kind (a list)"),
        ("a.json", '{"a": ' + "9" * 5000 + "}", "a.json: not readable as JSON"),
        ("a.json", '{"run_id": "x", "verdict": {}, "levels": 3}', "JSON of no known kind (levels, run_id, verdict)"),
        ("a.csv", "time,value\n1,2\n", "a.csv:1: CSV of no known kind (time, value); expected"),
        ("a.csv", "", "CSV of no known kind (empty)"),
        ("a.csv", "input_tokens,output_tokens,concurrency,measured_ttft_ms\n", "holds no measured level"),
    ],
)
def test_a_file_that_is_none_of_these_says_what_was_expected(
    tmp_path: Path, name: str, content: str, says: str
) -> None:
    """Place, what was found, what would do."""
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as caught:
        read_measured(tmp_path / name)
    assert says in str(caught.value)


def test_a_missing_file_and_an_empty_folder_are_said(tmp_path: Path) -> None:
    """Neither is a traceback."""
    with pytest.raises(InputError, match="cannot be read"):
        read_measured(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match=r"none of stats\.json, summary\.json"):
        read_measured(tmp_path)


@given(st.one_of(st.none(), st.booleans(), st.text(max_size=8), st.floats(), st.integers(), st.lists(st.none())))
def test_whatever_stands_in_a_cell_is_a_finite_number_or_none(value: object) -> None:
    """NaN, infinity, truth values and words are no figures."""
    found = number(value)
    assert found is None or abs(found) < float("inf")
    assert number(True) is None


def test_days_of_both_notations() -> None:
    """ISO and vLLM's; anything else is None."""
    assert day("2026-11-21T10:15:00Z") == day("20261121-101500") == "2026-11-21"
    assert day("yesterday") is day(None) is day("2026-1") is None
