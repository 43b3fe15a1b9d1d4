"""Scaling by the clock: rules about schedules, and their form (LP213-LP215, LP273, LP274, LP362, LP395)."""

from __future__ import annotations

import re
import zoneinfo
from bisect import bisect_right
from calendar import isleap
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Final

from loadproof.profiles.checks.rule import Found, Placed, Subject, component_rule, rule
from loadproof.profiles.checks.scaling import BOUND_NAMES, bounds_of, policies_of
from loadproof.profiles.schema import ScheduledScaling
from loadproof.profiles.tree import Path

_AT: Final = re.compile(r"at\(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\)\Z")
_RATE: Final = re.compile(r"rate\((?:1 (?:minute|hour|day)|(?!1 |0 )\d+ (?:minutes|hours|days))\)\Z")
_CRON: Final = re.compile(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)\Z")
# https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html
_CRON_RANGES: Final = (
    ("minutes", 0, 59),
    ("hours", 0, 23),
    ("days of a month", 1, 31),
    ("months", 1, 12),
    ("days of a week", 1, 7),
    ("years", 1970, 2199),
)
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_RARELY: Final = 12
LEAST_RAISED_MIN: Final = 10
_CRON_FIELD: Final = re.compile(r"[0-9A-Z*?,/#LW-]+\Z")


@component_rule(
    "LP213",
    "Schedule that Application Auto Scaling refuses",
    reason="Its cron has six fields (with a year), and one of the two day fields must be `?`.",
    mend="Write cron(minutes hours day-of-month month day-of-week year), rate(1 hour) or at(2026-12-24T08:00:00).",
)
def schedule_form(placed: Placed) -> Iterator[Found]:
    for path, policy in _schedules(placed):
        if wrong := schedule_problem(policy.schedule):
            yield Found((*path, "schedule"), *wrong)


@component_rule(
    "LP214",
    "Unknown time zone",
    reason="Schedules follow daylight saving of a named zone.",
    mend="Use a name of the IANA database, such as Europe/Berlin.",
)
def time_zone(placed: Placed) -> Iterator[Found]:
    for path, policy in _schedules(placed):
        if not is_zone(policy.timezone):
            yield Found((*path, "timezone"), "not the name of a time zone", "write it like Europe/Berlin, or UTC")


@component_rule(
    "LP215",
    "Scheduled bounds that cannot hold",
    reason="A scheduled action moves the bounds; the result must still be a range, and zero must be able to wake.",
    mend="Give min_copies or max_copies, in order, and within what the instances hold.",
)
def scheduled_bounds(placed: Placed) -> Iterator[Found]:
    least, most = bounds_of(placed)
    most_name = BOUND_NAMES[placed.endpoint.hosting][1]
    schedules = list(_schedules(placed))
    for path, policy in schedules:
        low, high = policy.min_copies, policy.max_copies
        if low is None and high is None:
            yield Found(path, "neither min_copies nor max_copies is given", "add one of them")
            continue
        others = [other for _, other in schedules if other is not policy]
        # A bound that another action has moved stays moved: the action must fit that one too, or bring both.
        lowered = min((other.max_copies for other in others if other.max_copies is not None), default=most)
        raised = max((other.min_copies for other in others if other.min_copies is not None), default=least)
        ceiling = high if high is not None else most
        if low is not None and low > ceiling:
            mend = f"lower it to {ceiling}, or raise {most_name if high is None else 'max_copies'}"
            yield Found((*path, "min_copies"), f"{low} is above the maximum of {ceiling}", mend)
        elif low is not None and high is None and low > lowered:
            mend = f"give max_copies beside it, or lower it to {lowered}"
            yield Found((*path, "min_copies"), f"{low} is above the maximum of {lowered} in force by then", mend)
        if high is not None and high > most:
            found = f"{high} is above {most_name} {most}, which the instances are sized for"
            yield Found((*path, "max_copies"), found, f"lower it to {most}, or raise {most_name}")
        if high is not None and low is None and high < raised:
            mend = f"give min_copies beside it, or raise it to {raised}"
            yield Found((*path, "max_copies"), f"{high} is below the minimum of {raised} in force by then", mend)
        if 0 in (low, high) and placed.to_zero is None:
            name = "min_copies" if low == 0 else "max_copies"
            yield Found((*path, name), "0 copies would never wake", "add scaling.to_zero, or write 1")


