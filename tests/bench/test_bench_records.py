"""requests.jsonl survives whatever a killed run leaves behind."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from bench_records import record
from hypothesis import given
from hypothesis import strategies as st

from loadproof.bench.measure.latencies import itl_gaps_ns
from loadproof.bench.measure.records import RecordWriter, TokenTimes, latest, read_records, token_times
from loadproof.bench.objectives import Objective
from loadproof.bench.plan import RunPlan, read_plan, run_id_of, write_plan
from loadproof.bench.spec import (
    BenchmarkSpec,
    PredictedPoint,
    Prediction,
    ProfileRef,
    Target,
    TokenCounts,
    WorkloadSpec,
    fixed_tokens,
)
from loadproof.errors import CouldNotRunError, InputError

ONE = record(3, token_ms=(1, 2), end_ms=2, error_message="kaputt — “so”")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """A record comes back equal, arrivals and text included."""
    path = tmp_path / "requests.jsonl"
    with RecordWriter(path) as writer:
        writer.append(ONE)
    assert read_records(path).records == (ONE,)


def test_a_record_that_was_read_holds_four_bytes_a_token(tmp_path: Path) -> None:
    """Of two answers of 500 tokens the times take 4 bytes each, and the counts (one at a time) are held once."""
    path = tmp_path / "requests.jsonl"
    with RecordWriter(path) as writer:
        for index in range(2):
            writer.append(record(index, token_ms=tuple(range(1000, 1500)), end_ms=1500))
        writer.append(record(2, token_ms=(1, 2), tokens_at=(3, 4), end_ms=2))
    first, second, several = read_records(path).records
    assert isinstance(first.token_times_ns, TokenTimes)
    assert sys.getsizeof(first.token_times_ns) + sys.getsizeof(first.token_times_ns.steps_ns) < 4 * 500 + 200
    assert first.tokens_at is second.tokens_at
    assert (list(first.token_times_ns)[:2], sum(first.tokens_at)) == ([1_000_000_000, 1_001_000_000], 500)
    assert list(several.tokens_at) == [3, 4]


@given(st.lists(st.one_of(st.integers(0, 10**7), st.integers(0, 10**13)), max_size=20), st.booleans())
def test_compact_times_are_the_same_times(times_ns: list[int], ascending: bool) -> None:
    """Together, more than 4.29 s apart or out of order: the same instants, the same gaps between distinct ones."""
    times_ns = sorted(times_ns) if ascending else times_ns
    found = token_times(times_ns)
    assert list(found) == times_ns and len(found) == len(times_ns)
    plain, compact = record(token_ms=(1,), end_ms=9), replace(record(end_ms=9), token_times_ns=found)
    expected = [later - earlier for earlier, later in pairwise(sorted(set(times_ns)))]
    assert itl_gaps_ns(compact).tolist() == expected
    assert itl_gaps_ns(replace(plain, token_times_ns=times_ns)).tolist() == expected


def test_a_line_is_on_disk_before_the_writer_closes(tmp_path: Path) -> None:
    """kill -9 right after a request ended loses nothing."""
    path = tmp_path / "requests.jsonl"
    with RecordWriter(path) as writer:
        writer.append(ONE)
        assert json.loads(path.read_text())["index"] == 3


def test_every_cut_of_the_last_line_is_tolerated_and_counted(tmp_path: Path) -> None:
    """Wherever the second line is torn, the first is read and the next session starts on a line of its own."""
    path = tmp_path / "requests.jsonl"
    with RecordWriter(path) as writer:
        writer.append(ONE)
        writer.append(ONE)
    whole = path.read_bytes()
    first_line = whole.index(b"\n") + 1
    for cut in range(first_line + 1, len(whole) - 1, 7):
        path.write_bytes(whole[:cut])
        assert (len(read_records(path).records), read_records(path).torn_lines) == (1, 1)
        with RecordWriter(path) as writer:
            writer.append(ONE)
        assert (len(read_records(path).records), read_records(path).torn_lines) == (2, 1)


@given(st.binary(max_size=300))
def test_no_bytes_raise_more_than_a_plain_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Arbitrary bytes are torn lines (or an unknown schema version), never a traceback."""
    path = tmp_path_factory.mktemp("records") / "requests.jsonl"
    path.write_bytes(content)
    assert read_records(path).records == ()


def test_a_line_of_another_version_is_refused(tmp_path: Path) -> None:
    """Fields of another version may mean something else: better no figure than a wrong one."""
    path = tmp_path / "requests.jsonl"
    with RecordWriter(path) as writer:
        writer.append(record(schema_version=2))
    with pytest.raises(CouldNotRunError, match="schema_version 2, this Loadproof reads 1"):
        read_records(path)


def test_the_later_record_of_a_request_counts() -> None:
    """Canceled in one session and answered in the next, a request is answered."""
    canceled, answered = record(0, outcome="canceled"), record(0, session=1)
    assert latest([canceled, record(1), answered]) == (answered, record(1))


SPEC = BenchmarkSpec(
    target=Target("sagemaker", "chat", "tgi", component="chat-main", region="us-east-1"),
    workload=WorkloadSpec(TokenCounts("normal", 256.0, 32.0, 1, 512), fixed_tokens(64), seed=3, salt="x"),
    concurrency=(1, 4),
    requests_per_level=8,
    objectives=(Objective("ttft_p95_ms", 500.0),),
    profile=ProfileRef("chat", "dev/chat.yaml", "0" * 64, "dev"),
    usd_per_hour=1.2,
    predicted=Prediction("B", (PredictedPoint(1, 1.0, 2.0, None, 4.0, 5.0),)),
)


def test_a_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    """Everything a resumed run needs is in plan.json."""
    plan = RunPlan("r1", "2026-11-21T10:15:00Z", 7, SPEC, {"loadproof": "0.1.0"}, ("2026-11-21T10:15:00Z",))
    write_plan(tmp_path, plan)
    assert read_plan(tmp_path) == plan
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "not a run folder"),
        (b"{", "not JSON"),
        (b"[]", "expected schema_version 1"),
        (b'{"schema_version": 1}', "damaged"),
        (b'{"schema_version": 1, "run_id": 1, "created_utc": 2, "zero_unix_ns": 3, "spec": []}', "damaged"),
        (b'{"schema_version": 1, "run_of": 1}', "damaged .*run_of"),
    ],
)
def test_a_folder_without_a_good_plan_is_bad_input(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    """Whatever lies there, the message names the file and what to do."""
    if content is not None:
        (tmp_path / "plan.json").write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        read_plan(tmp_path)


def test_run_ids_sort_by_time_and_are_safe_file_names() -> None:
    """2026-11-21 10:15:00 UTC, and no character a file system or a shell minds."""
    assert run_id_of(1_795_256_100_000_000_000, "127.0.0.1:8080/x") == "20261121-101500-127-0-0-1-8080-x"
