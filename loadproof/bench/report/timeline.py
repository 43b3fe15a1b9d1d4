"""The run over time, out of `requests.jsonl`: TTFT of each request, requests in flight, failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loadproof.bench.measure.records import FILE_NAME, RequestRecord, each_record

DRAWN_REQUESTS = 2000  # marks a browser draws without effort; past that each mark is the slowest of its neighbours
RATE_BINS = 60
WATERFALL_REQUESTS = 40
PAUSE_NS = 2_000_000_000  # what stands between two sessions, however long the run rested before --resume


@dataclass(frozen=True, slots=True)
class Timeline:
    """Points (seconds since the first intended send, value) in time order, of measured requests (not warm-up)."""

    ttft: tuple[tuple[float, float], ...]  # ms; successful requests
    in_flight: tuple[tuple[float, int], ...]  # after each change
    failures: tuple[tuple[float, int], ...]  # requests in flight as one of them failed
    requests: int
    sessions: int
    thinned: bool
    rates: tuple[tuple[float, float], ...] = ()  # answers that ended per second, of each of RATE_BINS bins; its middle
    errors: tuple[tuple[float, float], ...] = ()  # requests that failed per second, of the same bins
    waterfall: tuple[Bar, ...] = ()
    zero_s: float = 0.0  # of the first intended send, since the run's zero


@dataclass(frozen=True, slots=True)
class Moments:
    """What a picture needs of one request: a run of hours has too many tokens to keep them all."""

    level: int
    index: int
    session: int
    intended_ns: int
    first_token_ns: int | None
    end_ns: int
    ok: bool
    finished: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """One request of the sample, in seconds since the first of them; no first token: none came."""

    start_s: float
    first_s: float | None
    end_s: float
    ok: bool
    index: int


def read_timeline(run_folder: Path, level: int | None = None) -> Timeline | None:
    """The timeline of a run, with a sample of the requests of `level` (None: of the last one measured).

    None when `requests.jsonl` is missing or holds no measured request. A line cut short by a killed run is skipped.
    Raises CouldNotRunError when a line is of another schema version.
    """
    return timeline_at(moments_of(each_record(run_folder / FILE_NAME)), level)


def timeline_at(measured: Sequence[Moments], level: int | None = None) -> Timeline | None:
    """As `read_timeline`, of what it would read."""
    if not measured:
        return None
    shown = max(record.level for record in measured) if level is None else level
    sample = waterfall_of([record for record in measured if record.level == shown])
    return replace(timeline_of(measured), waterfall=sample)


def moments_of(records: Iterable[RequestRecord]) -> list[Moments]:
    """Of the measured ones. Of several records of one request (canceled, then resumed) the last one counts."""
    found = {
        (one.level, one.index): Moments(
            one.level,
            one.index,
            one.session,
            one.intended_ns,
            one.first_token_ns,
            one.end_ns,
            one.ok,
            one.finished,
        )
        for one in records
        if one.phase == "measured"
    }
    return list(found.values())


def timeline_of(records: Sequence[Moments | RequestRecord]) -> Timeline:
    """The timeline of at least one request, in any order. Rests between sessions are cut to PAUSE_NS."""
    shifts = _shifts(records)

    def seconds(record: Moments | RequestRecord, at_ns: int) -> float:
        return round((at_ns - shifts[record.session]) / 1e9, 4)

    # Ends before starts at the same instant, and one step for both: a slot handed on is no dip.
    changes = sorted(
        [(seconds(record, record.end_ns), -1, record.finished and not record.ok) for record in records]
        + [(seconds(record, record.intended_ns), 1, False) for record in records]
    )
    in_flight: list[tuple[float, int]] = []
    failures: list[tuple[float, int]] = []
    count = 0
    for at_s, change, failed in changes:
        if failed:
            failures.append((at_s, count))
        count += change
        if in_flight and in_flight[-1][0] == at_s:
            in_flight.pop()
        in_flight.append((at_s, count))
    answered = sorted(
        (seconds(record, record.intended_ns), (record.first_token_ns - record.intended_ns) / 1e6)
        for record in records
        if record.ok and record.first_token_ns is not None
    )
    last_s = in_flight[-1][0]
    return Timeline(
        ttft=tuple(_slowest_of_neighbours(answered)),
        in_flight=tuple(_thin_steps(in_flight)),
        failures=tuple(failures[:DRAWN_REQUESTS]),
        requests=len(records),
        sessions=len(shifts),
        thinned=len(answered) > DRAWN_REQUESTS,
        zero_s=min(record.intended_ns for record in records) / 1e9,
        rates=_rates([seconds(record, record.end_ns) for record in records if record.ok], last_s),
        errors=_rates([at_s for at_s, _ in failures], last_s),
    )


def waterfall_of(records: Sequence[Moments | RequestRecord]) -> tuple[Bar, ...]:
    """The first WATERFALL_REQUESTS of a level's last session, by intended send."""
    last = max((record.session for record in records), default=0)
    ours = sorted((record for record in records if record.session == last), key=lambda record: record.intended_ns)
    sample = ours[:WATERFALL_REQUESTS]
    return tuple(
        Bar(
            (record.intended_ns - sample[0].intended_ns) / 1e9,
            None if record.first_token_ns is None else (record.first_token_ns - sample[0].intended_ns) / 1e9,
            (record.end_ns - sample[0].intended_ns) / 1e9,
            record.ok,
            record.index,
        )
        for record in sample
    )


def _rates(ends_s: Sequence[float], last_s: float) -> tuple[tuple[float, float], ...]:
    """Ends per second in RATE_BINS equal bins from 0 to `last_s`; none where nothing ended."""
    if last_s <= 0 or not ends_s:
        return ()
    counts = [0] * RATE_BINS
    for end_s in ends_s:
        counts[min(RATE_BINS - 1, int(end_s / last_s * RATE_BINS))] += 1
    width_s = last_s / RATE_BINS
    return tuple(((index + 0.5) * width_s, count / width_s) for index, count in enumerate(counts))


def _shifts(records: Sequence[Moments | RequestRecord]) -> Mapping[int, int]:
    """Nanoseconds to subtract from each session's times, so that sessions follow one another after PAUSE_NS."""
    shifts: dict[int, int] = {}
    reached_ns = -PAUSE_NS
    for session in sorted({record.session for record in records}):
        own = [record for record in records if record.session == session]
        shifts[session] = min(record.intended_ns for record in own) - (reached_ns + PAUSE_NS)
        reached_ns = max(record.end_ns for record in own) - shifts[session]
    return shifts


def _slowest_of_neighbours(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most DRAWN_REQUESTS points, keeping every peak: thinning by stride would hide the tail."""
    width = max(1, -(-len(points) // DRAWN_REQUESTS))
    groups = (points[start : start + width] for start in range(0, len(points), width))
    return [max(group, key=lambda point: point[1]) for group in groups]


def _thin_steps(points: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """At most about 2 · DRAWN_REQUESTS steps; the last one (nothing in flight any more) stays."""
    width = -(-len(points) // (2 * DRAWN_REQUESTS))
    return points if width <= 1 else [*points[::width], points[-1]]
