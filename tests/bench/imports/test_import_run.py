"""Other programs' results as runs: judged by what their files hold, and by nothing they do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadproof.bench.imports.levels import MeasuredLevel
from loadproof.bench.imports.run import judge_figures
from loadproof.bench.measure.statistics import Spread
from loadproof.bench.objectives import Objective
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
    code = loadproof(["import", str(source), "--as", str(run), "--objective", "e2e_p50_ms=2000"])
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
    assert loadproof(["import", str(tmp_path / "result.json"), "--as", str(tmp_path / "run")]) == 4, capsys.readouterr()
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
    assert loadproof(["import", str(HERE / name), "--as", str(run), "--max-error-rate", "0.5"]) == 4
    assert not (run / "requests.jsonl").exists()
    summary = summary_of(run)
    assert summary["conditions"]["imported"]["files"] == [name]
    assert all(level["lag_ms"]["p99"] is None for level in summary["levels"]), "nobody measured it"
    assert loadproof(["report", str(run)]) == 4


def test_figures_of_several_loads_have_a_knee(tmp_path: Path) -> None:
    """From 4 to 8 clients 768 tokens take 8.5435 s, then 8 s: 7% more for twice the load is not worth it."""
    stats = json.loads((HERE / "llmeter_0_2.json").read_text())
    for clients, seconds in ((4, stats["total_test_time"]), (8, 8.0)):
        file = tmp_path / f"{clients}.json"
        file.write_text(json.dumps(stats | {"clients": clients, "total_test_time": seconds}))
    assert loadproof(["import", str(tmp_path / "4.json"), str(tmp_path / "8.json"), "--as", str(tmp_path / "run")]) == 4
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


def guidellm_file(path: Path, *, strategy: dict, late_s: float = 0.0, errored: int = 0) -> Path:
    """A level of 40 requests of 8 tokens as guidellm 0.8 writes them: one due every 10 ms, begun `late_s` later, first
    token 20 to 59 ms and end 80 ms more after that, in no order."""

    def row(place: int) -> dict:
        start_s, n = 1.7e9 + 0.01 * place + late_s, 17 * place % 40
        first_s, end_s = start_s + (20 + n) / 1e3, start_s + (100 + n) / 1e3
        timings = {"targeted_start": start_s - late_s, "request_start": start_s, "first_token_iteration": first_s}
        timings |= {"last_token_iteration": end_s, "token_iterations": 8, "request_end": end_s, "resolve_end": end_s}
        return {"info": {"timings": timings, "error": None}, "prompt_tokens": 16, "output_tokens": 8}

    failed = {
        "info": {"timings": {"request_start": 1.7e9, "request_end": 1.7e9 + 0.005}, "error": "424 from the model"}
    }
    level = {
        "type_": "generative_benchmark",
        "config": {"strategy": strategy},
        "requests": {"successful": [row(n) for n in range(40)], "errored": [failed] * errored, "incomplete": []},
        "metrics": {
            "request_totals": {"successful": 40, "errored": errored},
            "time_to_first_token_ms": {"successful": {"mean": 39.0, "count": 40}},
        },
    }
    path.write_text(json.dumps({"metadata": {"guidellm_version": "0.8.1"}, "benchmarks": [level]}))
    return path


def test_requests_of_guidellm_are_judged_as_our_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The middle of 20..59 ms is 39.5 ms, of 100..139 ms 119.5 ms; it is exact, so 40 requests pass a p90 (36 do)."""
    source, run = guidellm_file(tmp_path / "b.json", strategy={"type_": "concurrent", "streams": 8}), tmp_path / "run"
    code = loadproof(["import", str(source), "--as", str(run), "--objective", "e2e_p90_ms=200"])
    assert code == 0, capsys.readouterr()
    (level,) = summary_of(run)["levels"]
    assert (level["concurrency"], level["requests"], level["errors"]) == (8, 40, 0)
    assert level["ttft_ms"]["p50"] == pytest.approx(39.5, abs=1e-3) and level["e2e_ms"]["p50"] == pytest.approx(119.5)
    assert level["tpot_ms"]["max"] == pytest.approx(80 / 7, abs=1e-3)
    assert level["itl_ms"]["p50"] is None, "gaps are not in the file"
    assert level["duration_s"] == pytest.approx(0.39 + 0.1 + 0.023, abs=1e-6)
    assert loadproof(["verify", str(run)]) == 0


