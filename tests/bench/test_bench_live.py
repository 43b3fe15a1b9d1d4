"""What is told of a run while it goes: figures, the verdict so far, a screen and a line that cut no word, JSON."""

from __future__ import annotations

import io
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from bench_live_lines import PROGRESS, SO_FAR, START, state
from bench_records import record
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from loadproof.bench.live.lines import Ahead, End, Latency, Line, Loaded, Progress
from loadproof.bench.live.meter import Budget, Meter, Tally, Watch, start_of
from loadproof.bench.live.schema import live_schema, parsed
from loadproof.bench.live.screen import State, frame
from loadproof.bench.live.so_far import MOST_REQUESTS, Sample
from loadproof.bench.live.stream import Stream
from loadproof.bench.live.view import View
from loadproof.bench.live.words import duration, fitting, one_line
from loadproof.bench.load.batches import measured_batch
from loadproof.bench.measure.records import RecordFile, RequestRecord
from loadproof.bench.objectives import Objective
from loadproof.bench.plan import RunPlan, planned_in_full
from loadproof.bench.spec import BenchmarkSpec, Target, WorkloadSpec, fixed_tokens
from loadproof.bench.summary import build_summary
from loadproof.errors import InputError
from loadproof.loads import Load

SPEC = BenchmarkSpec(
    Target("sagemaker", "demo", "tgi"),
    WorkloadSpec(fixed_tokens(8), fixed_tokens(4)),
    concurrency=(2,),
    requests_per_level=40,
    objectives=(Objective("ttft_p95_ms", 100.0), Objective("requests_per_s_min", 1.0)),
)


def plan_of(spec: BenchmarkSpec = SPEC) -> RunPlan:
    utc = "2026-11-21T10:15:00Z"
    return planned_in_full(RunPlan("r", utc, 0, spec, {"loadproof": "0.1.0"}, (utc,)))


def answer(index: int, ttft_ms: float = 50.0, **others: object) -> RequestRecord:
    """One of two slots' requests, 100 ms each."""
    start_ms = index // 2 * 100.0
    tokens = tuple(start_ms + ttft_ms + 10 * k for k in range(4))
    return record(index, concurrency=2, intended_ms=start_ms, token_ms=tokens, end_ms=start_ms + 100, **others)


def words_of(rows: list[str]) -> set[str]:
    return {word for row in rows for word in row.split() if not set(word) <= set(" ▁▂▃▄▅▆▇█░")}


@given(st.integers(60, 200), st.integers(16, 60), st.booleans(), st.sampled_from(["measured", "warmup"]))
def test_no_word_of_the_screen_is_cut(columns: int, height: int, judged: bool, phase: str) -> None:
    """At any size: no row is wider or lower than the screen, and every word is one of those that a wide one has."""
    shown = state(replace(PROGRESS, phase=phase), SO_FAR if judged else None)  # type: ignore[arg-type]
    rows = frame(shown, columns, height)
    assert len(rows) <= height and max(cell_len(text) for text, _ in rows) <= columns
    narrow, wide = words_of([text for text, _ in rows]), words_of([text for text, _ in frame(shown, 400, 60)])
    assert narrow <= wide | {"2", "before", "after", "1"}


def test_the_screen_has_all_at_80_columns() -> None:
    """Levels done, now and to come; latency and its histogram; in flight; errors; client; time left; verdict."""
    text = "\n".join(row for row, _ in frame(state(), 80, 24))
    for words in (
        "Loadproof chat", "  1 in flight ·     64/64", "> 2 in flight ·     23/64", "  8 in flight · to come",
        "Load 23/64 · 14 s left · 3 min 20 s with the levels to come", "In flight 2 · 1 waiting for the first token",
        "3 errors · 2 throttled · 1 timeout", "Client 12% of a core · sends late by p99 0.41 ms",
        "TTFT in ms, so far · p50 212 · p95 380 · p99 412", "█",
        "Verdict so far: INCONCLUSIVE · by 23 requests · at 2 in flight",
        "ttft_p95_ms             · 380 <= 500 · 95% 301 to unknown · INCONCLUSIVE",
    ):  # fmt: skip
        assert words in text