@component_rule(
    "LP273",
    "A raised minimum that nothing lowers",
    reason="A scheduled action moves the bounds for good: the copies of the first morning stay for ever, or until "
    "another action lowers the minimum, which is to come about as often (told below a twelfth). A lowered maximum "
    "holds for ever likewise, and copies.max is never reached again.",
    mend="Add a scheduled policy that moves the bound back, as often as it is moved.",
    severity="warning",
)
def minimum_stays(placed: Placed) -> Iterator[Found]:
    least, most = bounds_of(placed)
    schedules = list(_schedules(placed))
    capped = [(policy.max_copies, path) for path, policy in schedules if policy.max_copies is not None]
    if capped and max(capped)[0] < most:
        high, path = max(capped)
        found = f"no schedule raises the maximum of {high} to {most} again"
        yield Found((*path, "max_copies"), found, f"add a scheduled policy with max_copies: {most}")
    raised = [(policy.min_copies, path) for path, policy in schedules if policy.min_copies is not None]
    if raised and min(raised)[0] > least:
        low, path = min(raised)
        found = f"no schedule lowers the minimum of {low} again"
        yield Found((*path, "min_copies"), found, f"add a scheduled policy with min_copies: {least}")
        return
    bounds = [
        (one.min_copies, times_a_year(one.schedule), path) for path, one in schedules if one.min_copies is not None
    ]
    fewest = min((low for low, _, _ in bounds), default=least)
    lowered = sum(times for low, times, _ in bounds if low == fewest)
    for low, times, path in bounds:
        if low > fewest and times > _RARELY * lowered:
            found = f"raised to {low} some {times:,.0f} times a year, and lowered to {fewest} {lowered:,.0f} times"
            yield Found((*path, "min_copies"), found, "lower it as often as it is raised")
            return


def times_a_year(text: str) -> float:
    """About how often a well-formed schedule comes; 1 of a date. Years are left out, and fields of other forms."""
    if text.startswith("rate("):
        number, unit = text[5:-1].split()
        return {"minute": 525_600, "hour": 8_760, "day": 365}[unit.rstrip("s")] / int(number)
    fields = _CRON.match(text)
    if fields is None:
        return 1.0
    minutes, hours, days, months, weekdays = (fields.group(at) for at in range(1, 6))
    in_month = len(_numbers(days)) if days not in ("*", "?") and _numbers(days) else 30.4
    in_year = (len(_numbers(months)) or 12) if "-" not in months else 12
    share = min(1.0, len(re.split(",", weekdays)) / 7) if re.fullmatch(r"[A-Z1-7,]+", weekdays) else 1.0
    a_day = (len(_numbers(minutes)) or 60) * (len(_numbers(hours)) or 24)
    return float(in_month * in_year * share * a_day)


@component_rule(
    "LP395",
    "Raised for no longer than a copy takes to come",
    reason="A copy needs minutes before it serves: often an instance, then its image and its weights. A minimum that "
    "falls within ten minutes of being raised brings copies that are taken away as they arrive; hours were meant, or "
    "the two were swapped.",
    mend="Leave the raised minimum for as long as the traffic lasts.",
    severity="warning",
)
def flaps(placed: Placed) -> Iterator[Found]:
    schedules = [(path, one, _minutes_of_day(one.schedule)) for path, one in _schedules(placed)]
    for _, up, raised in schedules:
        for path, down, lowered in schedules:
            low = down.min_copies if down.min_copies is not None else down.max_copies
            same_days = _days(up.schedule) == _days(down.schedule) and up.timezone == down.timezone
            if not same_days or up.min_copies is None or low is None or low >= up.min_copies:
                continue
            gaps = (at - minute for minute in raised for at in lowered[bisect_right(lowered, minute) :][:1])
            gap = min(gaps, default=LEAST_RAISED_MIN)
            if gap < LEAST_RAISED_MIN:
                found = f"lowered to {low} {gap} min after it was raised to {up.min_copies}"
                yield Found((*path, "schedule"), found, "leave it raised while the traffic lasts")


def _minutes_of_day(text: str) -> list[int]:
    """When a cron expression of plain minutes and hours comes, in minutes of the day; nothing of other forms."""
    fields = _CRON.match(text)
    minutes, hours = (_times(fields.group(1), 60), _times(fields.group(2), 24)) if fields else ([], [])
    return [60 * hour + minute for hour in hours for minute in minutes]


def _times(field: str, end: int) -> list[int]:
    """`*`, `7`, `1,2`, `1-5`, `*/2`, `1/2` below `end`, sorted."""
    if stepped := re.fullmatch(r"(\*|\d{1,2})/(\d{1,2})", field):
        return list(range(0 if stepped[1] == "*" else int(stepped[1]), end, int(stepped[2]) or end))
    if bounds := re.fullmatch(r"(\d{1,2})-(\d{1,2})", field):
        return list(range(int(bounds[1]), int(bounds[2]) + 1))
    return list(range(end)) if field == "*" else sorted(_numbers(field))


def _days(text: str) -> tuple[str, ...]:
    fields = _CRON.match(text)
    return fields.groups()[2:] if fields else (text,)


