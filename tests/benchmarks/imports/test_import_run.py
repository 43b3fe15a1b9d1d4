"""Other programs' results as runs: judged by what their files hold, and by nothing they do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.imports.levels import MeasuredLevel
from benchmarks.imports.run import judge_figures
from benchmarks.objectives import Objective
from benchmarks.statistics import Spread
from loadproof.cli.main import run as loadproof

HERE = Path(__file__).parent


def aiperf_folder(folder: Path, *, errors: int = 0) -> Path:
    """A folder of AIPerf's: its summary, and a line for each of 40 requests of 8 tokens, one begun every 10 ms.

    Request n takes 100 + n ms, its first token 20 + n ms; after the good ones come the failed.
    """
    folder.mkdir()
    summary = json.loads((HERE / "aiperf_0_13.json").read_text())
    (folder / "profile_export_aiperf.json").write_text(json.dumps(summary))
    start_ns = 1_700_000_000_000_000_000
    rows = [row(start_ns - 10**9, 500.0, 300.0, phase="warmup")]
    rows += [row(start_ns + n * 10_000_000, 100.0 + n, 20.0 + n) for n in range(40)]
    rows += [row(start_ns + 10**9, None, None, error="424 from the model") for _ in range(errors)]
    (folder / "profile_export.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows) + '{"metadata": {"req')
    return folder


def row(
    start_ns: int, latency_ms: float | None, ttft_ms: float | None, phase: str = "profiling", error: str | None = None
):
    metrics = {} if latency_ms is None else {
        "request_latency": {"value": latency_ms, "unit": "ms"},
        "time_to_first_token": {"value": ttft_ms, "unit": "ms"},
        "input_sequence_length": {"value": 16, "unit": "tokens"},
        "output_sequence_length": {"value": 8, "unit": "tokens"},
    }  # fmt: skip
    end_ns = start_ns + round((latency_ms or 5.0) * 1e6)
    metadata = {
        "benchmark_phase": phase,
        "request_start_ns": start_ns,
        "request_end_ns": end_ns,
        "was_cancelled": False,
    }
    return {"metadata": metadata, "metrics": metrics, "error": {"message": error, "type": "HTTP"} if error else None}


def summary_of(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


def test_requests_of_aiperf_are_judged_as_our_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Warm-up and the torn line count in nothing; the middle of 20..59 ms is 39.5 ms, of 100..139 ms 119.5 ms."""
    source, run = aiperf_folder(tmp_path / "source"), tmp_path / "run"
    code = loadproof(["import", str(source), "--as", str(run), "--objective", "e2e_p50_ms=200"])
    assert code == 0, capsys.readouterr()
    (level,) = summary_of(run)["levels"]
    assert (level["concurrency"], level["requests"], level["errors"]) == (8, 40, 0)
    assert level["ttft_ms"]["p50"] == 39.5
    assert level["e2e_ms"]["p50"] == 119.5
    assert level["tpot_ms"]["max"] == pytest.approx(80 / 7)  # (E2E - TTFT) / (8 - 1)
    assert level["itl_ms"]["p50"] is None, "gaps are not in the file"
    assert level["duration_s"] == pytest.approx(0.39 + 0.139)
    assert (level["lag_ms"]["p99"], level["loop_lag_ms"]["p99"], level["valid"]) == (None, None, True), "not measured"
    assert summary_of(run)["conditions"]["imported"]["files"] == ["profile_export_aiperf.json"]
    assert (run / "report.html").stat().st_size > 10_000
    assert loadproof(["verify", str(run)]) == 0


def test_imported_runs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two imports of the same requests: no regression, by their single requests."""
    for name in ("before", "after"):
        aiperf_folder(tmp_path / f"source-{name}")
        loadproof(["import", str(tmp_path / f"source-{name}"), "--as", str(tmp_path / name)])
    capsys.readouterr()
    code = loadproof(["report", str(tmp_path / "after"), "--against", str(tmp_path / "before")])
    said = capsys.readouterr().out
    assert code == 0, said
    assert "REGRESSION" not in said


def test_failed_requests_of_aiperf_fail_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It counts them apart; here three of 43 are enough."""
    run = tmp_path / "run"
    assert loadproof(["import", str(aiperf_folder(tmp_path / "source", errors=3)), "--as", str(run)]) == 1
    (level,) = summary_of(run)["levels"]
    assert (level["requests"], level["errors"]) == (43, 3)
    assert level["error_examples"] == {"model_error": "424 from the model"}


