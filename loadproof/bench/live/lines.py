"""What is told of a run while it goes: one dataclass a kind of line. Screen, log and `--live` have nothing else.

Figures of a level are of its current phase (warm-up or load) so far; no data is None, never 0. They are for watching:
what counts is summary.json.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from loadproof.bench.measure.records import Phase

SCHEMA_VERSION = 1
BUCKET_GROWTH = 1.02**5


@dataclass(frozen=True, slots=True)
class Ahead:
    """One level as it is planned."""

    load: str
    """in words"""
    requests: int | None
    """how many; null: as many as its time allows"""
    duration_s: float | None
    """ends the level, where it ends by time"""
    ended: bool
    """by an earlier session of this run"""


@dataclass(frozen=True, slots=True)
class Bound:
    """One objective."""

    name: str
    """metric, statistic and unit"""
    comparison: str
    """`<=` or `>=`"""
    bound: float
    """in the unit of the name"""


@dataclass(frozen=True, slots=True)
class Start:
    """First line: what is going to be sent."""

    run_id: str
    """the folder's name: time and profile"""
    target: str
    """the endpoint"""
    profile: str | None
    """its name; null: a `--target`"""
    levels: tuple[Ahead, ...]
    """in their order; empty where they follow from what is measured"""
    search: Literal["sweep", "find_max"] | None
    """what finds the levels, where they are not known ahead"""
    objectives: tuple[Bound, ...]
    """to judge by"""
    schema_version: int = SCHEMA_VERSION
    """1; writers may add keys and kinds of lines, and readers pass over what they do not know"""
    type: Literal["start"] = "start"
    """kind of line"""


@dataclass(frozen=True, slots=True)
class Latency:
    """A latency so far. Percentiles are good to 1%."""

    count: int
    """requests with this figure"""
    p50_ms: float | None
    """median"""
    p95_ms: float | None
    """95th percentile"""
    p99_ms: float | None
    """99th percentile"""
    buckets: tuple[tuple[float, int], ...]
    """a histogram: (upper end in ms, requests), by latency; an upper end is 1.02⁵ times the lower one; empty buckets
    are left out"""


@dataclass(frozen=True, slots=True)
class Client:
    """What the client itself had to do."""

    cpu_share: float | None
    """of one core, since the last line, its processes together; null: on several machines"""
    late_p99_ms: float | None
    """how late it sent, of the last 500 requests"""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the run is: at most four a second."""

    level: int
    """index of the level, from 0"""
    levels: int | None
    """how many there are; null: they follow from what is measured"""
    load: str
    """the level's, in words"""
    phase: Phase
    """warm-up or measured"""
    done: int
    """requests that ended, well or badly"""
    total: int | None
    """that there will be; null: the phase ends by time"""
    errors: int
    """of those done"""
    errors_by_kind: dict[str, int]
    """how many of each kind"""
    requests_per_s: float | None
    """that ended, well or badly"""
    output_tokens_per_s: float | None
    """of answers that ended"""
    in_flight: int
    """requests under way"""
    waiting: int | None
    """of those: without a token yet; null: unknown"""
    oldest_s: float | None
    """how long the oldest is under way"""
    elapsed_s: float
    """since the phase began"""
    left_s: float | None
    """about how long the phase will take from here"""
    run_left_s: float | None
    """about how long the whole load will take from here; levels still to come are taken to be as fast as this one"""
    ttft: Latency
    """time to first token"""
    e2e: Latency
    """whole requests"""
    client: Client
    """its own load and lateness"""
    ended: bool
    """last line of the phase"""
    type: Literal["progress"] = "progress"
    """kind of line"""


@dataclass(frozen=True, slots=True)
class Judged:
    """One objective so far."""

    name: str
    """metric, statistic and unit"""
    comparison: str
    """`<=` or `>=`"""
    bound: float
    """in the unit of the name"""
    observed: float | None
    """null: no data"""
    low: float | None
    """lower end of the 95% interval; null: too few requests for that end"""
    high: float | None
    """upper end"""
    verdict: str
    """as in summary.json"""


@dataclass(frozen=True, slots=True)
class SoFar:
    """What the verdict would be if this level were the judged one and ended now."""

    level: int
    """index of the level"""
    requests: int
    """judged by"""
    of: int
    """that ended; more than `requests` where only every second, fourth, … was looked at"""
    outcome: str
    """as in summary.json"""
    reasons: tuple[str, ...]
    """in words"""
    objectives: tuple[Judged, ...]
    """each one"""
    type: Literal["verdict_so_far"] = "verdict_so_far"
    """kind of line"""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The load is over; what was recorded is being judged."""

    stopped: bool
    """before its end"""
    type: Literal["loaded"] = "loaded"
    """kind of line"""


@dataclass(frozen=True, slots=True)
class End:
    """Last line: how it went."""

    outcome: str | None
    """the verdict; null: there is none"""
    reasons: tuple[str, ...]
    """in words; why there is no verdict"""
    exit_code: int
    """of the command"""
    folder: str | None
    """of the run"""
    type: Literal["end"] = "end"
    """kind of line"""


Line = Start | Progress | SoFar | Loaded | End
OnLine = Callable[[Line], None]
