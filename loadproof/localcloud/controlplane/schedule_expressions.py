"""Expressions of schedules, `at`, `rate` and `cron`: which ones AWS reads, and which of them the clock here fires."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from loadproof.errors import InputError
from loadproof.simulation.schedules import due_minutes

_RATE = re.compile(r"rate\((\d+) (minute|hour|day)(s?)\)")
_CRON = re.compile(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)")
_AT = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
# Each field of a cron expression: the least and the most, and the names that stand for numbers.
_FIELDS: tuple[tuple[int, int, list[str]], ...] = (
    (0, 59, []), (0, 23, []), (1, 31, []), (1, 12, _MONTHS), (1, 7, _DAYS), (1970, 2199, []),
)  # fmt: skip
_DAY_FIELDS = (2, 4)
NOT_SIMULATED = "The local cloud does not simulate L, W and # in a cron expression; write days as numbers or names."


def is_schedule(expression: str, *, plural: bool = False) -> bool:
    """Whether an expression is one of `at`, `rate` and `cron`; `plural`: 1 takes "minute", more take "minutes"."""
    rate = _RATE.fullmatch(expression)
    if rate is not None:
        number = int(rate[1])
        return number > 0 and (not plural or (number == 1) == (rate[3] == ""))
    moment = _AT.fullmatch(expression)
    if moment is not None:
        return _is_moment(moment[1])
    cron = _CRON.fullmatch(expression)
    return cron is not None and _is_cron(cron.groups())


def is_simulated(expression: str, zone: str) -> bool:
    """Whether the clock that fires schedules can read it: a day by its place in the month it cannot."""
    try:
        list(due_minutes(expression, zone, datetime(2000, 1, 1, tzinfo=UTC), 1, name="schedule"))
    except InputError:
        return False
    return True


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_cron(fields: tuple[Any, ...]) -> bool:
    if [fields[place] for place in _DAY_FIELDS].count("?") != 1:
        return False
    return all(
        (field == "?" and place in _DAY_FIELDS) or all(_is_part(part, *_FIELDS[place]) for part in field.split(","))
        for place, field in enumerate(fields)
    )


def _is_part(part: str, low: int, high: int, names: list[str]) -> bool:
    """`5`, `MON`, `1-5`, `*`, `0/15`, and what days alone have: `L`, `W`, `2#1`."""
    if re.fullmatch(r"L(-\d+)?|LW|\d{1,2}W|\d?L|[1-7]#[1-5]", part):
        return high in (31, 7)
    start, _, step = part.partition("/")
    if (step and not step.isdigit()) or part.endswith("/"):
        return False
    if start == "*":
        return True
    return all(_is_number(one, low, high, names) for one in start.split("-", 1))


def _is_number(text: str, low: int, high: int, names: list[str]) -> bool:
    return text.upper() in names or (text.isdigit() and low <= int(text) <= high)