def test_many_levels_are_shown_around_the_one_of_now() -> None:
    """Of 60 levels as many as there is room for, and how many there are before and after."""
    shown = State()
    shown.take(replace(START, levels=tuple(Ahead(f"{slots} in flight", 8, None, False) for slots in range(1, 61))))
    shown.take(replace(PROGRESS, level=29, levels=60, load="30 in flight"))
    rows = [text for text, _ in frame(shown, 80, 24)]
    assert rows[2].startswith("Levels · ") and rows[2].endswith(" after")
    assert any(row.startswith("> 30 in flight") for row in rows)


@given(st.lists(st.tuples(st.floats(0.01, 1e6), st.integers(1, 500)), min_size=1, max_size=150), st.integers(60, 200))
def test_a_histogram_fits(found: list[tuple[float, int]], columns: int) -> None:
    """Latencies from 10 µs to a quarter of an hour in one picture; every bucket has a bar."""
    tally = Tally()
    for value_ms, count in found:
        for _ in range(count % 7 + 1):
            tally.add(value_ms)
    rows = frame(state(replace(PROGRESS, ttft=tally.told())), columns, 40)
    assert max(cell_len(text) for text, _ in rows) <= columns


def test_one_line_fits_80_columns() -> None:
    """The least of it gives way whole: rate, time left, then latency."""
    assert one_line(PROGRESS, SO_FAR, 80) == "level 2/4 · 2 in flight · 23/64 · 3 errors · so far INCONCLUSIVE"
    assert one_line(PROGRESS, SO_FAR, 90) == (
        "level 2/4 · 2 in flight · 23/64 · TTFT p50 212 ms · 3 errors · so far INCONCLUSIVE"
    )
    assert one_line(PROGRESS, None, 80) == "level 2/4 · 2 in flight · 23/64 · 14 s left · TTFT p50 212 ms · 3 errors"


@given(st.lists(st.tuples(st.integers(0, 5), st.text("abc", max_size=30)), max_size=9), st.integers(0, 120))
def test_pieces_are_left_out_whole(pieces: list[tuple[int, str]], width: int) -> None:
    """What is shown is a part of the pieces, in their order, and no wider than asked."""
    shown = fitting(pieces, width)
    assert len(shown) <= max(width, 0)
    rest = iter(words for _, words in pieces)
    assert all(words in rest for words in shown.split(" · ") if words)


def test_a_run_without_an_answer_says_what_it_waits_for() -> None:
    """Seconds, requests in flight, whether any has a token, and how old the oldest is; never a bare 0."""
    none = Latency(0, None, None, None, ())
    hanging = replace(
        PROGRESS, done=0, in_flight=4, waiting=3, elapsed_s=12.4, oldest_s=12.3, left_s=None, ttft=none, e2e=none
    )
    assert one_line(hanging, None, 120) == (
        "level 2/4 · 2 in flight · 0/64 · 12 s · 4 in flight · 3 waiting for the first token · oldest 12 s"
    )
    assert "all streaming" in one_line(replace(hanging, waiting=0), None, 120)
    assert "no answer yet" in one_line(replace(hanging, waiting=None), None, 120)


def test_a_level_by_time_has_no_total() -> None:
    """Nor has a search a number of levels; an open loop goes by its rate, an answer that came whole by its end."""
    progress = replace(
        PROGRESS, levels=None, load="poisson 3 requests/s", total=None, ttft=Latency(0, None, None, None, ()), errors=1
    )
    said = one_line(progress, None, 120)
    assert said == "level 2 · poisson 3 requests/s · 23 · 14 s left · E2E p50 640 ms · 1 error · 2.9 requests/s"


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (3600, "1 h 00 min"), (7500, "2 h 05 min")]
)
def test_time_left_in_words(seconds: float, said: str) -> None:
    """As much of it as anybody waits by."""
    assert duration(seconds) == said


def plain(now_s: list[float]) -> tuple[View, io.StringIO]:
    stream = io.StringIO()
    return View(Console(file=stream, width=500), clock_s=lambda: now_s[0]), stream


