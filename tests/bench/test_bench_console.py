"""What people see: no figure cut off, no data as a dash."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from bench_records import record
from bench_summaries import a_summary

from loadproof.bench.judging import RunResult
from loadproof.bench.measure.records import RecordFile, RequestRecord
from loadproof.bench.objectives import Objective
from loadproof.bench.output.console import _load, figure, print_result
from loadproof.bench.plan import RunPlan
from loadproof.bench.search.find_max import Bracket
from loadproof.bench.search.levels import SearchResult
from loadproof.bench.search.probes import Miss, Stop
from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens
from loadproof.bench.summary import build_summary
from loadproof.errors import ExitCode
from loadproof.terminal import Terminal


def shown(records: list[RequestRecord], width: int = 80, *, terminal: bool = True, interrupted: bool = False) -> str:
    spec = BenchmarkSpec(
        Target("sagemaker", "demo", "tgi", local_cloud="twin"),
        WorkloadSpec(fixed_tokens(8), fixed_tokens(8)),
        concurrency=(1024,),
        requests_per_level=len(records) or 1,
        objectives=(Objective("ttft_p95_ms", 123456.0),),
        usd_per_hour=98.76,
    )
    plan = RunPlan("r", "2026-11-21T10:15:00Z", 0, spec, {"loadproof": "0.1.0"}, ("2026-11-21T10:15:00Z",))
    summary = build_summary(plan, RecordFile(tuple(records), 0), interrupted=interrupted)
    stream = io.StringIO()
    console = Terminal(file=stream, width=width, force_terminal=terminal, color_system=None, highlight=False)
    print_result(RunResult(Path("runs/r"), summary, Path("runs/r/report.html"), None, ExitCode.OK), console)
    return stream.getvalue()


SLOW = [record(i, concurrency=1024, intended_ms=0, token_ms=(61_000 + i, 61_400), end_ms=61_456) for i in range(9)]


@pytest.mark.parametrize("width", [80, 100, 139, 140, 200])
def test_no_figure_is_cut_off(width: int) -> None:
    """Latencies of a minute at 1,024 in flight fit on every terminal of 80 columns or more."""
    text = shown(SLOW, width)
    assert "…" not in text.replace(" … ", "")
    assert "61,456" in text and "1024" in text and "valid" in text


def test_no_data_is_a_dash() -> None:
    """Nor is 0 a dash. A run whose only request failed has no TTFT to show, and a run of nothing has no levels."""
    assert figure(None) == "–" and figure(0.0) == "0.0"
    text = shown([record(0, concurrency=1024, end_ms=5, outcome="timeout")])
    assert "–" in text and "Errors at 1024 in flight: 1 timeout" in text
    assert "no data at 1024 in flight" in shown([])


def test_who_decides_reads_the_verdict_first() -> None:
    """As on the page: verdict, reasons and brief stand above the tables."""
    text = shown(SLOW)
    places = [text.index(said) for said in ("INCONCLUSIVE\n", "  ttft_p95_ms", "Cost a month", "Next ", "Measured")]
    assert places == sorted(places)


@pytest.mark.parametrize("width", [50, 80])
def test_no_word_is_cut_at_a_terminals_edge(width: int) -> None:
    """Sentences go on below their beginning; what is too wide for a table stands by itself, each figure whole."""
    wide = " ".join(shown(SLOW, width=400).split())
    lines = shown(SLOW, width=width).splitlines()
    assert max(map(len, lines)) <= width
    reason = re.search(r"ttft_p95_ms: .*?(?= Cost a month)", wide)
    assert reason is not None and reason[0] in " ".join(" ".join(lines).split())
    assert not [line for line in lines if line.endswith("…")]


def test_a_pipe_is_folded_where_columns_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """COLUMNS=80 is asked for; without it each sentence of a log is one line."""
    monkeypatch.delenv("COLUMNS", raising=False)
    assert max(map(len, shown(SLOW, terminal=False).splitlines())) > 80
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, shown(SLOW, terminal=False).splitlines())) <= 80


def test_what_a_twin_measured_is_called_simulated() -> None:
    """The table of a local cloud's twin never passes for AWS hardware."""
    assert "simulated" in shown(SLOW)


