"""The pace as people read it is the pace by which consumers go."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.cli.queue.view import duration, pace_words, status_lines
from loadproof.invocation.buffer import BufferStatus, PaceNow
from loadproof.invocation.buffer.status import pace_now
from loadproof.wire.pace import Record

shares = st.floats(0, 1)


@given(shares, shares, st.integers(0, 2_000_000), st.integers(0, 60_000))
def test_the_share_is_the_consumers(peak: float, low: float, cut_ms: int, later_ms: int) -> None:
    """One record, one moment, one number on both sides."""
    item = {"peak": {"N": repr(peak)}, "low": {"N": repr(low)}, "cut_ms": {"N": str(cut_ms)}}
    now_s = (cut_ms + later_ms) / 1000
    expected = max(0.0, Record(peak=peak, low=low, cut_ms=cut_ms).share(now_s))
    assert pace_now(item, now_s).share == pytest.approx(expected)


def test_without_a_record_the_pace_is_open() -> None:
    """A buffer that never was refused has none."""
    assert pace_now({}, 1_790_000_000.0) == PaceNow("open", 1.0)


@pytest.mark.parametrize(
    ("pace", "slots", "words"),
    [
        (PaceNow(), 20, "open, 20 in flight at most"),
        (PaceNow(share=0.35), 20, "slowed to 7 of 20 (35%)"),
        (PaceNow(share=0.01), 20, "slowed to 1 of 20 (1%)"),
        (PaceNow(share=0.5), None, "slowed to 50%"),
        (
            PaceNow("no_capacity", 0.0, 870_000, 1_012_000),
            20,
            "closed since 2:10 (no copy is up), next probe in 0:12",
        ),
        (
            PaceNow("unavailable", 0.0, 1_000_000, 999_000),
            None,
            "closed since 0:00 (nothing is answered), next probe due",
        ),
    ],
)
def test_the_pace_in_words(pace: PaceNow, slots: int | None, words: str) -> None:
    """As of second 1,000."""
    assert pace_words(pace, slots, 1000.0) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(7, "0:07"), (750, "12:30"), (3723, "1:02:03"), (273_700, "3 d 4 h"), (-5, "0:00")]
)
def test_durations_in_words(seconds: float, words: str) -> None:
    """Seconds up to two days, then days."""
    assert duration(seconds) == words


def test_the_status_is_a_plain_table() -> None:
    """What is where, one a line, and the dead letters' reasons under their number, the most frequent first."""
    status = BufferStatus(12_345, 8, 2, 3, 61.0, PaceNow())
    reasons, phases = Counter({"b": 1, "a": 2}), Counter({"done": 5, "claimed": 1})
    assert status_lines(status, reasons, phases, 20, 1000.0) == [
        "waiting       12,345",
        "in flight     8",
        "delayed       2",
        "oldest        1:01",
        "pace          open, 20 in flight at most",
        "keys          1 claimed, 5 done",
        "dead letters  3",
        "        2  a",
        "        1  b",
    ]