def test_guidellm_at_a_rate_counts_from_when_a_request_was_due(tmp_path: Path) -> None:
    """Each was begun 2 s late: its own latency hides that, the schedule does not. Streams have no schedule."""
    rate, streams = {"type_": "poisson", "rate": 8.0}, {"type_": "concurrent", "streams": 8}
    for name, strategy, first_ms in (("rate", rate, 2039.5), ("streams", streams, 39.5)):
        source = guidellm_file(tmp_path / f"{name}.json", strategy=strategy, late_s=2.0)
        assert loadproof(["import", str(source), "--as", str(tmp_path / name)]) == 4
        (level,) = summary_of(tmp_path / name)["levels"]
        assert level["ttft_ms"]["p50"] == pytest.approx(first_ms, abs=1e-2)


def test_failed_requests_of_guidellm_fail_the_run(tmp_path: Path) -> None:
    """Two of 42, in the words of their errors."""
    source = guidellm_file(tmp_path / "b.json", strategy={"type_": "synchronous"}, errored=2)
    assert loadproof(["import", str(source), "--as", str(tmp_path / "run")]) == 1
    (level,) = summary_of(tmp_path / "run")["levels"]
    assert (level["requests"], level["errors"]) == (42, 2)
    assert level["error_examples"] == {"model_error": "424 from the model"}


def test_sampled_requests_of_guidellm_are_not_taken_for_all(tmp_path: Path) -> None:
    """39 rows of 40 requests: its figures count, and no request is a record."""
    source = guidellm_file(tmp_path / "b.json", strategy={"type_": "concurrent", "streams": 8})
    document = json.loads(source.read_text())
    document["benchmarks"][0]["requests"]["successful"].pop()
    source.write_text(json.dumps(document))
    assert loadproof(["import", str(source), "--as", str(tmp_path / "run")]) == 4
    assert not (tmp_path / "run" / "requests.jsonl").exists()


def llmeter_folder(folder: Path, rows: int) -> Path:
    """Figures of 100 requests, and responses of 1.00, 1.01 … 1.99 s in no order, a tenth of it to the first token."""
    folder.mkdir()
    stats = json.loads((HERE / "llmeter_0_2.json").read_text()) | {"total_requests": 100}
    (folder / "stats.json").write_text(json.dumps(stats))
    lines = [
        {
            "request_time": "2026-11-21T10:00:00Z",
            "time_to_last_token": 1 + 37 * n % 100 / 100,
            "time_to_first_token": (1 + 37 * n % 100 / 100) / 10,
            "time_per_output_token": 0.02,
            "error": None,
        }
        for n in range(rows)
    ]
    (folder / "responses.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_responses_of_llmeter_make_percentiles_exact(tmp_path: Path) -> None:
    """Of 1,000 to 1,990 ms the p95 (not in its own figures) is 1,940.5 ms by interpolation. Its interval goes from the
    90th smallest to the largest: binomial table, X ~ B(100, 0.95), 2.5% and 97.5% at 90 and 99."""
    source = llmeter_folder(tmp_path / "source", 100)
    run = tmp_path / "run"
    loadproof(["import", str(source), "--as", str(run), "--objective", "e2e_p95_ms=1995"])
    summary = summary_of(run)
    (level,), (judged,) = summary["levels"], summary["objectives"]
    assert level["e2e_ms"]["p95"] == pytest.approx(1940.5) and level["ttft_ms"]["max"] == pytest.approx(199)
    assert (judged["low"], judged["high"], judged["verdict"]) == (1890.0, 1990.0, "PASS")
    assert not (run / "requests.jsonl").exists(), "when each was sent is known to the second only"


def test_some_responses_of_llmeter_are_not_taken_for_all(tmp_path: Path) -> None:
    """99 lines of 100 requests: its own figures, which have no p95."""
    loadproof(["import", str(llmeter_folder(tmp_path / "source", 99)), "--as", str(tmp_path / "run")])
    (level,) = summary_of(tmp_path / "run")["levels"]
    assert level["e2e_ms"]["p95"] is None
