"""Reading `summary.json`: what is missing is no data, what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report.reading import read_summary
from loadproof.errors import InputError

SMALLEST: dict[str, Any] = {"schema_version": 1, "run_id": "r", "verdict": {"outcome": "INCONCLUSIVE"}}


def written(folder: Path, content: Any) -> Path:
    (folder / "summary.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_what_is_missing_is_no_data(tmp_path: Path) -> None:
    """A level with nothing but its concurrency reads: every figure is None, none is 0."""
    summary = read_summary(written(tmp_path, SMALLEST | {"levels": [{"concurrency": 4, "ttft_ms": {"p50": None}}]}))
    level = summary.levels[0]
    assert (level.ttft_ms.p50, level.e2e_ms.p99, level.output_tokens_per_s, level.errors) == (None,) * 4


def test_levels_come_sorted_and_unknown_fields_are_ignored(tmp_path: Path) -> None:
    """A writer may add fields and append levels in any order."""
    levels = [{"concurrency": 8, "later_field": [1]}, {"concurrency": 1}]
    summary = read_summary(written(tmp_path, SMALLEST | {"levels": levels, "later": True}))
    assert [level.concurrency for level in summary.levels] == [1, 8]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "summary.json: not JSON"),
        ("[" * 100_000, "summary.json: not JSON"),
        ("[]", "schema_version: expected 1, found null"),
        (SMALLEST | {"schema_version": 2}, "schema_version: expected 1, found 2; render the run with the Loadproof"),
        (SMALLEST | {"verdict": {"outcome": "GREEN"}}, "verdict.outcome: Input should be 'PASS', 'FAIL'"),
        (SMALLEST | {"levels": [{"concurrency": 1, "ttft_ms": {"p50": "soon"}}]}, "levels.0.ttft_ms.p50: "),
        (SMALLEST | {"levels": [{"concurrency": 1, "duration_s": float("nan")}]}, "levels.0.duration_s: "),
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