def test_a_log_has_a_line_every_five_seconds_and_at_each_levels_end() -> None:
    """No cursor movements; warm-up only where it takes long; a line is 80 columns at most, whatever the log's width."""
    now_s = [0.0]
    view, stream = plain(now_s)
    with view:
        for at_s, phase, done in ((4.9, "warmup", 1), (5.0, "warmup", 2), (9.9, "measured", 3), (10.0, "measured", 64)):
            now_s[0] = at_s
            view.tell(replace(PROGRESS, phase=phase, done=done, ended=done == 64))  # type: ignore[arg-type]
    lines = stream.getvalue().splitlines()
    assert ["warm-up · 2/64" in lines[0], "2 in flight · 64/64" in lines[1], len(lines)] == [True, True, 2]
    assert "\x1b" not in stream.getvalue() and max(map(len, lines)) <= 80


@given(st.lists(st.floats(0.05, 1e5), min_size=1, max_size=300))
def test_live_percentiles_are_good_to_one_percent(values: list[float]) -> None:
    """Against the same order statistic of the values themselves."""
    tally = Tally()
    for value_ms in values:
        tally.add(value_ms)
    told = tally.told()
    for share, found in ((0.5, told.p50_ms), (0.95, told.p95_ms), (0.99, told.p99_ms)):
        exact = sorted(values)[math.ceil(share * len(values)) - 1]
        assert found is not None and abs(found - exact) <= 0.0101 * exact + 0.0005  # to the microsecond
    assert sum(count for _, count in told.buckets) == told.count == len(values)


def test_the_verdict_so_far_is_the_judges() -> None:
    """Of a level that ended, what summary.json says of it: the same outcome, interval and observed value."""
    records = tuple(answer(index, 40 + index % 7) for index in range(40))
    sample = Sample(plan_of(), 0)
    for one in records:
        sample.add(one)
    so_far, summary = sample.judged(40, 0), build_summary(plan_of(), RecordFile(records, 0))
    assert (so_far.outcome, so_far.requests, so_far.of) == (summary.verdict.outcome, 40, 40)
    ours = [(one.name, one.observed, one.low, one.high, one.verdict) for one in so_far.objectives]
    assert ours == [(one.name, one.observed, one.low, one.high, one.verdict) for one in summary.objectives]


def test_a_long_level_is_judged_by_a_part_of_it() -> None:
    """Of 6,000 requests every 16th; 20 a second, whichever part is looked at; the failed ones are counted whole."""
    sample = Sample(plan_of(), 0)
    for index in range(6000):
        sample.add(answer(index))
    so_far = sample.judged(6000, 3)
    assert (so_far.requests, so_far.of) == (375, 6000) and so_far.requests <= MOST_REQUESTS
    assert so_far.objectives[1].observed == pytest.approx(20, rel=0.02)
    assert so_far.outcome == "FAIL" and "3 of 6000" in " ".join(so_far.reasons)


class Fixture:
    """A meter on a clock and a CPU of our own."""

    under_way = {(0, 1): 0}  # noqa: RUF012

    def __init__(self, spec: BenchmarkSpec = SPEC, share: float = 1.0) -> None:
        self.lines: list[Line] = []
        self.now_ns, self.cpu_s = 0, 1.0
        plan = plan_of(spec)
        batch = measured_batch(plan, 0, ())
        assert batch is not None
        watch = Watch(self.lines.append, self, lambda: 1, lambda: self.cpu_s, lambda: self.now_ns)
        watch.lines = watch.verdicts = Budget(share, lambda: self.cpu_s)
        self.meter = Meter(watch, plan, batch, plan.levels[0].requests, 0)

    @property
    def last(self) -> Progress:
        return [line for line in self.lines if isinstance(line, Progress)][-1]

    def at(self, second: float, one: RequestRecord) -> None:
        self.now_ns = round(second * 1e9)
        self.meter.add(one)


def test_figures_of_a_phase() -> None:
    """Worked by hand: 2 of 40 ended in 2 s, one of them badly; 38 more take 38 s; a core was used by half."""
    it = Fixture()
    it.at(0.2, answer(0))
    it.cpu_s = 2.0
    it.at(2.0, answer(1, outcome="throttled", lag_ms=3))
    last = it.last
    assert (last.done, last.errors, last.errors_by_kind) == (2, 1, {"throttled": 1})
    assert (last.requests_per_s, last.output_tokens_per_s, last.left_s, last.run_left_s) == (1.0, 2.0, 38.0, 38.0)
    assert (last.client.cpu_share, last.client.late_p99_ms) == (0.5, 3.0)
    assert (last.in_flight, last.oldest_s, last.ttft.count) == (1, 2.0, 1)


