"""Scheduled scaling: AWS's at(), rate() and cron() expressions as changes of the bounds in virtual time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from loadproof.errors import InputError
from loadproof.profiles.schema import ScheduledScaling
from loadproof.simulation.scaling import BoundsChange

_MINUTES: Final = {"minute": 1, "hour": 60, "day": 1440}
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
# Names and least value of each cron field: minute, hour, day of month, month, day of week (1 is Sunday), year.
_FIELDS: Final = (((), 0), ((), 0), ((), 1), (_MONTHS, 1), (_DAYS, 1), ((), 1970))


def changes_of(policy: ScheduledScaling, starts_at: datetime, minutes: int) -> list[BoundsChange]:
    """What the policy does in the `minutes` after `starts_at` (with a time zone); times are ms from there.

    Raises InputError for an expression that is not simulated (`L`, `W` and `#` in cron) and an unknown time zone.
    """
    due = due_minutes(policy.schedule, policy.timezone, starts_at, minutes, name=policy.name)
    return [BoundsChange(minute * 60_000.0, policy.min_copies, policy.max_copies) for minute in due]


def due_minutes(expression: str, timezone: str, starts_at: datetime, minutes: int, *, name: str) -> Iterator[int]:
    """In which of the `minutes` after `starts_at` (with a time zone) an expression is due; rates count from there.

    Raises InputError, with the schedule's `name`, as `changes_of` does.
    """
    kind, _, rest = expression.partition("(")
    text = rest.removesuffix(")")
    if kind == "rate":
        count, _, unit = text.partition(" ")
        every = int(count) * _MINUTES[unit.removesuffix("s")]
        yield from range(every, minutes, every)
        return
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError):
        raise InputError(f"scaling policy {name}: unknown time zone `{timezone}`") from None
    if kind == "at":
        minute = (datetime.fromisoformat(text).replace(tzinfo=zone) - starts_at) / timedelta(minutes=1)
        if 0 <= minute < minutes:
            yield int(minute)
        return
    fields = text.split()
    if len(fields) != len(_FIELDS) or re.search(r"[LW#]", re.sub(r"[A-Z]{3}", "", text)):
        raise InputError(f"scaling policy {name}: `{expression}` is not simulated; write days as numbers")
    allowed = [_values(field, *names) for field, names in zip(fields, _FIELDS, strict=True)]
    for minute in range(minutes):
        at = (starts_at + timedelta(minutes=minute)).astimezone(zone)
        now = (at.minute, at.hour, at.day, at.month, at.isoweekday() % 7 + 1, at.year)
        if all(values is None or value in values for values, value in zip(allowed, now, strict=True)):
            yield minute


def _values(field: str, names: tuple[str, ...], least: int) -> set[int] | None:
    """The values a cron field allows; None for all. `1,3`, `1-5`, `MON-FRI`, `0/15` and `*/15` are read."""
    if field in ("*", "?"):
        return None
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low = least if first == "*" else _number(first, names, least)
        high = _number(last, names, least) if last else (2200 if step else low)
        found.update(range(low, high + 1, int(step or 1)))
    return found


def _number(text: str, names: tuple[str, ...], least: int) -> int:
    return names.index(text) + least if text in names else int(text)
