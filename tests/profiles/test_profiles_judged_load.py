"""LP259: the load that a benchmark's verdict is of, against the one that its objectives name; figures by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from profiles_samples import CHAT

from loadproof.profiles import check_file

BOUNDS = {"ttft_p95_ms": 500, "tpot_p95_ms": 40}  # 64 tokens: 500 + 63 · 40 = 3,020 ms
OPEN = {"process": "poisson", "requests_per_s": 2, "requests": 2000}


def told(folder: Path, at: int, benchmark: dict[str, Any], bounds: dict[str, Any], **workload: Any) -> list[str]:
    values = yaml.safe_load(CHAT) | {"objectives": {"at_concurrency": at} | bounds, "benchmark": benchmark}
    values["workload"] |= workload
    file = folder / "chat.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    problems = check_file(file).problems
    assert all(one.severity == "warning" for one in problems), problems
    return [one.message for one in problems if one.code == "LP259"]


def closed(level: int) -> dict[str, Any]:
    return {"process": "closed", "concurrency": level, "requests": 2000}


@pytest.mark.parametrize(
    ("at", "benchmark", "bounds", "said"),
    [
        (7, {"rate": 2}, BOUNDS, "keep 6.04 in flight, not 7"),  # 2/s · 3.02 s
        (6, {"rate": 2}, BOUNDS, None),
        (6, {"rate": [1, 2]}, BOUNDS, None),  # the highest is judged
        (7, {"rate": [2, 4]}, BOUNDS, None),
        (5, {"rate": 2}, {"e2e_p95_ms": 2000, "e2e_p99_ms": 2400}, "keep 4.8 in flight, not 5"),
        (99, {"rate": 2}, {"ttft_p95_ms": 500}, None),  # how long an answer takes is not bounded
        (7, {"phases": [OPEN, closed(7)]}, BOUNDS, None),
        (7, {"phases": [OPEN, closed(8)]}, BOUNDS, "keep 6.04 in flight"),
        (16, {"phases": [closed(4), closed(8)]}, BOUNDS, "judged is the level of 8 in flight, and none is of 16"),
        (4, {"phases": [closed(4), closed(8)]}, BOUNDS, None),
    ],
)
def test_a_lighter_load_than_the_one_named_is_said(
    tmp_path: Path, at: int, benchmark: dict[str, Any], bounds: dict[str, Any], said: str | None
) -> None:
    """Little's law: in flight are rate times answer time, at the most what the bounds allow."""
    found = told(tmp_path, at, benchmark, bounds)
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


def test_so_is_it_where_the_workload_has_the_rate(tmp_path: Path) -> None:
    """Without phases its arrivals are driven."""
    arrivals = {"process": "poisson", "requests_per_s": 2}
    [found] = told(tmp_path, 7, {"requests_per_level": 2000}, BOUNDS, arrivals=arrivals)
    assert "keep 6.04 in flight, not 7" in found


def test_sessions_that_think_are_in_flight_too(tmp_path: Path) -> None:
    """2 turns/s of conversations that think 20 s between two turns hold more than 40 of them."""
    assert told(tmp_path, 7, {"rate": 2}, BOUNDS, turns=2, think_time_s=20) == []