def test_requests_of_vllm_bench_have_every_gap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --save-detailed: TTFT 100 ms and gaps of 20 and 40 ms make 160 ms; two begun half a second apart."""
    document = json.loads((HERE / "vllm_bench_0_32.json").read_text()) | {
        "start_times": [50.0, 50.5], "ttfts": [0.1, 0.1], "itls": [[0.02, 0.04], [0.02, 0.04]],
        "input_lens": [16, 16], "output_lens": [3, 3], "errors": ["", ""], "completed": 2, "failed": 0,
    }  # fmt: skip
    (tmp_path / "result.json").write_text(json.dumps(document))
    assert loadproof(["import", str(tmp_path / "result.json"), "--as", str(tmp_path / "run")]) == 0, capsys.readouterr()
    (level,) = summary_of(tmp_path / "run")["levels"]
    assert level["e2e_ms"]["mean"] == pytest.approx(160)
    assert level["itl_ms"]["mean"] == pytest.approx(30)
    assert level["tpot_ms"]["mean"] == pytest.approx(30)
    assert level["duration_s"] == pytest.approx(0.66)


@pytest.mark.parametrize(
    "name", ["aiperf_0_13.json", "guidellm_0_8.json", "vllm_bench_0_32.json", "llmeter_0_2.json", "fmbench_2_0.csv"]
)
def test_figures_alone_make_a_run_with_a_report(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No requests are made up for them, and the report can be shown again."""
    run = tmp_path / "run"
    assert loadproof(["import", str(HERE / name), "--as", str(run), "--max-error-rate", "0.5"]) in (0, 1)
    assert not (run / "requests.jsonl").exists()
    summary = summary_of(run)
    assert summary["conditions"]["imported"]["files"] == [name]
    assert all(level["lag_ms"]["p99"] is None for level in summary["levels"]), "nobody measured it"
    assert loadproof(["report", str(run)]) in (0, 1)


def test_figures_of_several_loads_have_a_knee(tmp_path: Path) -> None:
    """From 4 to 8 clients 768 tokens take 8.5435 s, then 8 s: 7% more for twice the load is not worth it."""
    stats = json.loads((HERE / "llmeter_0_2.json").read_text())
    for clients, seconds in ((4, stats["total_test_time"]), (8, 8.0)):
        file = tmp_path / f"{clients}.json"
        file.write_text(json.dumps(stats | {"clients": clients, "total_test_time": seconds}))
    assert loadproof(["import", str(tmp_path / "4.json"), str(tmp_path / "8.json"), "--as", str(tmp_path / "run")]) == 0
    knee = summary_of(tmp_path / "run")["knee"]
    assert (knee["concurrency"], knee["reached"]) == (4, True)
    assert "+7%" in knee["reason"]


def level(requests: int | None = 200, **more: object) -> MeasuredLevel:
    ttft = Spread(p50=100.0, p90=150.0, p95=200.0, p99=300.0, max=400.0)
    return MeasuredLevel("file", 8, requests=requests, errors=0, ttft_ms=ttft, **more)


@pytest.mark.parametrize(
    ("bound", "verdict"),
    [(300.0, "PASS"), (299.0, "INCONCLUSIVE"), (201.0, "INCONCLUSIVE"), (150.0, "INCONCLUSIVE"), (149.0, "FAIL")],
)
def test_a_percentile_alone_is_judged_by_its_neighbours(bound: float, verdict: str) -> None:
    """Of 200 requests the p95 lies between the 183rd and the 196th smallest. The p99 is at rank 198 and the p90 at 180,
    so it is within 150 to 300 ms: binomial table, X ~ B(200, 0.95), 2.5% and 97.5% at 183 and 195."""
    found = judge_figures(Objective("ttft_p95_ms", bound), level())
    assert (found.observed, found.low, found.high) == (200.0, 150.0, 300.0)
    assert found.verdict == verdict


def test_what_the_file_does_not_bound_is_inconclusive() -> None:
    """Too few requests for an upper end, an unknown number of them, a metric or a level that is not there, a rate."""
    p95 = Objective("ttft_p95_ms", 10_000.0)
    assert judge_figures(p95, level(requests=71)).verdict == "INCONCLUSIVE"
    assert judge_figures(p95, level(requests=None)).verdict == "INCONCLUSIVE"
    assert judge_figures(Objective("itl_p95_ms", 10_000.0), level()).verdict == "INCONCLUSIVE"
    assert judge_figures(p95, None).verdict == "INCONCLUSIVE"
    assert judge_figures(Objective("requests_per_s_min", 1.0), level(requests_per_s=5.0)).verdict == "INCONCLUSIVE"


def test_failed_requests_are_counted_not_estimated() -> None:
    """Their share is exact; without their number there is no share."""
    assert judge_figures(Objective("error_rate_max", 0.01), level()).verdict == "PASS"
    unknown = MeasuredLevel("file", 8, requests=10, errors=None)
    assert judge_figures(Objective("error_rate_max", 0.01), unknown).verdict == "INCONCLUSIVE"


def test_bad_sources_are_refused_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and no folder is left behind."""
    (tmp_path / "other.json").write_text("{}")
    assert loadproof(["import", str(tmp_path / "other.json"), "--as", str(tmp_path / "run")]) == 2
    assert loadproof(["import", str(tmp_path / "nothing.json"), "--as", str(tmp_path / "run")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
