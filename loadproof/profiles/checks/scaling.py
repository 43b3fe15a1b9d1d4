"""Zero, policies, schedules: rules about how copies follow load (LP206-LP217, LP270-LP274)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from loadproof.profiles.checks.rule import Finding, Placed, Subject, rule
from loadproof.profiles.schema import ScheduledScaling, SimpleScaling, StepScaling, TargetTracking
from loadproof.profiles.tree import Path

_COMPONENT_METRICS: Final = ("concurrent_requests_per_copy", "invocations_per_copy", "backlog_per_copy")
_VARIANT_METRICS: Final = ("concurrent_requests_per_model", "invocations_per_instance", "backlog_per_copy")
_ASYNC_METRICS: Final = ("async_backlog_per_instance", "invocations_per_instance")
_LOW_SHARE: Final = 0.9  # below this share of its target, target tracking takes copies away
_AT: Final = re.compile(r"at\(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\)\Z")
_RATE: Final = re.compile(r"rate\((?:1 (?:minute|hour|day)|(?!1 |0 )\d+ (?:minutes|hours|days))\)\Z")
_CRON: Final = re.compile(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)\Z")
_CRON_FIELD: Final = re.compile(r"[0-9A-Z*?,/#LW-]+\Z")


@rule(
    "LP206",
    "No copies, and no way to scale to zero",
    reason="CreateInferenceComponent refuses 0 copies; zero is a state that scaling reaches, and must leave again.",
    fix="Write copies.min: 1, or add scaling.to_zero.",
    scope="component",
)
def zero_copies(placed: Placed) -> Iterator[Finding]:
    scaling = placed.component.scaling
    if placed.component.copies.min == 0 and (scaling is None or scaling.to_zero is None):
        found = "0 copies are refused by CreateInferenceComponent"
        yield Finding(
            placed.at("copies", "min"), found, "write 1, or add `scaling.to_zero: {}` to start with 1 and idle at 0"
        )


@rule(
    "LP207",
    "Scale to zero never wakes",
    reason="Target tracking cannot leave zero: only an alarm on refused requests or on waiting messages can.",
    fix="Set wake_on_failed_invocation or wake_on_backlog to true.",
    scope="component",
)
def never_wakes(placed: Placed) -> Iterator[Finding]:
    scaling = placed.component.scaling
    if scaling is None or scaling.to_zero is None:
        return
    zero, path = scaling.to_zero, placed.at("scaling", "to_zero")
    if not zero.wake_on_failed_invocation and not zero.wake_on_backlog:
        found = "scale to zero without a wake-up alarm never wakes"
        yield Finding(path, found, "write wake_on_failed_invocation: true")
    if zero.wake_on_backlog and not _has_buffer(placed):
        found = "there is no buffer whose backlog could wake it"
        yield Finding((*path, "wake_on_backlog"), found, "add `buffer: {}`, or write false")


@rule(
    "LP208",
    "Scale to zero that keeps a copy",
    reason="copies.min (min_instances of a plain variant) and scaling.to_zero disagree about the smallest count.",
    fix="Write 0 there, or leave to_zero out.",
    scope="component",
)
def keeps_a_copy(placed: Placed) -> Iterator[Finding]:
    scaling, least = placed.component.scaling, _bounds(placed)[0]
    if scaling is not None and scaling.to_zero is not None and least > 0:
        name = _BOUND_NAMES[placed.endpoint.hosting][0]
        plain = placed.endpoint.hosting == "plain_variant"
        path = ("endpoint", "min_instances") if plain else placed.at("copies", "min")
        yield Finding(path, f"to_zero is given, but {name} is {least}", f"write {name}: 0, or leave to_zero out")


@rule(
    "LP209",
    "No instances",
    reason="Copies need an instance, unless every model of the endpoint may go to zero.",
    fix="Write min_instances: 1, or give every model scaling.to_zero.",
)
def zero_instances(subject: Subject) -> Iterator[Finding]:
    endpoint = subject.profile.endpoint
    if endpoint is None:
        return
    path = ("endpoint", "min_instances")
    to_zero = [
        placed.component.scaling is not None and placed.component.scaling.to_zero is not None
        for placed in subject.components
    ]
    if endpoint.min_instances == 0 and not all(to_zero):
        found = "0 instances, but copies never go to zero"
        yield Finding(path, found, "write 1, or give every model scaling.to_zero")
    elif endpoint.hosting == "plain_variant":
        return  # LP208 says it
    elif endpoint.min_instances > 0 and to_zero and all(to_zero):
        found = f"copies go to zero, but min_instances {endpoint.min_instances} keeps paid machines"
        yield Finding(path, found, "write 0, to release them too", "warning")


@rule(
    "LP210",
    "Scale to zero without a policy that gets there",
    reason="Nothing lowers the count when the load ends.",
    fix="Add a target_tracking policy with scale_in, or a step policy below a threshold.",
    scope="component",
)
def never_reaches_zero(placed: Placed) -> Iterator[Finding]:
    scaling = placed.component.scaling
    if scaling is None or scaling.to_zero is None:
        return
    lowers = any(
        (isinstance(policy, TargetTracking) and policy.scale_in)
        or (isinstance(policy, StepScaling) and any(step.add_copies < 0 for step in policy.steps))
        or (isinstance(policy, SimpleScaling) and policy.add_copies < 0)
        or (isinstance(policy, ScheduledScaling) and policy.max_copies == 0)
        for policy in scaling.policies
    )
    if not lowers:
        yield Finding(placed.at("scaling", "to_zero"), "no policy lowers the count", "add a target_tracking policy")


@rule(
    "LP211",
    "Metric does not exist here",
    reason="Components report per copy, plain variants per instance, asynchronous ones their own queue; "
    "backlog_per_copy needs the buffer's.",
    fix="Use a metric of the endpoint's hosting; add a buffer for backlog_per_copy.",
    scope="component",
)
def metric_exists(placed: Placed) -> Iterator[Finding]:
    endpoint = placed.endpoint
    kind = endpoint.hosting.replace("_", " ")
    allowed: tuple[str, ...] = _COMPONENT_METRICS
    if endpoint.async_inference is not None:
        kind, allowed = "an asynchronous endpoint", _ASYNC_METRICS
    elif endpoint.hosting == "plain_variant":
        allowed = _VARIANT_METRICS
    for path, policy in _policies(placed):
        metric = getattr(policy, "metric", None)
        if metric is None:
            continue
        if metric not in allowed:
            found = f"`{metric}` does not exist on {kind}"
            yield Finding((*path, "metric"), found, f"use {' or '.join(allowed)}")
        elif metric == "backlog_per_copy" and not _has_buffer(placed):
            yield Finding((*path, "metric"), "backlog_per_copy needs a buffer", "add `buffer: {}`, or another metric")


@rule(
    "LP212",
    "Policies that repeat",
    reason="Two trackers of one metric fight each other, and scheduled actions of one name replace each other.",
    fix="Keep one of them.",
    scope="component",
)
def policies_repeat(placed: Placed) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for path, policy in _policies(placed):
        if isinstance(policy, StepScaling | SimpleScaling):
            continue
        name = policy.metric if isinstance(policy, TargetTracking) else policy.name
        if (policy.type, name) in seen:
            kind = "target_tracking policy on" if isinstance(policy, TargetTracking) else "scheduled policy named"
            yield Finding(path, f"another {kind} {name}", "keep one of them")
        seen.add((policy.type, name))


@rule(
    "LP213",
    "Schedule that Application Auto Scaling refuses",
    reason="Its cron has six fields (with a year), and one of the two day fields must be `?`.",
    fix="Write cron(minutes hours day-of-month month day-of-week year), rate(1 hour) or at(2026-12-24T08:00:00).",
    scope="component",
)
def schedule_form(placed: Placed) -> Iterator[Finding]:
    for path, policy in _policies(placed):
        if isinstance(policy, ScheduledScaling):
            wrong = schedule_problem(policy.schedule)
            if wrong:
                yield Finding((*path, "schedule"), wrong[0], wrong[1])


@rule(
    "LP214",
    "Unknown time zone",
    reason="Schedules follow daylight saving of a named zone.",
    fix="Use a name of the IANA database, such as Europe/Berlin.",
    scope="component",
)
def time_zone(placed: Placed) -> Iterator[Finding]:
    for path, policy in _policies(placed):
        if isinstance(policy, ScheduledScaling) and not is_zone(policy.timezone):
            yield Finding((*path, "timezone"), "not the name of a time zone", "write it like Europe/Berlin, or UTC")


@rule(
    "LP215",
    "Scheduled bounds that cannot hold",
    reason="A scheduled action moves the bounds; the result must still be a range, and zero must be able to wake.",
    fix="Give min_copies or max_copies, in order, and within what the instances hold.",
    scope="component",
)
def scheduled_bounds(placed: Placed) -> Iterator[Finding]:
    scaling, (least, most) = placed.component.scaling, _bounds(placed)
    most_name = _BOUND_NAMES[placed.endpoint.hosting][1]
    schedules = [(path, policy) for path, policy in _policies(placed) if isinstance(policy, ScheduledScaling)]
    for path, policy in schedules:
        low, high = policy.min_copies, policy.max_copies
        if low is None and high is None:
            yield Finding(path, "neither min_copies nor max_copies is given", "add one of them")
            continue
        others = [other for _, other in schedules if other is not policy]
        # A bound that another action has moved stays moved: the action must fit that one too, or bring both.
        lowered = min((other.max_copies for other in others if other.max_copies is not None), default=most)
        raised = max((other.min_copies for other in others if other.min_copies is not None), default=least)
        ceiling = high if high is not None else most
        if low is not None and low > ceiling:
            mend = f"lower it to {ceiling}, or raise {most_name if high is None else 'max_copies'}"
            yield Finding((*path, "min_copies"), f"{low} is above the maximum of {ceiling}", mend)
        elif low is not None and high is None and low > lowered:
            mend = f"give max_copies beside it, or lower it to {lowered}"
            yield Finding((*path, "min_copies"), f"{low} is above the maximum of {lowered} in force by then", mend)
        if high is not None and high > most:
            found = f"{high} is above {most_name} {most}, which the instances are sized for"
            yield Finding((*path, "max_copies"), found, f"lower it to {most}, or raise {most_name}")
        if high is not None and low is None and high < raised:
            mend = f"give min_copies beside it, or raise it to {raised}"
            yield Finding((*path, "max_copies"), f"{high} is below the minimum of {raised} in force by then", mend)
        if 0 in (low, high) and (scaling is None or scaling.to_zero is None):
            name = "min_copies" if low == 0 else "max_copies"
            yield Finding((*path, name), "0 copies would never wake", "add scaling.to_zero, or write 1")


@rule(
    "LP216",
    "Steps that contradict their alarm",
    reason="Steps are ranges from the threshold on: they ascend from 0, and move the count away from the alarm.",
    fix="Begin at 0, ascend, add copies above a threshold and remove them below one.",
    scope="component",
)
def step_form(placed: Placed) -> Iterator[Finding]:
    for path, policy in _policies(placed):
        if isinstance(policy, SimpleScaling) and policy.add_copies == 0:
            mend = "write a positive number (above the threshold) or a negative one (below it)"
            yield Finding((*path, "add_copies"), "add_copies 0 changes nothing", mend)
        if not isinstance(policy, StepScaling):
            continue
        starts = [step.at for step in policy.steps]
        if starts[0] != 0 or any(left >= right for left, right in pairwise(starts)):
            yield Finding((*path, "steps"), "steps must begin at 0 and ascend", "sort them, the first with `at: 0`")
        above = policy.comparison == "above"
        for at, step in enumerate(policy.steps):
            if step.add_copies == 0 or (step.add_copies > 0) != above:
                found = f"add_copies {step.add_copies} when the metric is {policy.comparison} the threshold"
                mend = "add copies (a positive number)" if above else "remove copies (a negative number)"
                yield Finding((*path, "steps", at, "add_copies"), found, mend)


@rule(
    "LP217",
    "Scaling that cannot move",
    reason="Either the bounds leave no room, or there is room and nothing uses it.",
    fix="Raise copies.max or delete scaling; add scaling or lower copies.max.",
    scope="component",
    severity="warning",
)
def cannot_move(placed: Placed) -> Iterator[Finding]:
    copies, scaling = placed.component.copies, placed.component.scaling
    moves = scaling is not None and (scaling.policies or scaling.to_zero)
    least, most = _bounds(placed)
    if moves and least == most:
        least_name, most_name = _BOUND_NAMES[placed.endpoint.hosting]
        found = f"{least_name} and {most_name} are both {most}, so no policy can move the count"
        yield Finding(placed.at("scaling"), found, f"raise {most_name}, or delete scaling")
    if not moves and 0 < copies.min < copies.max:
        found = f"copies stay at {copies.min}: nothing scales them to {copies.max}"
        yield Finding(placed.at("copies", "max"), found, "add scaling.policies, or lower copies.max")


@rule(
    "LP270",
    "Alarm period shorter than its metric",
    reason="SageMaker publishes concurrency every 10 s, everything else every minute: a shorter period has no data.",
    fix="Write period_s: 60 or more, or use a metric of concurrent requests.",
    scope="component",
)
def period_too_short(placed: Placed) -> Iterator[Finding]:
    for path, policy in _policies(placed):
        if not isinstance(policy, StepScaling | SimpleScaling) or policy.metric.startswith("concurrent_requests"):
            continue
        if policy.period_s < 60:
            found = f"`{policy.metric}` has a value a minute, the alarm looks every {policy.period_s} s"
            yield Finding((*path, "period_s"), found, "write 60, or delete it")


@rule(
    "LP271",
    "Policies that work against each other",
    reason="One adds copies at a load at which the other takes them away, so the count goes up and down for ever.",
    fix="Take copies away at a lower load than they are added at.",
    scope="component",
)
def policies_contradict(placed: Placed) -> Iterator[Finding]:
    adds: list[tuple[str, str, float]] = []
    removes: list[tuple[Path, str, str, float]] = []
    for path, policy in _policies(placed):
        step = policy.as_step() if isinstance(policy, SimpleScaling) else policy
        if isinstance(step, StepScaling) and step.comparison == "above":
            adds.append(("step", step.metric, step.threshold))
        elif isinstance(step, StepScaling):
            removes.append(((*path, "threshold"), "step", step.metric, step.threshold))
        elif isinstance(policy, TargetTracking) and policy.target != "auto":
            adds.append((policy.type, policy.metric, policy.target))
            if policy.scale_in:
                removes.append(((*path, "target"), policy.type, policy.metric, _LOW_SHARE * policy.target))
    for path, kind, metric, removed_at in removes:
        # Two trackers of one metric are LP212's.
        others = [value for other, name, value in adds if name == metric and "step" in (kind, other)]
        if others and removed_at >= min(others):
            found = (
                f"takes copies away at {removed_at:g} {metric}, while another policy adds them from {min(others):g} on"
            )
            yield Finding(path, found, f"lower it below {min(others):g}, or raise the other")


@rule(
    "LP272",
    "Fewer consumers than copies",
    reason="Each consumer has one request in flight: with fewer of them than copies some copies get nothing, and "
    "scaling on the backlog adds copies that cannot help.",
    fix="Raise buffer.max_concurrency to the most copies times what each takes at once.",
    scope="component",
    severity="warning",
)
def too_few_consumers(placed: Placed) -> Iterator[Finding]:
    buffer, most = placed.profile.buffer, _bounds(placed)[1]
    tracked = any(getattr(policy, "metric", None) == "backlog_per_copy" for _, policy in _policies(placed))
    if buffer is not None and tracked and buffer.max_concurrency < most:
        found = f"{buffer.max_concurrency} consumers cannot keep {most} copies busy"
        yield Finding(("buffer", "max_concurrency"), found, f"raise it to {most} or more")


@rule(
    "LP273",
    "A raised minimum that nothing lowers",
    reason="A scheduled action moves the bounds for good: the copies of the first morning stay for ever.",
    fix="Add a scheduled policy that lowers the minimum again.",
    scope="component",
    severity="warning",
)
def minimum_stays(placed: Placed) -> Iterator[Finding]:
    least = _bounds(placed)[0]
    schedules = [(path, policy) for path, policy in _policies(placed) if isinstance(policy, ScheduledScaling)]
    raised = [(policy.min_copies, path) for path, policy in schedules if policy.min_copies is not None]
    if raised and min(raised)[0] > least:
        low, path = min(raised)
        found = f"no schedule lowers the minimum of {low} again"
        yield Finding((*path, "min_copies"), found, f"add a scheduled policy with min_copies: {least}")


@rule(
    "LP274",
    "Two schedules at one moment",
    reason="Application Auto Scaling does not say which of two actions of the same moment comes last.",
    fix="Make one of the two, or move one of them.",
    scope="component",
)
def schedules_collide(placed: Placed) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for path, policy in _policies(placed):
        if isinstance(policy, ScheduledScaling):
            moment = (policy.schedule, policy.timezone)
            if moment in seen:
                found = f"another scheduled policy runs at {policy.schedule} {policy.timezone}"
                yield Finding((*path, "schedule"), found, "make one of the two")
            seen.add(moment)


_BOUND_NAMES: Final = {
    "inference_components": ("copies.min", "copies.max"),
    "plain_variant": ("endpoint.min_instances", "endpoint.max_instances"),
}


def _bounds(placed: Placed) -> tuple[int, int]:
    """What scaling moves between: copies, or the instances of a plain variant, which has one copy on each."""
    copies, endpoint = placed.component.copies, placed.endpoint
    if endpoint.hosting == "plain_variant":
        return endpoint.min_instances, endpoint.max_instances
    return copies.min, copies.max


def _policies(placed: Placed) -> Iterator[tuple[Path, Any]]:
    scaling = placed.component.scaling
    for at, policy in enumerate(scaling.policies if scaling else ()):
        yield placed.at("scaling", "policies", at), policy


def _has_buffer(placed: Placed) -> bool:
    return placed.profile.buffer is not None and placed.profile.buffer.enabled


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
    return None


def is_zone(name: str) -> bool:
    import zoneinfo  # reads the system's table: only when a schedule asks

    if name == "UTC":
        return True
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True


RULES: Final = (
    zero_copies,
    never_wakes,
    keeps_a_copy,
    zero_instances,
    never_reaches_zero,
    metric_exists,
    policies_repeat,
    schedule_form,
    time_zone,
    scheduled_bounds,
    step_form,
    cannot_move,
    period_too_short,
    policies_contradict,
    too_few_consumers,
    minimum_stays,
    schedules_collide,
)