def test_the_run_lasts_as_long_as_its_levels() -> None:
    """Answers take 0.1 s: after 20 s more here come 40 requests at 4 in flight (1 s) and a level of a minute."""
    loads = (Load(concurrency=2, requests=40), Load(concurrency=4, requests=40), Load(concurrency=8, duration_s=60))
    it = Fixture(replace(SPEC, loads=loads))
    for index in range(20):
        it.at(index + 1, answer(index))
    assert it.last.left_s == 20.0 and it.last.run_left_s == pytest.approx(81.0)


def test_what_it_costs_is_held_to_a_share() -> None:
    """Once more was spent than the share of the client's CPU allows, a line comes every four seconds, no verdict."""
    it = Fixture(share=1e-9)
    for tenth in range(1, 101):
        it.at(tenth / 10, answer(tenth))
    shown = [line for line in it.lines if isinstance(line, Progress)]
    assert len(shown) == 3 and not [line for line in it.lines if not isinstance(line, Progress)]


def test_lines_come_four_times_a_second_at_most() -> None:
    """Of an answer every 10 ms for 9.9 s, each 26th shows; and a verdict after five seconds."""
    it = Fixture(replace(SPEC, requests_per_level=1000))
    for hundredth in range(1, 991):
        it.at(hundredth / 100, answer(hundredth))
    kinds = [line.type for line in it.lines]
    assert (kinds.count("progress"), kinds.count("verdict_so_far")) == (990 // 26, 1)


LINES: tuple[Line, ...] = (
    START,
    start_of(plan_of()),
    PROGRESS,
    SO_FAR,
    Loaded(False),
    End("PASS", ("all held",), 0, "runs/r"),
    End(None, ("no",), 3, None),
)


def test_every_line_of_the_stream_has_the_schema(tmp_path: Path) -> None:
    """Numbered, timed, one JSON object a line; and what was written reads back as what was told."""
    file = tmp_path / "live.jsonl"
    with Stream(str(file), lambda: 1795392404.5) as stream:
        for line in LINES:
            stream.write(line)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    validator = jsonschema.Draft202012Validator(live_schema())
    for number, (row, line) in enumerate(zip(rows, LINES, strict=True)):
        validator.validate(row)
        assert (row.pop("seq"), row.pop("unix_s")) == (number, 1795392404.5)
        assert parsed(row) == line


def test_each_line_is_there_at_once(tmp_path: Path) -> None:
    """Nothing waits in a buffer: a follower has the line before the next is told."""
    file = tmp_path / "live.jsonl"
    with Stream(str(file)) as stream:
        for number, line in enumerate(LINES, start=1):
            stream.write(line)
            assert file.read_bytes().count(b"\n") == number


def test_a_fifo_needs_no_reader_and_waits_for_none(tmp_path: Path) -> None:
    """A thousand lines into a FIFO that nobody reads: what fits is there, whole lines only; later ones go on as it is
    emptied, and the numbers show the gap."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with Stream(str(fifo)) as stream:
        for _ in range(1000):
            stream.write(PROGRESS)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        first = os.read(reader, 1 << 20)
        stream.write(SO_FAR)
        stream.write(End("PASS", (), 0, None))
        rows = [json.loads(line) for line in (first + os.read(reader, 1 << 20)).splitlines()]
        os.close(reader)
    numbers = [row["seq"] for row in rows]
    assert numbers[:40] == list(range(40)) and numbers[-2:] == [1000, 1001]


def test_a_reader_that_leaves_ends_the_stream_and_nothing_else(tmp_path: Path) -> None:
    """A pipe whose other end is closed: no line is written, none is an error."""
    reading, writing = os.pipe()
    with Stream(f"/dev/fd/{writing}") as stream:
        os.close(reading)
        stream.write(PROGRESS)
        stream.write(PROGRESS)
    os.close(writing)


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Before any load."""
    with pytest.raises(InputError, match=r"--live .*cannot be written"):
        Stream(str(tmp_path / "missing" / "live.jsonl"))