def test_an_interrupted_run_says_how_to_go_on() -> None:
    """The command to continue, ready to copy."""
    assert "loadproof bench --resume runs/r" in shown(SLOW, interrupted=True)


def test_a_search_is_told_in_four_lines() -> None:
    """What was found, between what and by which votes, what limits it, why it stopped."""
    bracket = Bracket(10.5, 11.0, (True, False, True), (False, True, False))
    limit = Miss("objective", "tpot_p95_ms: observed 41.4, bound <= 40")
    stop = Stop("converged", "they hold at 10.5 and are missed at 11")
    assert SearchResult("find_max", "requests/s", 10.5, bracket, 3, 0.05, 17, limit, stop, ()).lines() == [
        "Highest load that meets the objectives: 10.5 requests/s",
        "bracket: met at 10.5 (2 of 3), missed at 11 (2 of 3); 17 levels measured",
        "limited by objective: tpot_p95_ms: observed 41.4, bound <= 40",
        "Stopped by converged: they hold at 10.5 and are missed at 11",
    ]


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        (None, "at least 20 in flight, search not finished"),
        (Stop("client", "late"), "at least 20 in flight, search not finished"),
        (Stop("limit", "the highest load allowed"), "at least 20 in flight, the most allowed"),
    ],
)
def test_a_search_without_a_miss_found_a_lower_bound(stop: Stop | None, said: str) -> None:
    """What met last is the highest load only where a higher one missed."""
    bracket = Bracket(20.0, None, (True,))
    lines = SearchResult("find_max", "in flight", 20.0, bracket, 3, 0.05, 2, None, stop, ()).lines()
    assert lines[0] == f"Highest load that meets the objectives: {said}"
    assert lines[-1].startswith("Stopped by" if stop else "Not finished")


def test_what_a_server_says_cannot_steer_the_terminal() -> None:
    """ESC, NUL and a direction override in an error's text come out spelled, in words as in colour."""
    hostile = "\x1b[2Jgone\u202edlrow\x00"
    failed = record(0, concurrency=1024, end_ms=5, outcome="model_error", error_message=hostile)
    text = shown([failed], width=200)
    assert not {"\x1b[2J", "\u202e", "\x00"} & set(re.findall("\x1b\\[2J|[\u202e\x00]", text))
    assert r"\u001b[2Jgone\u202edlrow\u0000" in text


def test_a_levels_load_is_told_with_its_process() -> None:
    """Poisson is the usual; another process, a ramp and slowly opened slots are named."""
    levels = [
        {"load": "gamma 1 to 20 requests/s", "concurrency": 3},
        {"load": "poisson 2.5 requests/s", "concurrency": 3},
        {"load": None, "concurrency": 8},
    ]
    planned = [
        {"requests_per_s": 20.0, "process": "gamma", "from_requests_per_s": 1.0},
        {"requests_per_s": 2.5, "process": "poisson"},
        {"concurrency": 8, "ramp_s": 10.0},
    ]
    summary = a_summary(levels=[level | {"planned": load} for level, load in zip(levels, planned, strict=True)])
    assert [_load(level) for level in summary.levels] == ["gamma 1..20/s", "2.5/s", "8 in 10 s"]


def test_a_runner_of_workflows_obeys_no_line_of_the_console() -> None:
    """Whoever brings the line end with him; times and addresses stay as they are."""
    stream = io.StringIO()
    Terminal(file=stream, highlight=False).print("r4\n::error::x\n\t ::y\n##[group]z\n12:30 a::b", markup=False)
    assert stream.getvalue().splitlines() == [
        "r4", r"\u003a:error::x", r"         \u003a:y", r"##\u005bgroup]z", "12:30 a::b",
    ]  # fmt: skip
