"""When scheduled actions are due, on the cloud's calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import available_timezones

from loadproof.localcloud.controlplane.autoscaling.rules import refuse
from loadproof.localcloud.controlplane.schedule_expressions import NOT_SIMULATED, is_schedule, is_simulated
from loadproof.simulation.schedules import due_minutes
from loadproof.wire.documents import Document

_NEVER, _ALWAYS = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)


def check_schedule(action: Document) -> None:
    """Raises ValidationException for an expression, a time zone or bounds that cannot be read."""
    bounds = action.get("ScalableTargetAction") or {}
    if bounds.get("MinCapacity", 0) > bounds.get("MaxCapacity", bounds.get("MinCapacity", 0)):
        raise refuse("MinCapacity of ScalableTargetAction must not be above its MaxCapacity.")
    if action.get("Timezone", "UTC") not in available_timezones():
        raise refuse(f"Timezone {action['Timezone']} is an unknown time zone.")
    if _moment(action.get("EndTime"), _NEVER) <= _moment(action.get("StartTime"), _ALWAYS):
        raise refuse("EndTime must be later than StartTime.")
    schedule = action["Schedule"]
    if not is_schedule(schedule):
        raise refuse(f"Schedule must be at(yyyy-mm-ddThh:mm:ss), rate(N unit) or cron(six fields), found {schedule}.")
    if not is_simulated(schedule, action.get("Timezone", "UTC")):
        raise refuse(f"Schedule {schedule}: {NOT_SIMULATED}")


def is_due(action: Document, created: datetime, after: datetime, until: datetime) -> bool:
    """Whether a minute of the schedule begins in (after, until]; rates count from StartTime or the creation."""
    start, end = _moment(action.get("StartTime"), created), _moment(action.get("EndTime"), _NEVER)
    if action["Schedule"].startswith("rate"):
        minutes = max(0, int((min(until, end) - start) / timedelta(minutes=1)))
        moments = [start + timedelta(minutes=minute) for minute in _due(action, start, minutes + 1)]
    else:
        first = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
        minutes = max(0, int((until - first) / timedelta(minutes=1)) + 1) if until >= first else 0
        moments = [first + timedelta(minutes=minute) for minute in _due(action, first, minutes)]
    return any(after < moment <= until and start <= moment <= end for moment in moments)


def _due(action: Document, starts_at: datetime, minutes: int) -> list[int]:
    zone = action.get("Timezone", "UTC")
    return list(due_minutes(action["Schedule"], zone, starts_at, minutes, name=action["ScheduledActionName"]))


def _moment(value: float | datetime | None, default: datetime) -> datetime:
    if value is None:
        return default
    return value if isinstance(value, datetime) else datetime.fromtimestamp(float(value), UTC)
