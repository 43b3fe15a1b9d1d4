"""How many copies served during a run and how long scaling out took, out of observed.jsonl.

A **scale-out** begins when more copies are wanted than are in service and ends when they are there; its time is
the control plane's own (DesiredCopyCount, CurrentCopyCount), seen by polls, so it is known to within `resolution_s`.
Where a scaling activity covers it, the activity's start counts: that is when the policy asked for the copies. What the
policy's alarm took before that is in the time since the load changed. All of it is wall time; a local cloud's clock may
run `clock_speed` times as fast, and then AWS would have taken that much longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import orjson

from loadproof.bench.measure.observer import FILE_NAME as OBSERVED_FILE
from loadproof.bench.measure.observer import POLL_S, SCHEMA_VERSION, Row
from loadproof.bench.plain import read_plain
from loadproof.bench.plan import ABSENT
from loadproof.errors import InputError

_MOST_BYTES = 64 * 2**20  # of observed.jsonl: days of it
_Part = TypeVar("_Part", "Activity", "Metric", "Deployed")


@dataclass(frozen=True, slots=True)
class CopyCount:
    """Copies in service and wanted, from this moment on; seconds since the run's zero."""

    at_s: float
    """since the run's zero"""
    current: int
    """in service"""
    desired: int
    """wanted"""


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """Copies that were added."""

    before: int
    """copies"""
    after: int
    """copies"""
    started_s: float
    """since the run's zero"""
    seconds: float | None
    """until they were in service; null: not there when the run ended"""
    by: str
    """what its start is taken from: `activity` or `observed`"""
    load_changed_s: float | None = None
    """the last change of the load before it began"""
    after_load_s: float | None = None
    """from there until they were in service"""


@dataclass(frozen=True, slots=True)
class Activity:
    """One scaling activity of Application Auto Scaling."""

    id: str
    """its id"""
    start_ns: int
    """since the run's zero"""
    end_ns: int | None
    """null: not ended"""
    status: str
    """as AWS says"""
    description: str
    """as AWS says"""
    cause: str | None = None
    """as AWS says"""


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of CloudWatch."""

    name: str
    """CloudWatch's"""
    statistic: str
    """CloudWatch's"""
    period_s: int
    """each figure's"""
    start_ns: int
    """since the run's zero"""
    value: float
    """in its own unit"""


@dataclass(frozen=True, slots=True)
class Deployed:
    """What ran, as AWS named it."""

    image: str | None = None
    """of the container"""
    instance_type: str | None = None
    """several are separated by commas"""
    image_digest: str | None = field(default=None, metadata=ABSENT)
    """what AWS resolved the image to: `…@sha256:…`"""
    endpoint_config: str | None = field(default=None, metadata=ABSENT)
    """name of the endpoint's configuration"""
    endpoint_arn: str | None = field(default=None, metadata=ABSENT)
    """of the endpoint: it names region and account"""


@dataclass(frozen=True, slots=True)
class Scaling:
    """What was observed of the component beside the client's own figures."""

    copies: tuple[CopyCount, ...]
    """at every change"""
    scale_outs: tuple[ScaleOut, ...]
    """each with its time"""
    resolution_s: float
    """how often was looked"""
    clock_speed: float = 1.0
    """of a local cloud whose clock runs faster than the wall's"""
    activities: tuple[Activity, ...] = ()
    """of Application Auto Scaling"""
    metrics: tuple[Metric, ...] = ()
    """of CloudWatch"""
    problems: tuple[str, ...] = ()
    """what could not be read"""


def read_observed(folder: Path) -> list[Row]:
    """The lines of observed.jsonl in order of time; none without the file. A torn or foreign line is left out.

    Raises InputError for one that cannot be read.
    """
    path = folder / OBSERVED_FILE
    rows = []
    try:
        body = read_plain(path, _MOST_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); restore it, or take it away") from None
    for line in body.splitlines():
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict) and row.get("schema_version") == SCHEMA_VERSION and "at_ns" in row:
            rows.append(row)
    return sorted(rows, key=lambda row: row["at_ns"])


def deployed_of(rows: Iterable[Row]) -> Deployed | None:
    """Image and instance type that ran, as last observed."""
    found = [row for row in rows if row["kind"] == "deployed"]
    return _made(Deployed, found[-1]) if found else None