@component_rule(
    "LP274",
    "Two schedules at one moment",
    reason="Application Auto Scaling does not say which of two actions of the same moment comes last.",
    mend="Make one of the two, or move one of them.",
)
def schedules_collide(placed: Placed) -> Iterator[Found]:
    seen: set[tuple[str, str]] = set()
    for path, policy in _schedules(placed):
        moment = (policy.schedule, policy.timezone)
        if moment in seen:
            found = f"another scheduled policy runs at {policy.schedule} {policy.timezone}"
            yield Found((*path, "schedule"), found, "make one of the two")
        seen.add(moment)


@rule(
    "LP362",
    "Schedule that never comes",
    reason="A day that its months do not have, or a time that is over: nothing runs, and nobody is told.",
    mend="Write a date to come, and ? or * for the year.",
    severity="warning",
)
def never_comes(subject: Subject) -> Iterator[Found]:
    today = datetime.now(UTC).date()
    written = [
        ((*path, "schedule"), policy.schedule) for placed in subject.components for path, policy in _schedules(placed)
    ]
    if subject.profile.benchmark.schedule is not None:
        written.append((("benchmark", "schedule"), subject.profile.benchmark.schedule))
    for place, text in written:
        why = why_never(text, today) if schedule_problem(text) is None else None
        if why is not None:
            yield Found(place, f"{text} {why}", "write a date to come")


@rule(
    "LP369",
    "Benchmark more often than every hour",
    reason="Each one loads the endpoint to its knee and is paid for; what it finds does not change within the hour.",
    mend="Write a time a day, or a few hours apart.",
    severity="warning",
)
def benchmark_too_often(subject: Subject) -> Iterator[Found]:
    schedule = subject.profile.benchmark.schedule
    if schedule is not None and schedule_problem(schedule) is None and _is_within_the_hour(schedule):
        yield Found(("benchmark", "schedule"), f"{schedule} runs again within the hour", "write a time a day")


def _is_within_the_hour(schedule: str) -> bool:
    if schedule.startswith("rate("):
        number, unit = schedule[5:-1].split()
        return unit.startswith("minute") and int(number) < 60
    fields = _CRON.match(schedule)
    return fields is not None and not fields.group(1).isdecimal()


def why_never(text: str, today: date) -> str | None:
    """Why a well-formed schedule does not run from that day on; None where it may."""
    if text.startswith("at("):
        return "is over" if text[3:13] < today.isoformat() else None
    fields = _CRON.match(text)
    if fields is None:
        return None
    days, months, years = fields.group(3), fields.group(4), fields.group(6)
    if (last := _numbers(years)) and max(last) < today.year:
        return "is over"
    named = _numbers(months) if "-" not in months else []  # a range of months has one of 31 days, or nearly so
    longest = [_DAYS[month - 1] for month in named or range(1, 13)]
    if (asked := _numbers(days)) and min(asked) > max(longest):
        return f"is day {min(asked)} of months of {max(longest)}"
    coming = [year for year in last if year >= today.year]
    if asked == [29] and named == [2] and "-" not in years and coming and not any(map(isleap, coming)):
        return "is day 29 of a February of 28"
    return None


def _numbers(field: str) -> list[int]:
    """Those that a field lists, ends of ranges included; none where it holds anything else."""
    for at, name in enumerate(_MONTHS, start=1):
        field = field.replace(name, str(at))
    return [int(one) for one in re.split("[,-]", field)] if re.fullmatch(r"\d+([,-]\d+)*", field) else []


def _schedules(placed: Placed) -> Iterator[tuple[Path, ScheduledScaling]]:
    return ((path, policy) for path, policy in policies_of(placed) if isinstance(policy, ScheduledScaling))


def schedule_problem(text: str) -> tuple[str, str] | None:
    """What is wrong with an at(), rate() or cron() expression, and its mend."""
    if _AT.match(text) or _RATE.match(text):
        return None
    if text.startswith("at("):
        return "not a date and time", "write it like at(2026-12-24T08:00:00)"
    if text.startswith("rate("):
        return "not a rate", "write it like rate(1 hour) or rate(5 minutes)"
    fields = _CRON.match(text)
    if fields is None:
        return "cron needs six fields", "write cron(minutes hours day-of-month month day-of-week year)"
    if not all(_CRON_FIELD.match(field) for field in fields.groups()):
        return "a cron field holds more than digits, names and * ? , - / # L W", "use capital names, such as MON-FRI"
    if (fields.group(3) == "?") == (fields.group(5) == "?"):
        return "exactly one of day-of-month and day-of-week must be `?`", "write ? for the one that does not matter"
    for (what, least, most), field in zip(_CRON_RANGES, fields.groups(), strict=True):
        numbers = [int(one) for one in re.findall(r"\d+", re.sub(r"[/#]\d+", "", field))]
        if any(not least <= one <= most for one in numbers):
            return (
                f"`{field}` holds {what} outside {least} to {most}",
                "write six fields: minutes hours day month day year",
            )
    return None


def is_zone(name: str) -> bool:
    if name == "UTC":
        return True
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True
