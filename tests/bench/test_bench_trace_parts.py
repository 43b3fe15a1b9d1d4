"""A trace in several files is a folder of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import cast

import pytest
from bench_evidence import TARGET

from loadproof.bench.learn.reading import read_recorded
from loadproof.bench.remote.planning import planned_for_hosts
from loadproof.bench.s3_store import Store
from loadproof.bench.spec import BenchmarkSpec, WorkloadSpec, fixed_tokens
from loadproof.bench.workload.files import digest_of
from loadproof.bench.workload.trace_parts import parts_of
from loadproof.bench.workload.traces import read_trace
from loadproof.errors import InputError
from loadproof.loads import Load

HEADER = "timestamp_s,input_tokens,output_tokens\n"


def parts(folder: Path) -> Path:
    """Thirteen rows in three files, whose names a list of texts would sort otherwise; and what is no part."""
    for name, first, last in (("part-2.csv", 4, 8), ("part-10.csv.gz", 8, 13), ("part-1.csv", 0, 4)):
        text = HEADER + "".join(f"{at},{100 + at},7\n" for at in range(first, last))
        (folder / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    for name in ("README.md", "_SUCCESS", ".part-1.csv"):
        (folder / name).write_text("no part")
    return folder


def test_parts_follow_one_another_by_name_and_number(tmp_path: Path) -> None:
    """Each with its own header, gzipped or not."""
    rows = read_trace(parts(tmp_path))
    assert [(row.due_s, row.input_tokens) for row in rows] == [(at, 100 + at) for at in range(13)]


def test_lines_of_spans_may_be_in_any_part(tmp_path: Path) -> None:
    """As the collector's exporter turns its files over: the newest has no date in its name, and spans are sorted."""
    for name, second in (("traces.json", 1), ("traces-2026-01-05T10-00-00.json", 9)):
        tokens = {"gen_ai.usage.input_tokens": second, "gen_ai.usage.output_tokens": 5}
        span = {"start_time": f"2026-01-05T10:00:0{second}Z", "attributes": tokens}
        (tmp_path / name).write_text(json.dumps(span) + "\n")
    assert [(row.due_s, row.input_tokens) for row in read_trace(tmp_path)] == [(0, 1), (8, 9)]


def test_agents_conversations_may_be_gzipped(tmp_path: Path) -> None:
    for number in range(2):
        agent = {"block_size": 64, "requests": [{"t": number, "in": 64, "out": 5, "hash_ids": [1]}]}
        (tmp_path / f"a{number}.json.gz").write_bytes(gzip.compress(json.dumps(agent).encode()))
    assert [(row.due_s, row.session) for row in read_trace(tmp_path)] == [(0, 0), (1, 1)]


def test_a_part_of_another_time_is_told_once(tmp_path: Path) -> None:
    """Two traces that both count from 0 are no parts of one."""
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(HEADER + "0,5,5\n1,5,5\n2,5,5\n")
    with pytest.raises(InputError) as raised:
        read_trace(tmp_path)
    assert str(raised.value) == (
        f"{tmp_path}/b.csv:2: timestamp_s 0 after 2; sort the rows by time, and the parts by their names"
    )


def test_a_folder_without_a_trace_says_where_one_may_be(tmp_path: Path) -> None:
    """ServeGen's folders hold folders of clients."""
    (tmp_path / "m-large").mkdir()
    with pytest.raises(InputError, match=r"no trace in this folder: expected parts of one .* perhaps in m-large"):
        read_trace(tmp_path)


def test_parts_are_learned_from_as_one(tmp_path: Path) -> None:
    found = read_recorded([str(parts(tmp_path))])
    assert list(found.at_s) == list(range(13))


def test_a_folders_digest_is_of_every_part(tmp_path: Path) -> None:
    """A run is not resumed with another one of them."""
    first = digest_of(parts(tmp_path))
    (tmp_path / "README.md").write_text("other words")
    assert digest_of(tmp_path) == first is not None
    (tmp_path / "part-2.csv").write_text(HEADER + "4,5,5\n")
    assert digest_of(tmp_path) != first


def test_several_hosts_have_every_part(tmp_path: Path) -> None:
    """Under its own name in a folder of the run's, so that the digest is the same."""

    class Kept(dict[str, bytes]):
        put = dict.__setitem__

    folder = parts(tmp_path)
    workload, loads = WorkloadSpec(fixed_tokens(10), fixed_tokens(2)), (Load("trace", trace=str(folder)),)
    spec = BenchmarkSpec(TARGET, workload, (1,), 4, loads=loads)
    kept = Kept()
    plan = planned_for_hosts(spec, cast(Store, kept), "a", 0)
    here = f"files/0-{folder.name}"
    assert plan.spec.loads[0].trace == here
    assert kept == {f"{here}/{one.name}": one.read_bytes() for one in parts_of(folder)}
    assert plan.spec.files == {here: digest_of(folder)}