def scaling_of(rows: Sequence[Row], load_changes_s: Sequence[float] = ()) -> Scaling | None:
    """None where no copies were observed. `load_changes_s`: when each level's first request was due, ascending."""
    counted = [row for row in rows if row["kind"] == "copies"]
    copies = [CopyCount(round(row["at_ns"] / 1e9, 3), row["current"], row["desired"]) for row in counted]
    if not copies:
        return None
    activities = _latest_by_id(rows)
    told = [row for row in rows if row["kind"] == "deployed"]
    resolution_s = float(told[-1].get("poll_s", POLL_S)) if told else POLL_S
    return Scaling(
        copies=tuple(copies),
        scale_outs=tuple(_after_load(one, load_changes_s) for one in _scale_outs(copies, activities, resolution_s)),
        resolution_s=resolution_s,
        clock_speed=float(told[-1].get("clock_speed", 1.0)) if told else 1.0,
        activities=tuple(activities),
        metrics=tuple(_made(Metric, row) for row in rows if row["kind"] == "metric"),
        problems=tuple(f"{row['what']}: {row['message']}" for row in rows if row["kind"] == "problem"),
    )


def scaling_lines(scaling: Scaling | None) -> list[str]:
    """A sentence a scale-out; none where there was none."""
    said = []
    for one in scaling.scale_outs if scaling else ():
        took = "not there when the run ended" if one.seconds is None else f"{one.seconds:g} s"
        since = "" if one.after_load_s is None else f", {one.after_load_s:g} s after the load changed"
        speed = scaling.clock_speed if scaling else 1.0
        faster = "" if speed == 1 else f" (of a clock that runs {speed:g} times as fast as AWS's)"
        said.append(f"Scale-out from {one.before} to {one.after} copies: {took}{since}{faster}")
    return said


def _after_load(one: ScaleOut, load_changes_s: Sequence[float]) -> ScaleOut:
    """With the time since the load changed, where it changed before and the copies came."""
    before = [at_s for at_s in load_changes_s if at_s <= one.started_s]
    if not before or one.seconds is None:
        return one
    return replace(one, load_changed_s=before[-1], after_load_s=round(one.started_s + one.seconds - before[-1], 3))


def _scale_outs(copies: Sequence[CopyCount], activities: Sequence[Activity], resolution_s: float) -> list[ScaleOut]:
    found: list[ScaleOut] = []
    began: CopyCount | None = None
    reached = copies[0].current
    for count in copies:
        if began is None and count.desired > count.current:
            began, reached = count, count.current
        elif began is None and count.current > reached:  # so quick that no poll saw it begin
            found.append(_scale_out(count, reached, count.current, count.at_s, activities, resolution_s))
        if began is not None and count.current >= count.desired:
            if count.current > reached:
                found.append(_scale_out(began, reached, count.current, count.at_s, activities, resolution_s))
            began = None
        if began is None:
            reached = count.current
    if began is not None:
        found.append(_scale_out(began, reached, copies[-1].desired, None, activities, resolution_s))
    return found


def _scale_out(
    began: CopyCount,
    before: int,
    after: int,
    ended_s: float | None,
    activities: Sequence[Activity],
    resolution_s: float,
) -> ScaleOut:
    """Counted from the last activity that started before it was seen, and not before the poll that saw nothing yet.

    Its end, where it has one, says when the copies were there; otherwise the poll that saw them does.
    """
    until_s = began.at_s if ended_s is None else ended_s
    asked = [row for row in activities if began.at_s - 2 * resolution_s <= row.start_ns / 1e9 <= until_s]
    started_s = min(began.at_s, asked[-1].start_ns / 1e9) if asked else began.at_s
    if ended_s is not None and asked and asked[-1].end_ns and asked[-1].status == "Successful":
        ended_s = min(ended_s, asked[-1].end_ns / 1e9)
    seconds = None if ended_s is None else round(ended_s - started_s, 3)
    return ScaleOut(before, after, round(started_s, 3), seconds, "activity" if asked else "observed")


def _latest_by_id(rows: Sequence[Row]) -> list[Activity]:
    """A resumed run notes an activity twice; its last state counts."""
    found = {row["id"]: _made(Activity, row) for row in rows if row["kind"] == "activity"}
    return sorted(found.values(), key=lambda activity: activity.start_ns)


def _made(kind: type[_Part], row: Row) -> _Part:
    """A line without its frame."""
    values: dict[str, Any] = {field.name: row.get(field.name) for field in fields(kind)}
    return kind(**values)
