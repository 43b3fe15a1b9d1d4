"""The run document: what is missing is no data, what is wrong is named, old runs are read, newer ones refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench_records import record
from bench_summaries import a_summary, whole
from jsonschema import Draft202012Validator

from loadproof.bench.document import as_json, read_summary, summary_of
from loadproof.bench.measure.records import RecordFile
from loadproof.bench.plan import RunPlan
from loadproof.bench.schema import summary_schema
from loadproof.bench.spec import BenchmarkSpec, ProfileRef, Target, WorkloadSpec, fixed_tokens
from loadproof.bench.summary import build_summary
from loadproof.errors import InputError

OLD = Path(__file__).parent / "old_runs"
SMALLEST = whole({})


def written(folder: Path, content: Any) -> Path:
    (folder / "summary.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_what_came_later_is_no_data() -> None:
    """A level with what the first version wrote: later figures are None, none is 0."""
    [level] = a_summary(levels=[{"concurrency": 4}]).levels
    assert (level.ttft_ms.p50, level.mean_in_flight, level.error_rate, level.drain) == (None,) * 4
    assert (level.phases.baseline, level.steady_state.reached, level.planned.level) == (None,) * 3


def test_levels_keep_their_order_and_unknown_keys_are_ignored(tmp_path: Path) -> None:
    """A newer writer may add keys at any depth, and append levels in any order."""
    levels = [{"concurrency": 8, "later_field": [1]}, {"concurrency": 1, "ttft_ms": {"p50": None, "p999": 3}}]
    summary = read_summary(written(tmp_path, whole({"levels": levels, "later": True, "conditions": {"moon": "full"}})))
    assert [level.concurrency for level in summary.levels] == [8, 1]
    assert [level.concurrency for level in summary.by_concurrency().levels] == [1, 8]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "summary.json: not JSON"),
        ("[" * 100_000, "summary.json: not JSON"),
        ("[]", "schema_version: expected 1 or 2, found null"),
        (
            SMALLEST | {"schema_version": 3},
            "schema_version: expected 1 or 2, found 3; render the run with the Loadproof",
        ),
        (SMALLEST | {"schema_version": 3, "loadproof_version": "9.1"}, "the Loadproof that wrote it (9.1), or a later"),
        (SMALLEST | {"verdict": {"outcome": "GREEN"}}, "verdict.outcome: Input should be 'PASS', 'FAIL'"),
        (SMALLEST | {"levels": [{"concurrency": 1}]}, "levels.0.requests: Field required"),
        (whole({"levels": [{"concurrency": 1, "ttft_ms": {"p50": "soon"}}]}), "levels.0.ttft_ms.p50: "),
        (whole({"levels": [{"concurrency": 1, "duration_s": float("nan")}]}), "levels.0.duration_s: "),
    ],
)
def test_a_wrong_summary_is_named_with_its_place(tmp_path: Path, content: Any, message: str) -> None:
    """Place, found and allowed are in the error, whatever is wrong."""
    with pytest.raises(InputError) as caught:
        read_summary(written(tmp_path, content))
    assert message in str(caught.value)


def test_a_folder_without_a_summary_says_what_to_give(tmp_path: Path) -> None:
    """The error tells that a run's folder is wanted."""
    with pytest.raises(InputError, match=r"summary\.json: not found; give the folder of a run"):
        read_summary(tmp_path)


def test_a_run_that_was_cut_off_says_how_to_finish_it(tmp_path: Path) -> None:
    """kill -9 leaves a plan and no summary."""
    written(tmp_path, {})
    (tmp_path / "summary.json").rename(tmp_path / "plan.json")
    with pytest.raises(InputError, match=f"the run was cut off; finish it with loadproof bench --resume {tmp_path}"):
        read_summary(tmp_path)


def a_run(profile: ProfileRef | None = None) -> tuple[RunPlan, RecordFile]:
    """One request in flight, once, 10 ms from token to token."""
    target = Target("openai", "http://localhost:1/v1/completions", "openai")
    spec = BenchmarkSpec(target, WorkloadSpec(fixed_tokens(10), fixed_tokens(4)), (1,), 1, profile=profile)
    plan = RunPlan("run", "2026-11-21T10:00:00Z", 0, spec, {"loadproof": "0"}, ("2026-11-21T10:00:00Z",))
    return plan, RecordFile((record(token_ms=(5, 15, 25, 35), end_ms=35),), 0)


def test_what_is_read_is_what_was_written() -> None:
    """And what is written again is the same, key by key: what was absent stays absent, what was null stays null."""
    document: dict[str, Any] = as_json(build_summary(*a_run()))
    assert as_json(summary_of(document, "summary.json")) == document
    assert document["levels"][0]["planned"] == {"level": 0, "process": "closed", "concurrency": 1, "requests": 2}
    assert document["profile"] is None and "imported" not in document["conditions"]


def test_the_profile_itself_stays_in_the_plan() -> None:
    """The summary has name, file, hash and environment."""
    profile = ProfileRef("chat", "chat.yaml", "0" * 64, "dev", {"name": "chat"})
    document: dict[str, Any] = as_json(build_summary(*a_run(profile)))
    brief = {"name": "chat", "file": "chat.yaml", "sha256": "0" * 64, "environment": "dev"}
    assert document["profile"] == brief


@pytest.mark.parametrize("name", ["first_version.json", "before_the_type.json"])
def test_old_runs_are_read(name: str) -> None:
    """`first_version` lacks every key that came later; `before_the_type` was written as a dictionary, to the byte."""
    text = (OLD / name).read_text(encoding="utf-8")
    summary = summary_of(json.loads(text), name)
    [first, *_] = summary.levels
    assert (first.concurrency, first.ttft_ms.p50, summary.verdict.outcome) == EXPECTED[name]
    Draft202012Validator(summary_schema()).validate(json.loads(text))
    if name == "before_the_type.json":
        assert _holds(as_json(summary), json.loads(text))


def _holds(whole: Any, part: Any) -> bool:
    """Every key and value of `part` is in `whole`; what came later is besides."""
    if isinstance(part, dict):
        return part.keys() <= whole.keys() and all(_holds(whole[key], value) for key, value in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(_holds, whole, part))
    return bool(whole == part)


EXPECTED = {"first_version.json": (1, 42.0, "PASS"), "before_the_type.json": (1, 53.5, "INCONCLUSIVE")}


def test_the_schema_names_every_key_in_words() -> None:
    """No key without a description, at any depth; what every version wrote is required, what came later is not."""
    schema = summary_schema()
    parts = {"Summary": schema} | schema["$defs"]
    keys = {f"{name}.{key}": one for name, part in parts.items() for key, one in part["properties"].items()}
    assert [name for name, one in keys.items() if not one.get("description")] == []
    assert keys["Summary.schema_version"]["enum"] == [1, 2]
    level = schema["$defs"]["Level"]
    assert {"concurrency", "requests", "ttft_ms", "valid"} <= set(level["required"])
    assert {"phases", "loop_lag_ms"} & set(level["required"]) == set()
    assert keys["Level.goodput_per_s"]["description"] == "successful ones inside every latency bound"


@pytest.mark.parametrize("change", [{"run_id": 7}, {"schema_version": 3}, {"levels": [{"concurrency": 1}]}])
def test_the_schema_refuses_what_the_reader_refuses(change: dict[str, Any]) -> None:
    """A wrong type, another version, a level without its figures."""
    wrong = json.loads((OLD / "first_version.json").read_text(encoding="utf-8")) | change
    assert not Draft202012Validator(summary_schema()).is_valid(wrong)
    with pytest.raises(InputError):
        summary_of(wrong, "summary.json")
