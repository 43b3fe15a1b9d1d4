"""Schedules: absolute, seeded, the same everywhere; and the recorded ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.bench.workload.arrivals import closed_loop, schedule_of
from loadproof.bench.workload.traces import TraceRow, read_trace
from loadproof.errors import InputError
from loadproof.loads import Load, problems_of

S = 1_000_000_000


def due_s(load: Load, seed: int = 0, level: int = 0) -> list[float]:
    return [due_ns / S for due_ns in schedule_of(load, seed, level).due_ns]


def test_a_constant_rate_is_evenly_spaced_from_zero() -> None:
    """4 requests/s for 1.1 s: 0, 0.25, 0.5, 0.75 and 1 s; whatever the seed."""
    load = Load("constant", requests_per_s=4, duration_s=1.1)
    assert due_s(load) == due_s(load, seed=9) == [0, 0.25, 0.5, 0.75, 1.0]


def test_a_schedule_is_the_same_for_the_same_seed_and_zero_is_a_seed() -> None:
    """Seed 0 twice is one schedule and one hash; seeds 0 and 1 are two, and so are two levels of one rate."""
    load = Load("poisson", requests_per_s=50, requests=100)
    first, again = schedule_of(load, 0, 0), schedule_of(load, 0, 0)
    assert first.due_ns == again.due_ns and first.sha256 == again.sha256
    assert len({schedule_of(load, seed, level).sha256 for seed, level in ((0, 0), (1, 0), (0, 1))}) == 3


def test_a_hash_is_the_same_on_every_machine() -> None:
    """Of 0, 0.5 and 1 s: SHA-256 over `0 500000000 1000000000|`, by sha256sum."""
    schedule = schedule_of(Load("constant", requests_per_s=2, requests=3), 0, 0)
    assert schedule.sha256 == "402b35672861bedaed6a3439f453774909f620167764d62b0baa48abeaf45aba"


@pytest.mark.parametrize(
    ("process", "burstiness", "cv"), [("poisson", None, 1.0), ("gamma", 0.25, 2.0), ("gamma", 4, 0.5)]
)
def test_gaps_have_the_mean_and_spread_of_their_process(process: str, burstiness: float | None, cv: float) -> None:
    """Mean 1/rate; coefficient of variation 1 for Poisson and 1/sqrt(burstiness) for gamma, within 5% of 20,000."""
    times = due_s(Load(process, requests_per_s=10, burstiness=burstiness, requests=20_000))  # type: ignore[arg-type]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert fmean(gaps) == pytest.approx(0.1, rel=0.05)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(cv, rel=0.05)


def test_a_ramp_spends_its_requests_as_its_rate_grows() -> None:
    """From 0 to 10/s in 20 s: 10·t²/40 requests by t, so 25 by 10 s and 100 in all; the k-th is due at sqrt(4k) s."""
    times = due_s(Load("constant", requests_per_s=10, from_requests_per_s=0, duration_s=20))
    assert len(times) == 100
    assert times == pytest.approx([(4 * index) ** 0.5 for index in range(100)])


def test_a_ramp_may_fall() -> None:
    """From 10/s to 0: the mirror image, 75 of 100 requests in the first half."""
    times = due_s(Load("constant", requests_per_s=1e-9, from_requests_per_s=10, duration_s=20))
    assert sum(time < 10 for time in times) == 75
    assert times == sorted(times)


@given(st.sampled_from(["constant", "poisson", "gamma"]), st.floats(0.5, 200), st.integers(0, 5), st.booleans())
def test_every_schedule_ascends_within_its_time(process: str, rate: float, seed: int, ramp: bool) -> None:
    """Whatever the process: times from 0 up, none at or past the end."""
    load = Load(
        process,  # type: ignore[arg-type]
        requests_per_s=rate,
        from_requests_per_s=3.0 if ramp else None,
        burstiness=0.5 if process == "gamma" else None,
        duration_s=20,
    )
    try:
        times = due_s(load, seed)
    except InputError as error:
        assert "no request falls into" in str(error)
        return
    assert times == sorted(times) and times[0] >= 0 and times[-1] < 20


def test_a_closed_ramp_opens_its_slots_evenly() -> None:
    """Four slots over 2 s: at 0, 0.5, 1 and 1.5 s."""
    assert closed_loop(None, 4, ramp_s=2).slot_open_ns == (0, S // 2, S, 3 * S // 2)


def test_a_trace_starts_at_zero_and_keeps_its_tokens(tmp_path: Path) -> None:
    """CSV and JSON Lines say the same; other columns are ignored."""
    (tmp_path / "t.csv").write_text("timestamp_s,input_tokens,output_tokens,user\n100.5,10,3,a\n101.75,20,4,b\n")
    (tmp_path / "t.jsonl").write_text(
        '{"timestamp_s": 7, "input_tokens": 10, "output_tokens": 3}\n\n'
        '{"timestamp_s": 8.25, "input_tokens": 20, "output_tokens": 4}\n'
    )
    rows = (TraceRow(0, 10, 3), TraceRow(1.25, 20, 4))
    assert read_trace(tmp_path / "t.csv") == read_trace(tmp_path / "t.jsonl") == rows
    schedule = schedule_of(Load("trace", trace=str(tmp_path / "t.csv")), 0, 0)
    assert (list(schedule.due_ns), schedule.tokens) == ([0, 1_250_000_000], ((10, 3), (20, 4)))


def test_every_bad_row_of_a_trace_is_told_at_once(tmp_path: Path) -> None:
    """Place, what was found, what is allowed: a fall in time, no number, half a token."""
    path = tmp_path / "t.csv"
    path.write_text("timestamp_s,input_tokens,output_tokens\n5,10,3\n4,10,3\nsoon,10,3\n6,1.5,3\n6,10,0\n")
    with pytest.raises(InputError) as raised:
        read_trace(path)
    assert [line.removeprefix(f"{path}:") for line in str(raised.value).splitlines()] == [
        "3: timestamp_s 4 after 5; sort the rows by time",
        "4: timestamp_s 'soon': expected seconds",
        "5: input_tokens '1.5': expected a whole number from 1",
        "6: output_tokens '0': expected a whole number from 1",
    ]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        (
            "t.csv",
            "time,input_tokens\n1,2\n",
            "columns of no known trace: time, input_tokens; expected timestamp_s",
        ),
        ("t.csv", "timestamp_s,input_tokens,output_tokens\n", "no rows"),
        ("t.jsonl", "[1]\n", "one object a line"),
        ("t.jsonl", "1\n", "expected an object"),
        ("t.jsonl", "{\n", "not JSON"),
        ("missing.csv", None, "cannot be read as a trace"),
    ],
)
def test_a_file_that_is_no_trace_is_bad_input(tmp_path: Path, name: str, content: str | None, complaint: str) -> None:
    """Never a traceback."""
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=complaint):
        read_trace(tmp_path / name)


def test_all_problems_of_a_load_are_told_at_once() -> None:
    """A gamma ramp without rate, burstiness or time, and with a concurrency it has no use for."""
    problems = problems_of(Load("gamma", concurrency=3, from_requests_per_s=1, requests=5))
    assert [problem.split("; ")[0] for problem in problems] == [
        "concurrency has no use with gamma",
        "no requests_per_s",
        "a ramp takes its time from duration_s",
        "gamma needs a burstiness above 0",
    ]
