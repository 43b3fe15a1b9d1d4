"""A trace in figures, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.bench.learn.fitting import fit
from loadproof.bench.learn.reading import read_recorded
from loadproof.bench.learn.traced import seen_before
from loadproof.bench.workload import traces
from loadproof.bench.workload.traces import TooManyError, TraceRow, trace_of


def test_what_a_cache_without_an_end_finds() -> None:
    """Of 1,100 + 1,600 + 1,100 tokens: nothing, two blocks of 512, and all of the third's; an id after a new one is
    none, since what came before it differs."""
    prompts = [(1100, (1, 2, 3)), (1600, (1, 2, 9, 3)), (1100, (1, 2, 3))]
    rows = [TraceRow(float(at), tokens, 10, blocks) for at, (tokens, blocks) in enumerate(prompts)]
    assert seen_before(rows) == pytest.approx((2 * 512 + 1100) / 3800)


OWN = "timestamp_s,input_tokens,output_tokens\n" + "".join(f"{1000 + at},{100 + at},{10 + at % 3}\n" for at in range(9))
NAMED = "startTime,prompt_tokens,completion_tokens,session_id\n" + "".join(
    f"2026-01-05 10:00:{at:02d},{100 + 60 * (at // 3)},50,s{at % 3}\n" for at in range(9)
)


def test_of_more_requests_than_are_held_a_part_can_be_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after it is not read, bad rows included; all of it at once is refused with the way out."""
    path = tmp_path / "long.csv"
    path.write_text(OWN + "no time,1,1\n")
    monkeypatch.setattr(traces, "MOST_REQUESTS", 5)
    assert [row.input_tokens for row in trace_of(path, until_s=3).rows] == [100, 101, 102]
    assert [row.input_tokens for row in trace_of(path, speed=2, until_s=1.5).rows] == [100, 101, 102]
    with pytest.raises(TooManyError, match="more than 5 rows; play less of it"):
        trace_of(path)


@pytest.mark.parametrize("text", [OWN, NAMED])
def test_a_trace_of_any_number_of_requests_is_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Row by row: what is learned is what it would be of a trace that is held."""
    path = tmp_path / "long.csv"
    path.write_text(text)
    held = read_recorded([str(path)])
    monkeypatch.setattr(traces, "MOST_REQUESTS", 5)
    long = read_recorded([str(path)])
    assert (fit(long), long.dated, long.began_s, long.notes) == (fit(held), held.dated, held.began_s, held.notes)
    assert len(long) == 9 and not long.rows
    assert fit(held).turns == (3 if text is NAMED else 1)
