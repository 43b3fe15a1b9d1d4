"""`loadproof simulate`: traffic on the twin, in words and as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadproof.cli.main import run
from loadproof.cli.simulate.text import BARS, sparkline

PROFILE = str(Path(__file__).resolve().parents[2] / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml")


def test_text_says_what_was_served_how_long_it_waited_and_what_it_cost(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything a platform engineer asks first, and that it is predicted."""
    assert run(["simulate", PROFILE, "--minutes", "20", "--requests-per-s", "12", "--ramp-from", "1"]) == 0
    said = capsys.readouterr().out
    assert "predicted: poisson, 1 to 12 requests/s in 10 min, 20 min" in said
    for word in (
        "Requests ",
        "Goodput ",
        "TTFT",
        "TPOT",
        "E2E",
        "Copies ",
        "1 to 2",
        "Cost ",
        "USD on demand in us-west-2 (= us-east-1 where both are known), seen 20",
        "Start-up",
    ):
        assert word in said


def test_no_line_is_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence goes on below its beginning; in a log it stays one line."""
    options = ["simulate", PROFILE, "--minutes", "60", "--concurrency", "4"]
    assert run(options) == 0
    assert "served meet the latency objectives (100.0%); " in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "80")
    assert run(options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    goodput = next(at for at, line in enumerate(lines) if line.startswith("Goodput    "))
    assert lines[goodput + 1].startswith(" " * 11) and lines[goodput + 1].strip()


def test_json_is_labelled_and_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Windows sum to the whole; copies begin at 0 ms."""
    assert run(["simulate", PROFILE, "--minutes", "3", "--concurrency", "4", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["predicted"] is True
    counts = found["requests"]
    assert sum(row["sent"] for row in found["windows"]) == counts["served"] + counts["refused"] + counts["timed_out"]
    assert found["copies"][0]["at_ms"] == 0
    assert found["ttft_ms"]["p50"] <= found["ttft_ms"]["p95"] <= found["ttft_ms"]["max"]


def test_a_trace_is_replayed_with_its_own_times_and_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three requests over 90 s, 60 output tokens in all; the last one is sent too."""
    trace = tmp_path / "monday.csv"
    trace.write_text("timestamp_s,input_tokens,output_tokens\n1000,100,10\n1030,200,20\n1090,50,30\n")
    assert run(["simulate", PROFILE, "--trace", str(trace), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["traffic"] == "trace monday.csv, 3 requests"
    assert found["requests"]["served"] == 3
    assert [row["sent"] for row in found["windows"]] == [2, 1]


CHAINED = [(900, [0, 1]), (2000, [0, 2, 3, 4]), (3000, [0, 2, 3, 5, 6, 7]), (800, [0, 8])]


@pytest.mark.parametrize("kind", ["named", "blocks"])
def test_recorded_conversations_are_routed_by_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """A name tells them, and so do Mooncake's blocks; what it lacks is said once for all strategies."""
    trace = tmp_path / f"{kind}.jsonl"
    rows = [
        {"timestamp": 9000 * at, "input_length": tokens, "output_length": 20, "hash_ids": ids}
        if kind == "blocks"
        else {
            "startTime": f"2026-01-05 10:00:0{at}",
            "prompt_tokens": tokens,
            "completion_tokens": 9,
            "session_id": "s",
        }
        for at, (tokens, ids) in enumerate(CHAINED)
    ]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["simulate", PROFILE, "--trace", str(trace), "--routing", "sticky"]) == 0
    capsys.readouterr()
    assert run(["simulate", PROFILE, "--trace", str(trace), "--routing", "all"]) == 0
    assert capsys.readouterr().err.count(f"{trace.name}: ") == (kind == "named")
    trace.write_text('{"timestamp_s": 0, "input_tokens": 9, "output_tokens": 9}\n')
    assert run(["simulate", PROFILE, "--trace", str(trace), "--routing", "sticky"]) == 2
    assert "or with a trace that tells conversations" in capsys.readouterr().err


def test_a_workloads_own_trace_lies_beside_the_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named in the profile, it is what is replayed, unless a rate is given."""
    (tmp_path / "monday.csv").write_text("timestamp_s,input_tokens,output_tokens\n0,100,10\n70,200,20\n")
    mine = tmp_path / "mine.yaml"
    text = (
        Path(PROFILE)
        .read_text()
        .replace("  output_tokens: 48\n", "  output_tokens: 48\n  arrivals: {process: trace, trace: monday.csv}\n")
    )
    mine.write_text(text)
    assert run(["simulate", str(mine), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests"]["served"] == 2
    assert run(["simulate", str(mine), "--rate", "2", "--minutes", "2", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["traffic"] == "poisson, 2 requests/s"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trace", "no.csv", "--concurrency", "2"], "--trace brings its own load"),
        (["--trace", "no-such-file.csv"], "no-such-file.csv: cannot be read as a trace (No such file or directory);"),
        (["--minutes", "0"], "minutes: expected above 0"),
        (["--starts-at", "tomorrow"], "expected a date and time such as"),
        (["--copy-start-s", "inf"], "start-up: expected copy_s of 0 or more, found inf"),
        (["--instance-start-s", "inf"], "start-up: expected instance_s of 0 or more, found inf"),
        (["--requests-per-s", "0"], "expected requests_per_s above 0"),
    ],
)
def test_bad_usage_is_one_message_and_exit_2(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Found, expected, and no traceback."""
    assert run(["simulate", PROFILE, *options]) == 2
    assert said in capsys.readouterr().err.replace("\n", " ")


def test_a_sparkline_runs_from_nothing_to_the_largest() -> None:
    """A blank where there is no value."""
    assert sparkline([0.0, 1.0, None, 8.0], BARS) == "▁▂ █"
    assert sparkline([0.0, 0.0], BARS) == "▁▁"
