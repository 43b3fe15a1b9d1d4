"""How many copies served during a run and how long scaling out took, out of observed.jsonl.

A **scale-out** begins when more copies are wanted than are in service and ends when they are there; its time is
the control plane's own (DesiredCopyCount, CurrentCopyCount), seen by polls, so it is known to within `resolution_s`.
Where a scaling activity covers it, the activity's start counts: that is when the policy asked for the copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmarks.observer import FILE_NAME as OBSERVED_FILE
from benchmarks.observer import POLL_S, SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class CopyCount:
    """Copies in service and wanted, from this moment on; seconds since the run's zero."""

    at_s: float
    current: int
    desired: int


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """Copies that were added. `seconds` None: not there yet when the run ended."""

    before: int
    after: int
    started_s: float
    seconds: float | None
    by: str  # "activity" or "observed": what its start is taken from


@dataclass(frozen=True, slots=True)
class Scaling:
    """What was observed of the component beside the client's own figures."""

    copies: tuple[CopyCount, ...]
    scale_outs: tuple[ScaleOut, ...]
    resolution_s: float
    activities: tuple[Mapping[str, Any], ...]
    metrics: tuple[Mapping[str, Any], ...]
    problems: tuple[str, ...]


def read_observed(folder: Path) -> list[dict[str, Any]]:
    """The lines of observed.jsonl in order of time; none without the file. A torn or foreign line is left out."""
    path = folder / OBSERVED_FILE
    rows = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict) and row.get("schema_version") == SCHEMA_VERSION and "at_ns" in row:
            rows.append(row)
    return sorted(rows, key=lambda row: row["at_ns"])


def deployed_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Image and instance type that ran, as last observed."""
    found = [row for row in rows if row["kind"] == "deployed"]
    return {"image": found[-1].get("image"), "instance_type": found[-1].get("instance_type")} if found else None


def scaling_of(rows: Sequence[Mapping[str, Any]]) -> Scaling | None:
    """None where no copies were observed."""
    counted = [row for row in rows if row["kind"] == "copies"]
    copies = [CopyCount(round(row["at_ns"] / 1e9, 3), row["current"], row["desired"]) for row in counted]
    if not copies:
        return None
    activities = _latest_by_id(rows)
    return Scaling(
        copies=tuple(copies),
        scale_outs=tuple(_scale_outs(copies, activities)),
        resolution_s=POLL_S,
        activities=tuple(activities),
        metrics=tuple(_without_frame(row) for row in rows if row["kind"] == "metric"),
        problems=tuple(f"{row['what']}: {row['message']}" for row in rows if row["kind"] == "problem"),
    )


def _scale_outs(copies: Sequence[CopyCount], activities: Sequence[Mapping[str, Any]]) -> list[ScaleOut]:
    found: list[ScaleOut] = []
    began: CopyCount | None = None
    reached = copies[0].current
    for count in copies:
        if began is None and count.desired > count.current:
            began, reached = count, count.current
        elif began is None and count.current > reached:  # so quick that no poll saw it begin
            found.append(ScaleOut(reached, count.current, count.at_s, 0.0, "observed"))
        if began is not None and count.current >= count.desired:
            if count.current > reached:
                found.append(_scale_out(began, reached, count.current, count.at_s, activities))
            began = None
        if began is None:
            reached = count.current
    if began is not None:
        found.append(_scale_out(began, reached, copies[-1].desired, None, activities))
    return found


def _scale_out(
    began: CopyCount, before: int, after: int, ended_s: float | None, activities: Sequence[Mapping[str, Any]]
) -> ScaleOut:
    """Counted from the last activity that started before it was seen, and not before the poll that saw nothing yet."""
    starts = [row["start_ns"] / 1e9 for row in activities]
    asked = [start for start in starts if began.at_s - 2 * POLL_S <= start <= (ended_s or began.at_s)]
    started = min(began.at_s, asked[-1]) if asked else began.at_s
    seconds = None if ended_s is None else round(ended_s - started, 3)
    return ScaleOut(before, after, round(started, 3), seconds, "activity" if asked else "observed")


def _latest_by_id(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A resumed run notes an activity twice; its last state counts."""
    found = {row["id"]: _without_frame(row) for row in rows if row["kind"] == "activity"}
    return sorted(found.values(), key=lambda row: row["start_ns"])


def _without_frame(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("schema_version", "kind", "at_ns")}
