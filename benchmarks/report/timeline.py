"""The run over time, out of `requests.jsonl`: TTFT of each request, requests in flight, failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.records import FILE_NAME, RequestRecord, latest, read_records

DRAWN_REQUESTS = 2000  # marks a browser draws without effort; past that each mark is the slowest of its neighbours
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


def read_timeline(run_folder: Path) -> Timeline | None:
    """The timeline of a run; None when `requests.jsonl` is missing or holds no measured request.

    A line cut short by a killed run is skipped. Raises CouldNotRunError when a line is of another schema version.
    """
    measured = [record for record in latest(read_records(run_folder / FILE_NAME).records) if record.phase == "measured"]
    return timeline_of(measured) if measured else None


def timeline_of(records: Sequence[RequestRecord]) -> Timeline:
    """The timeline of at least one request, in any order. Rests between sessions are cut to PAUSE_NS."""
    shifts = _shifts(records)

    def seconds(record: RequestRecord, at_ns: int) -> float:
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
    return Timeline(
        ttft=tuple(_slowest_of_neighbours(answered)),
        in_flight=tuple(_thin_steps(in_flight)),
        failures=tuple(failures[:DRAWN_REQUESTS]),
        requests=len(records),
        sessions=len(shifts),
        thinned=len(answered) > DRAWN_REQUESTS,
    )


def _shifts(records: Sequence[RequestRecord]) -> Mapping[int, int]:
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
