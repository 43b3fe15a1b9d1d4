"""The run over time, from requests."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.measure.scaling import CopyCount
from loadproof.bench.report.timeline import DRAWN_REQUESTS, read_timeline, timeline_of
from loadproof.bench.report.timeline_charts import timeline

MS = 1_000_000


def request(intended_ms: int, first_ms: int | None, end_ms: int, **changes: Any) -> RequestRecord:
    plain = RequestRecord(
        phase="measured",
        session=0,
        level=0,
        concurrency=2,
        index=intended_ms,
        intended_ns=intended_ms * MS,
        dispatched_ns=intended_ms * MS,
        sent_ns=intended_ms * MS,
        first_token_ns=None if first_ms is None else first_ms * MS,
        last_token_ns=None if first_ms is None else end_ms * MS,
        end_ns=end_ms * MS,
        token_times_ns=(),
        tokens_at=(),
        stalls_ns=(),
        planned_input_tokens=1,
        planned_output_tokens=1,
        input_tokens=1,
        output_tokens=1,
        token_source="server",
        outcome="ok",
    )
    return dataclasses.replace(plain, **changes)


def test_in_flight_counts_up_at_the_intended_send_and_down_at_the_end() -> None:
    """Two overlapping requests, then one that takes over a slot at the same instant: 1, 2, 2 (no dip), 1, 0."""
    run = timeline_of([request(1000, 1100, 1500), request(1200, 1300, 2000), request(1500, 1600, 2500)])
    assert run.in_flight == ((0.0, 1), (0.2, 2), (0.5, 2), (1.0, 1), (1.5, 0))
    assert run.ttft == ((0.0, 100.0), (0.2, 100.0), (0.5, 100.0))


def test_a_failed_request_is_marked_and_has_no_latency() -> None:
    """Failure: a mark where it ended, at the count then. Canceled: neither a failure nor a latency."""
    run = timeline_of(
        [request(0, None, 300, outcome="throttled"), request(0, 50, 400), request(0, None, 500, outcome="canceled")]
    )
    assert run.failures == ((0.3, 3),)
    assert run.ttft == ((0.0, 50.0),)
    assert run.requests == 3


def test_rests_between_sessions_are_cut_to_two_seconds() -> None:
    """A run resumed an hour later shows its second session 2 s after the end of the first."""
    hour_ms = 3_600_000
    run = timeline_of([request(0, 10, 100), request(hour_ms, hour_ms + 10, hour_ms + 100, session=1)])
    assert run.sessions == 2
    assert [seconds for seconds, _ in run.ttft] == [0.0, 2.1]


def test_errors_are_counted_in_the_bins_of_the_answers() -> None:
    """60 bins of 0.1 s: two failures in the first are 20 a second, the answer at 6 s is 10 a second in the last."""
    run = timeline_of(
        [request(0, None, 20, outcome="throttled"), request(0, None, 50, outcome="throttled"), request(0, 50, 6000)]
    )
    assert [rate for _, rate in run.errors] == [20.0] + [0.0] * 59
    assert [rate for _, rate in run.rates] == [0.0] * 59 + [10.0]
    assert [at for at, _ in run.errors] == [at for at, _ in run.rates]


def test_pictures_share_one_axis_of_time() -> None:
    """Whatever their values need at the y axis: a second is at the same place in every one, in both sizes."""
    run = timeline_of([request(0, 12_345, 20_000), request(5_000, None, 30_000, outcome="throttled")])
    pictures = timeline(run, [CopyCount(at_s=0.0, current=1, desired=2)])
    assert list(pictures) == ["rate", "in-flight", "ttft", "errors", "copies"]
    axes = [re.findall(r'class="axis" points="([0-9.]+),[0-9.]+ ([0-9.]+),', str(one)) for one in pictures.values()]
    assert axes[0] and all(one == axes[0] for one in axes)


def test_thinning_keeps_the_slowest_request() -> None:
    """5,001 requests are drawn as at most 2,000 marks, and the one peak of 900 ms is among them."""
    records = [request(at, at + (900 if at == 3333 else 20), at + 1000) for at in range(5001)]
    run = timeline_of(records)
    assert run.thinned
    assert len(run.ttft) <= DRAWN_REQUESTS
    assert max(ttft for _, ttft in run.ttft) == 900.0
    assert run.in_flight[-1][1] == 0


def test_warm_up_and_torn_lines_are_left_out(tmp_path: Path) -> None:
    """A killed run's last half line and its warm-up requests do not show; without any request there is no timeline."""
    assert read_timeline(tmp_path) is None
    lines = [json.dumps(dataclasses.asdict(one)) for one in (request(0, 5, 9, phase="warmup"), request(10, 15, 19))]
    (tmp_path / "requests.jsonl").write_text("\n".join([*lines, lines[1][:40]]))
    run = read_timeline(tmp_path)
    assert run is not None
    assert (run.requests, run.ttft) == (1, ((0.0, 5.0),))
