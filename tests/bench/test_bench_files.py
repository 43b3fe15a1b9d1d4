"""A plan holds what was in the files that decide what is sent and how it is counted."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import cast

import pytest
from bench_evidence import TARGET

from loadproof.bench.plan import new_plan, read_plan, write_plan
from loadproof.bench.remote.planning import planned_for_hosts
from loadproof.bench.s3_store import Store
from loadproof.bench.spec import BenchmarkSpec, Search, WorkloadSpec, fixed_tokens
from loadproof.bench.workload.files import digest_of, digests_of, refuse_changed
from loadproof.errors import InputError
from loadproof.loads import Load

SPEC = BenchmarkSpec(TARGET, WorkloadSpec(fixed_tokens(10), fixed_tokens(2)), (1,), 4)
ROWS = "timestamp_s,input_tokens,output_tokens\n0,10,2\n1,10,2\n"


def named(folder: Path) -> BenchmarkSpec:
    """A spec that names a dataset, a tokenizer and two traces."""
    for name in ("a.csv", "b.csv", "p.jsonl", "t.json"):
        (folder / name).write_text(ROWS + "2,10,2\n" * (name == "b.csv"))
    workload = replace(SPEC.workload, dataset=str(folder / "p.jsonl"), tokenizer=str(folder / "t.json"))
    loads = tuple(Load("trace", trace=str(folder / name)) for name in ("a.csv", "b.csv", "a.csv"))
    return replace(SPEC, workload=workload, loads=loads)


def test_a_plan_has_the_digest_of_every_file(tmp_path: Path) -> None:
    """By its path, written and read back."""
    write_plan(tmp_path, new_plan(named(tmp_path), "a", 0, {}))
    assert read_plan(tmp_path).spec.files == {
        str(tmp_path / name): sha256((tmp_path / name).read_bytes()).hexdigest()
        for name in ("p.jsonl", "t.json", "a.csv", "b.csv")
    }


def test_a_searchs_trace_is_among_them(tmp_path: Path) -> None:
    """A load that is searched names its file, too."""
    search = Search("sweep", named(tmp_path).loads[0], 1, 2)
    assert list(digests_of(replace(SPEC, search=search))) == [str(tmp_path / "a.csv")]


def test_a_plan_without_files_is_read_as_before(tmp_path: Path) -> None:
    """It says nothing of them."""
    write_plan(tmp_path, new_plan(SPEC, "a", 0, {}))
    plan = json.loads((tmp_path / "plan.json").read_text())
    del plan["spec"]["files"]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert read_plan(tmp_path).spec.files == {}


def test_a_folders_digest_is_of_what_is_read_in_it(tmp_path: Path) -> None:
    """Names and content; nothing of a folder that holds no trace."""
    assert digest_of(tmp_path) is None
    (tmp_path / "chunk-1-trace.csv").write_text("1")
    (tmp_path / "chunk-1-dataset.json").write_text("{}")
    first = digest_of(tmp_path)
    (tmp_path / "README.md").write_text("not read")
    assert first is not None and digest_of(tmp_path) == first
    (tmp_path / "chunk-1-dataset.json").rename(tmp_path / "chunk-2-dataset.json")
    assert digest_of(tmp_path) not in (None, first)


def test_a_file_that_changed_is_not_resumed_with(tmp_path: Path) -> None:
    """Else the plan's digest would be of half of the run."""
    spec = new_plan(named(tmp_path), "a", 0, {}).spec
    refuse_changed(spec)
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(InputError, match=r"t\.json: not the file this run was planned with; put that one back"):
        refuse_changed(spec)


def test_several_hosts_name_files_as_they_have_them(tmp_path: Path) -> None:
    """The digests are by those names."""

    class Kept(dict[str, bytes]):
        put = dict.__setitem__

    kept = Kept()
    plan = planned_for_hosts(named(tmp_path), cast(Store, kept), "a", 0)
    assert plan.spec.files == {name: sha256(body).hexdigest() for name, body in kept.items()}
    assert {plan.spec.workload.dataset, plan.spec.workload.tokenizer} < set(plan.spec.files)
