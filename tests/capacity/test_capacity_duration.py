"""How long a benchmark takes, by hand, and what a deployment can wait for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadproof.capacity.duration import benchmark_duration_s, gate_problem
from loadproof.cli.main import run as loadproof
from loadproof.profiles import load_profile
from loadproof.profiles.schema import Profile

CHAT = {
    "name": "chat",
    "model": {
        "id": "meta-llama/Llama-3.1-8B-Instruct",
        "source": {"type": "s3", "s3_uri": "s3://models/llama/", "accept_eula": True},
    },
    "container": {"family": "tgi", "settings": {"max_total_tokens": 4096}},
    "endpoint": {"instance_type": "ml.g5.2xlarge"},
    "objectives": {"at_concurrency": 4, "ttft_p95_ms": 500},
    "workload": {"input_tokens": 256, "output_tokens": 64},
}


def chat(folder: Path, benchmark: dict[str, Any], **more: Any) -> Profile:
    file = folder / "chat.yaml"
    file.write_text(json.dumps({**CHAT, **more, "benchmark": benchmark}))
    return load_profile(file)


def test_timed_levels_take_their_time(tmp_path: Path) -> None:
    """Two levels of 30 s, each announced 6 s before."""
    assert benchmark_duration_s(chat(tmp_path, {"concurrency": [2, 4], "duration_s": 30})) == 72


def test_open_loops_take_their_requests_at_their_rate(tmp_path: Path) -> None:
    """300 requests at 2 a second are 150 s."""
    workload = {**CHAT["workload"], "arrivals": {"process": "poisson", "requests_per_s": 2}}  # type: ignore[dict-item]
    assert benchmark_duration_s(chat(tmp_path, {"requests_per_level": 300}, workload=workload)) == 156


def test_closed_loops_take_as_long_as_their_requests_one_after_another(tmp_path: Path) -> None:
    """Twice the requests take twice as long; where the p95 is judged, at least the 72 asked for are sent."""

    def seconds(requests: int, levels: list[int]) -> float:
        sizes = {"requests_per_level": requests, "requests_at_objectives": 72}
        wanted = {"concurrency": levels, "warmup_requests": 0, **sizes}
        return benchmark_duration_s(chat(tmp_path, wanted)) - 6 * len(levels)

    assert seconds(800, [4]) == pytest.approx(2 * seconds(400, [4]))
    assert seconds(8, [4]) == pytest.approx(seconds(72, [4]))
    one = seconds(32, [1, 4]) - seconds(72, [4])
    assert seconds(64, [1, 4]) - seconds(72, [4]) == pytest.approx(2 * one)


def test_a_gate_may_take_48_minutes(tmp_path: Path) -> None:
    """A level of 2,874 s and its 6 s fill them; one second more is too long, but not where no deployment waits."""
    level = {"concurrency": [4], "gate": "rollback"}
    assert gate_problem(chat(tmp_path, {**level, "duration_s": 2874})) is None
    found = gate_problem(chat(tmp_path, {**level, "duration_s": 2875}))
    assert found is not None and found[0].endswith("a deployment waits for 48 of load at most")
    assert gate_problem(chat(tmp_path, {**level, "duration_s": 2875, "gate": "alarm"})) is None


def test_a_gate_that_may_have_to_wake_its_endpoint_has_a_quarter_of_an_hour_less(tmp_path: Path) -> None:
    """2,880 s less 900: a level of 1,974 s and its 6 s fill them."""
    level = {"concurrency": [4], "gate": "rollback"}
    policy = {"type": "target_tracking", "metric": "concurrent_requests_per_copy", "target": 8}
    zero = {"copies": {"min": 0}, "scaling": {"policies": [policy], "to_zero": {}}}
    assert gate_problem(chat(tmp_path, {**level, "duration_s": 1974}, **zero)) is None
    found = gate_problem(chat(tmp_path, {**level, "duration_s": 1975}, **zero))
    assert found is not None and "waits for 33 of load at most, since waking" in found[0]


def test_check_names_the_gates_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """LP269 at the line that asks for the gate; an error."""
    file = tmp_path / "chat.yaml"
    file.write_text(json.dumps(CHAT)[:-1] + ',\n"benchmark":\n  {"gate": "rollback", "duration_s": 3600}}')
    assert loadproof(["check", str(file)]) == 2
    assert f"{file}:3:4 LP269 benchmark.gate: the benchmark is predicted to take 240 minutes" in capsys.readouterr().out
