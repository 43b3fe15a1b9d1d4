"""`scripts/accuracy.py --add`: a further published table among the rows that nothing was fitted on."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from loadproof.capacity.rows import GIVEN

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))

import accuracy_unseen  # noqa: E402

# InferenceMAX, 2026-01: gpt-oss-120b on two H200, 922 in and out, 4 in flight.
ROW = dict(zip(GIVEN, ("gpt-oss-120b", "ml.p5e.48xlarge", "1", "2", "922", "922", "4", "vLLM 0.11.2"), strict=True))


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The rows never fitted, of which there are none yet."""
    path = tmp_path / "unseen.csv"
    path.write_text("source,table,model,server,latency_mean_ms_per_token\n")
    monkeypatch.setattr(accuracy_unseen, "ROWS", path)
    return path


def table(tmp_path: Path, **columns: str) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text(",".join([*ROW, *columns]) + "\n" + ",".join([*ROW.values(), *columns.values()]) + "\n")
    return path


def test_an_added_table_is_kept_with_where_it_is_from(rows: Path, tmp_path: Path) -> None:
    """Source, date and licence of its figures stand in each row; the table is named after its file."""
    accuracy_unseen.add(table(tmp_path, latency_ms_per_token="5.0"), "example.org/benchmarks", "2026-01-31", "MIT")
    with rows.open(newline="") as handle:
        (row,) = csv.DictReader(handle)
    assert row["source"] == "example.org/benchmarks (2026-01-31; figures: MIT)"
    assert (row["table"], row["latency_mean_ms_per_token"]) == ("mine", "5.0")


def test_what_is_said_of_a_table_is_its_distance_from_the_prediction(rows: Path, tmp_path: Path) -> None:
    """Measured 1 ms a token where some 5 are predicted: hundreds of per cent off, and outside the range."""
    added = accuracy_unseen.add(table(tmp_path, latency_ms_per_token="1.0"), "example.org", "2026-01-31", "MIT")
    (cell,) = accuracy_unseen.unseen_rows(added)
    assert cell.figure == "mean latency" and cell.error > 2 and not cell.inside
    assert any("| mine |" in line for line in accuracy_unseen.lines_of([cell]))


def test_a_table_is_not_added_twice(rows: Path, tmp_path: Path) -> None:
    """Its rows would count twice."""
    path = table(tmp_path, ttft_ms="50")
    accuracy_unseen.add(path, "example.org", "2026-01-31", "MIT")
    with pytest.raises(SystemExit, match="is there already"):
        accuracy_unseen.add(path, "example.org", "2026-01-31", "MIT")


@pytest.mark.parametrize(
    ("columns", "said"),
    [({}, "no measured figure"), ({"ttft_ms": "50", "model": "nobody's"}, "mine.csv:2: cannot be predicted")],
)
def test_a_table_of_no_use_is_refused_with_the_reason(
    rows: Path, tmp_path: Path, columns: dict[str, str], said: str
) -> None:
    """Nothing to compare, or a model that the catalog does not know."""
    before = rows.read_text()
    with pytest.raises(SystemExit, match=said):
        accuracy_unseen.add(table(tmp_path, **columns), "example.org", "2026-01-31", "MIT")
    assert rows.read_text() == before
