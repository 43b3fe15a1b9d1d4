"""The full-screen view of a run, drawn from what is told of it: plain lines, so that a frame costs the client little.

A frame is text and a style a line. Of a frame only the lines that changed are written, each whole: the terminal never
has to wrap or cut one, since what does not fit its width is left out by pieces.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from rich.cells import cell_len
from rich.console import Console

from loadproof.bench.live import words
from loadproof.bench.live.lines import BUCKET_GROWTH, Ahead, Latency, Line, Progress, SoFar, Start
from loadproof.untrusted import with_escapes

LEAST_COLUMNS, LEAST_ROWS = 60, 16
SUSPENDED_S = 10.0  # nothing drawn for so long: the process slept, and the terminal may show something else
_BARS = " ▁▂▃▄▅▆▇█"
_BAR_ROWS = 3
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[2J", "\x1b[0m\x1b[?25h\x1b[?1049l"

Style = Literal["", "bold", "dim", "green", "yellow", "red", "magenta"]
_SGR: dict[Style, str] = {"bold": "1", "dim": "2", "green": "1;32", "yellow": "1;33", "red": "1;31", "magenta": "1;35"}
_OUTCOMES: dict[str, Style] = {"PASS": "green", "FAIL": "red", "INCONCLUSIVE": "yellow", "INVALID": "magenta"}
Row = tuple[str, Style]


@dataclass(slots=True)
class State:
    """What has been told so far."""

    start: Start | None = None
    levels: dict[int, str] = field(default_factory=dict)  # in words; of a search those it came to
    measured: dict[int, Progress] = field(default_factory=dict)  # the last line of each level's load
    verdicts: dict[int, SoFar] = field(default_factory=dict)
    now: Progress | None = None

    def take(self, line: Line) -> None:
        if isinstance(line, Start):
            self.start = line
            self.levels = {index: level.load for index, level in enumerate(line.levels)}
        elif isinstance(line, Progress):
            self.now = line
            self.levels[line.level] = line.load
            if line.phase == "measured":
                self.measured[line.level] = line
        elif isinstance(line, SoFar):
            self.verdicts[line.level] = line


class Screen:
    """Draws on a terminal's second page from the first progress on; `close` gives it back as it was."""

    def __init__(self, console: Console, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock_s = console, clock_s
        self._open = False
        self._size = (0, 0)
        self._shown: list[Row] = []
        self._drawn_s = clock_s()

    @staticmethod
    def fits(console: Console) -> bool:
        """A terminal with cursor movements, and room."""
        size = console.size
        able = console.is_terminal and not console.is_dumb_terminal and console.file.isatty()
        return able and size.width >= LEAST_COLUMNS and size.height >= LEAST_ROWS

    def draw(self, state: State) -> None:
        if not self._ready():  # somebody holds it, or the line is slow: the load does not wait for its picture
            return
        now_s, (columns, height) = self._clock_s(), self._console.size
        written = ""
        if not self._open or (columns, height) != self._size or now_s - self._drawn_s > SUSPENDED_S:
            written, self._shown, self._size, self._open = _ENTER, [], (columns, height), True
        self._drawn_s = now_s
        rows = frame(state, columns, height)
        for place in range(max(len(rows), len(self._shown))):
            row = rows[place] if place < len(rows) else ("", "")
            if place >= len(self._shown) or row != self._shown[place]:
                written += f"\x1b[{place + 1};1H\x1b[2K{self._styled(*row)}"
        self._shown = rows
        if written:
            self._write(written)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._write(_LEAVE)

    def _ready(self) -> bool:
        return bool(select.select([], [self._console.file], [], 0)[1])

    def _styled(self, text: str, style: Style) -> str:
        colourless = self._console.no_color or self._console.color_system is None
        if not style or not text or (colourless and style not in {"dim", "bold"}):
            return text
        return f"\x1b[{_SGR[style]}m{text}\x1b[0m"

    def _write(self, text: str) -> None:
        try:
            self._console.file.write(text)
            self._console.file.flush()
        except OSError:  # the terminal has gone: the run is told so by its signal
            self._open = False


def frame(state: State, columns: int, height: int) -> list[Row]:
    """At most `height` rows of at most `columns` cells."""
    head: list[Row] = [(_title(state, columns), "bold"), ("", "")]
    progress = state.now
    if progress is None:
        return [*head, (words.fitting([(0, "opening connections")], columns), "")]
    now = _now(progress, columns)
    verdict = _verdict(state, columns)
    latency = _histogram(progress, columns)
    free = height - len(head) - len(now) - len(verdict) - 2
    if free < len(latency) + 3:  # a level, and lines between
        latency = []
    levels = _levels(state, columns, max(1, free - len(latency) - 2))
    rows: list[Row] = head
    for block in (levels, now, latency, verdict):
        rows += [*block, ("", "")] if block else []
    return rows[:height]


def _title(state: State, columns: int) -> str:
    start = state.start
    if start is None:
        return "Loadproof"
    target = with_escapes(start.profile or start.target)
    return words.fitting([(0, f"Loadproof {target}"), (1, with_escapes(start.run_id))], columns)


def _levels(state: State, columns: int, rows: int) -> list[Row]:
    """Done, now and to come, as many as there is room for around the one of now."""
    assert state.now is not None
    here, last = state.now.level, max(state.levels)
    ahead = state.start.levels if state.start else ()
    room = max(1, rows - 1)
    first = max(0, min(here - room // 2, last + 1 - room))
    shown = range(first, min(last + 1, first + room))
    wide = max(cell_len(state.levels[index]) for index in shown)
    table = [_level(state, index, wide, columns, ahead) for index in shown]
    before, after = f"{first} before" if first else "", f"{last - shown[-1]} after" if last > shown[-1] else ""
    head = words.fitting([(0, "Levels"), (1, before), (1, after), (2, _search(state))], columns)
    return [(head, "dim"), *table]


def _search(state: State) -> str:
    if state.start is None or state.start.search is None:
        return ""
    return "searching the highest load" if state.start.search == "find_max" else "until a stop rule ends it"


def _level(state: State, index: int, wide: int, columns: int, ahead: tuple[Ahead, ...]) -> Row:
    assert state.now is not None
    measured, verdict = state.measured.get(index), state.verdicts.get(index)
    load = state.levels[index]
    name = f"{load}{' ' * (wide - cell_len(load))}"
    here = index == state.now.level
    if measured is None:
        earlier = index < len(ahead) and ahead[index].ended
        if not here:
            return words.fitting([(0, f"  {name}"), (0, "done earlier" if earlier else "to come")], columns), "dim"
        return words.fitting([(0, f"> {name}"), (0, "warm-up")], columns), "bold"
    latency = measured.ttft if measured.ttft.count else measured.e2e
    what = "TTFT" if measured.ttft.count else "E2E"
    pieces = [
        (0, f"{'>' if here else ' '} {name}"),
        (1, f"{words.done(measured):>9}"),
        (3, f"{words.number(measured.requests_per_s):>7}/s"),
        (2, f"{what} p50 {words.short(latency.p50_ms):>6}"),
        (4, f"p95 {words.short(latency.p95_ms):>6} ms"),
        (5, words.errors(measured) if measured.errors else ""),
        (1, verdict.outcome if verdict and measured.ended else ""),
    ]
    return words.fitting(pieces, columns), "bold" if here else ""


def _now(progress: Progress, columns: int) -> list[Row]:
    share = None
    if progress.total:
        share = progress.done / progress.total
    elif progress.left_s is not None:
        share = progress.elapsed_s / max(progress.elapsed_s + progress.left_s, 1e-9)
    head = "Warm-up" if progress.phase == "warmup" else "Load"
    time_left = [(1, words.left(progress.left_s)), (2, _whole(progress))]
    said = words.fitting([(0, f"{head} {words.done(progress)}"), *time_left], columns)
    bar = "" if share is None else _bar(share, min(30, columns - cell_len(said) - 2))
    rows: list[Row] = [(f"{said}  {bar}".rstrip(), "")]
    flying = [(0, f"In flight {progress.in_flight:,}")]
    if progress.waiting:
        flying.append((1, f"{progress.waiting:,} waiting for the first token"))
    flying.append((2, "" if progress.oldest_s is None else f"oldest {words.duration(progress.oldest_s)}"))
    flying.append((3, words.rate(progress)))
    flying.append((4, f"{words.number(progress.output_tokens_per_s)} tokens/s"))
    rows.append((words.fitting(flying, columns), ""))
    kinds = sorted(progress.errors_by_kind.items(), key=lambda item: -item[1])
    failed = [(1 + rank, f"{count:,} {kind}") for rank, (kind, count) in enumerate(kinds)]
    style: Style = "red" if progress.errors else ""
    rows.append((words.fitting([(0, words.errors(progress).capitalize()), *failed], columns), style))
    client = progress.client
    load = "–" if client.cpu_share is None else f"{client.cpu_share:.0%} of a core"
    late = f"sends late by p99 {words.short(client.late_p99_ms)} ms"
    rows.append((words.fitting([(0, f"Client {load}"), (1, late)], columns), ""))
    return rows


def _whole(progress: Progress) -> str:
    if progress.run_left_s is None or progress.run_left_s == progress.left_s:
        return ""
    return f"{words.duration(progress.run_left_s)} with the levels to come"


def _bar(share: float, width: int) -> str:
    full = round(min(1.0, share) * width)
    return "█" * full + "░" * (width - full) if width >= 5 else ""


def _histogram(progress: Progress, columns: int) -> list[Row]:
    """Bars over a logarithmic axis, from the first to the last bucket that holds anything."""
    latency, what = (progress.ttft, "TTFT") if progress.ttft.count else (progress.e2e, "E2E")
    if not latency.count:
        return []
    title = words.fitting([(0, f"{what} in ms, so far"), (1, words.percentiles(latency))], columns)
    bars, axis = _bars(latency, columns - 4)
    return [(title, ""), *((f"  {row}", "") for row in bars), (f"  {axis}", "dim")]


def _bars(latency: Latency, most: int) -> tuple[list[str], str]:
    """Rows of bars from the top, and the axis below: its two ends, which are bounds of the latencies."""
    steps = [(round(math.log(upper_ms) / math.log(BUCKET_GROWTH)), count) for upper_ms, count in latency.buckets]
    first, last = steps[0][0], steps[-1][0]
    together = -(-(last - first + 1) // most)  # buckets to a column
    columns = [0] * ((last - first) // together + 1)
    for step, count in steps:
        columns[(step - first) // together] += count
    # Wide enough to look at: a narrow one is drawn with two or three cells a column.
    each = max(1, min(3, most // len(columns)))
    highest = max(columns)
    eighths = [max(1, round(count / highest * 8 * _BAR_ROWS)) if count else 0 for count in columns]
    rows = [
        "".join(_BARS[max(0, min(8, height - 8 * row))] * each for height in eighths)
        for row in reversed(range(_BAR_ROWS))
    ]
    low, high = words.short(latency.buckets[0][0] / BUCKET_GROWTH), words.short(latency.buckets[-1][0])
    return rows, low + " " * max(1, len(columns) * each - len(low) - len(high)) + high


def _verdict(state: State, columns: int) -> list[Row]:
    """Of the level of now, else of the last that has one."""
    if not state.verdicts:
        bounds = state.start.objectives if state.start else ()
        wanted = [(rank, f"{one.name} {one.comparison} {one.bound:g}") for rank, one in enumerate(bounds)]
        return [(words.fitting([(0, "Verdict so far: none yet"), *wanted], columns), "dim")]
    verdict = state.verdicts[max(state.verdicts)]
    of = f"{verdict.requests:,}" if verdict.of == verdict.requests else f"{verdict.requests:,} of {verdict.of:,}"
    load = state.levels.get(verdict.level, "")
    head = [(0, f"Verdict so far: {verdict.outcome}"), (2, f"by {of} requests"), (1, f"at {load}")]
    rows: list[Row] = [(words.fitting(head, columns), _OUTCOMES.get(verdict.outcome, "bold"))]
    wide = max((len(one.name) for one in verdict.objectives), default=0)
    for one in verdict.objectives:
        ends = ("unknown" if end is None else words.short(end) for end in (one.low, one.high))
        pieces = [
            (0, f"  {one.name:<{wide}}"),
            (0, f"{words.short(one.observed)} {one.comparison} {one.bound:g}"),
            (1, f"95% {' to '.join(ends)}" if (one.low, one.high) != (None, None) else ""),
            (2, one.verdict),
        ]
        rows.append((words.fitting(pieces, columns), _OUTCOMES.get(one.verdict, "")))
    if not verdict.objectives or verdict.outcome == "INVALID":
        rows += [(text, "") for text in _wrapped(verdict.reasons[:1], columns)]
    return rows


def _wrapped(texts: tuple[str, ...], columns: int) -> Iterator[str]:
    """The first line of each, by whole words."""
    for text in texts:
        line = " "
        for word in with_escapes(text).split():
            if cell_len(line) + 1 + cell_len(word) > columns:
                break
            line += f" {word}"
        yield line
