"""Zero and policies: rules about how copies follow load; by the clock they follow in scheduling.py."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from loadproof.profiles.checks.rule import Found, Placed, Subject, component_rule, rule
from loadproof.profiles.schema import ScheduledScaling, SimpleScaling, StepScaling, TargetTracking
from loadproof.profiles.schema.scaling import Policy
from loadproof.profiles.tree import Path

_COMPONENT_METRICS: Final = ("concurrent_requests_per_copy", "invocations_per_copy", "backlog_per_copy")
_VARIANT_METRICS: Final = ("concurrent_requests_per_model", "invocations_per_instance", "backlog_per_copy")
_ASYNC_METRICS: Final = ("async_backlog_per_instance", "invocations_per_instance")
_MOST_ALARM_S: Final = 86_400  # PutMetricAlarm: of periods shorter than an hour
_LATE_S: Final = {"above": 3_600, "below": 14_400}
_TRICKLE: Final = 4  # into what the objectives are proven at: so little is not what they are proven for
_LOW_SHARE: Final = 0.9  # below this share of its target, target tracking takes copies away


@component_rule(
    "LP206",
    "No copies, and no way to scale to zero",
    reason="CreateInferenceComponent refuses 0 copies; zero is a state that scaling reaches, and must leave again.",
    mend="Write copies.min: 1, or add scaling.to_zero.",
)
def zero_copies(placed: Placed) -> Iterator[Found]:
    if placed.component.copies.min == 0 and placed.to_zero is None:
        found = "0 copies are refused by CreateInferenceComponent"
        yield Found(
            placed.at("copies", "min"), found, "write 1, or add `scaling.to_zero: {}` to start with 1 and idle at 0"
        )


@component_rule(
    "LP207",
    "Scale to zero never wakes",
    reason="Target tracking cannot leave zero: only an alarm on refused requests or on waiting messages can.",
    mend="Set wake_on_failed_invocation or wake_on_backlog to true.",
)
def never_wakes(placed: Placed) -> Iterator[Found]:
    zero, path = placed.to_zero, placed.at("scaling", "to_zero")
    if zero is None:
        return
    if not zero.wake_on_failed_invocation and not zero.wake_on_backlog:
        found = "scale to zero without a wake-up alarm never wakes"
        yield Found(path, found, "write wake_on_failed_invocation: true")
    if zero.wake_on_backlog and not _has_buffer(placed):
        found = "there is no buffer whose backlog could wake it"
        yield Found((*path, "wake_on_backlog"), found, "add `buffer: {}`, or write false")


@component_rule(
    "LP208",
    "Scale to zero that keeps a copy",
    reason="copies.min (min_instances of a plain variant) and scaling.to_zero disagree about the smallest count.",
    mend="Write 0 there, or leave to_zero out.",
)
def keeps_a_copy(placed: Placed) -> Iterator[Found]:
    least = bounds_of(placed)[0]
    if placed.to_zero is not None and least > 0:
        name = BOUND_NAMES[placed.endpoint.hosting][0]
        plain = placed.endpoint.hosting == "plain_variant"
        path = ("endpoint", "min_instances") if plain else placed.at("copies", "min")
        yield Found(path, f"to_zero is given, but {name} is {least}", f"write {name}: 0, or leave to_zero out")


@rule(
    "LP209",
    "No instances",
    reason="Copies need an instance, unless every model of the endpoint may go to zero.",
    mend="Write min_instances: 1, or give every model scaling.to_zero.",
)
def zero_instances(subject: Subject) -> Iterator[Found]:
    endpoint = subject.endpoint
    path = ("endpoint", "min_instances")
    to_zero = [placed.to_zero is not None for placed in subject.components]
    if endpoint.min_instances == 0 and not all(to_zero):
        found = "0 instances, but copies never go to zero"
        yield Found(path, found, "write 1, or give every model scaling.to_zero")
    elif endpoint.hosting == "plain_variant":
        return  # LP208 says it
    elif endpoint.min_instances > 0 and to_zero and all(to_zero):
        found = f"copies go to zero, but min_instances {endpoint.min_instances} keeps paid machines"
        yield Found(path, found, "write 0, to release them too", "warning")


@component_rule(
    "LP210",
    "Scale to zero without a policy that gets there",
    reason="Nothing lowers the count when the load ends.",
    mend="Add a target_tracking policy with scale_in, or a step policy below a threshold.",
)
def never_reaches_zero(placed: Placed) -> Iterator[Found]:
    lowers = any(
        (isinstance(policy, TargetTracking) and policy.scale_in)
        or (isinstance(policy, StepScaling) and any(step.add_copies < 0 for step in policy.steps))
        or (isinstance(policy, SimpleScaling) and policy.add_copies < 0)
        or (isinstance(policy, ScheduledScaling) and policy.max_copies == 0)
        for _, policy in policies_of(placed)
    )
    if placed.to_zero is not None and not lowers:
        yield Found(placed.at("scaling", "to_zero"), "no policy lowers the count", "add a target_tracking policy")


@component_rule(
    "LP211",
    "Metric does not exist here",
    reason="Components report per copy, plain variants per instance, asynchronous ones their own queue; "
    "backlog_per_copy needs the buffer's.",
    mend="Use a metric of the endpoint's hosting; add a buffer for backlog_per_copy.",
)
def metric_exists(placed: Placed) -> Iterator[Found]:
    endpoint = placed.endpoint
    kind = endpoint.hosting.replace("_", " ")
    allowed: tuple[str, ...] = _COMPONENT_METRICS
    if endpoint.async_inference is not None:
        kind, allowed = "an asynchronous endpoint", _ASYNC_METRICS
    elif endpoint.hosting == "plain_variant":
        allowed = _VARIANT_METRICS
    for path, policy in policies_of(placed):
        metric = getattr(policy, "metric", None)
        if metric is None:
            continue
        if metric not in allowed:
            found = f"`{metric}` does not exist on {kind}"
            yield Found((*path, "metric"), found, f"use {' or '.join(allowed)}")
        elif metric == "backlog_per_copy" and not _has_buffer(placed):
            yield Found((*path, "metric"), "backlog_per_copy needs a buffer", "add `buffer: {}`, or another metric")


@component_rule(
    "LP212",
    "Policies that repeat",
    reason="Two trackers of one metric fight each other, and scheduled actions of one name replace each other.",
    mend="Keep one of them.",
)
def policies_repeat(placed: Placed) -> Iterator[Found]:
    seen: set[tuple[str, str]] = set()
    for path, policy in policies_of(placed):
        if isinstance(policy, StepScaling | SimpleScaling):
            continue
        name = policy.metric if isinstance(policy, TargetTracking) else policy.name
        if (policy.type, name) in seen:
            kind = "target_tracking policy on" if isinstance(policy, TargetTracking) else "scheduled policy named"
            yield Found(path, f"another {kind} {name}", "keep one of them")
        seen.add((policy.type, name))


@component_rule(
    "LP216",
    "Steps that contradict their alarm",
    reason="Steps are ranges from the threshold on: they ascend from 0, and move the count away from the alarm.",
    mend="Begin at 0, ascend, add copies above a threshold and remove them below one.",
)
def step_form(placed: Placed) -> Iterator[Found]:
    for path, policy in policies_of(placed):
        if isinstance(policy, SimpleScaling) and policy.add_copies == 0:
            mend = "write a positive number (above the threshold) or a negative one (below it)"
            yield Found((*path, "add_copies"), "add_copies 0 changes nothing", mend)
        if not isinstance(policy, StepScaling):
            continue
        starts = [step.at for step in policy.steps]
        if starts[0] != 0 or any(left >= right for left, right in pairwise(starts)):
            yield Found((*path, "steps"), "steps must begin at 0 and ascend", "sort them, the first with `at: 0`")
        above = policy.comparison == "above"
        for at, step in enumerate(policy.steps):
            if step.add_copies == 0 or (step.add_copies > 0) != above:
                found = f"add_copies {step.add_copies} when the metric is {policy.comparison} the threshold"
                mend = "add copies (a positive number)" if above else "remove copies (a negative number)"
                yield Found((*path, "steps", at, "add_copies"), found, mend)


@component_rule(
    "LP217",
    "Scaling that cannot move",
    reason="Either the bounds leave no room, or there is room and nothing uses it.",
    mend="Raise copies.max or delete scaling; add scaling or lower copies.max.",
    severity="warning",
)
def cannot_move(placed: Placed) -> Iterator[Found]:
    copies, scaling = placed.component.copies, placed.component.scaling
    moves = scaling is not None and (scaling.policies or scaling.to_zero)
    least, most = bounds_of(placed)
    if moves and least == most:
        least_name, most_name = BOUND_NAMES[placed.endpoint.hosting]
        found = f"{least_name} and {most_name} are both {most}, so no policy can move the count"
        yield Found(placed.at("scaling"), found, f"raise {most_name}, or delete scaling")
    if not moves and 0 < copies.min < copies.max and placed.endpoint.hosting == "inference_components":
        found = f"copies stay at {copies.min}: nothing scales them to {copies.max}"
        yield Found(placed.at("copies", "max"), found, "add scaling.policies, or lower copies.max")


@component_rule(
    "LP270",
    "Alarm period shorter than its metric",
    reason="SageMaker publishes concurrency every 10 s, everything else every minute: a shorter period has no data.",
    mend="Write period_s: 60 or more, or use a metric of concurrent requests.",
)
def period_too_short(placed: Placed) -> Iterator[Found]:
    for path, policy in policies_of(placed):
        if not isinstance(policy, StepScaling | SimpleScaling) or policy.metric.startswith("concurrent_requests"):
            continue
        if policy.period_s < 60:
            found = f"`{policy.metric}` has a value a minute, the alarm looks every {policy.period_s} s"
            yield Found((*path, "period_s"), found, "write 60, or delete it")


@component_rule(
    "LP372",
    "Alarm that comes hours late",
    reason="A step follows only when all evaluation periods in a row are past the threshold: a peak is over by then, "
    "and idle copies are paid for. CloudWatch refuses more than a day of them (PutMetricAlarm, EvaluationPeriods).",
    mend="Let evaluation_periods times period_s stay below an hour before copies come, and four before they go.",
    severity="warning",
    also=("error",),
)
def alarm_too_late(placed: Placed) -> Iterator[Found]:
    for path, policy in policies_of(placed):
        step = policy.as_step() if isinstance(policy, SimpleScaling) else policy
        if not isinstance(step, StepScaling):
            continue
        alarm_s, place = step.evaluation_periods * step.period_s, (*path, "evaluation_periods")
        found = f"{step.evaluation_periods:,} periods of {step.period_s} s are {alarm_s / 60:,.0f} minutes"
        if alarm_s > _MOST_ALARM_S:
            yield Found(place, f"{found}, and CloudWatch takes a day", "write a few", "error")
        elif alarm_s >= _LATE_S[step.comparison]:
            yield Found(place, f"{found} past the threshold before anything happens", "write a few")


@component_rule(
    "LP271",
    "Policies that work against each other",
    reason="One adds copies at a load at which the other takes them away, so the count goes up and down for ever. So "
    "it does where a copy that comes brings the load of each below the threshold at which a step takes one away.",
    mend="Take copies away at a lower load than they are added at: of one copy that becomes two, at half of it.",
)
def policies_contradict(placed: Placed) -> Iterator[Found]:
    adds: list[tuple[str, str, float]] = []
    removes: list[tuple[Path, str, str, float]] = []
    for path, policy in policies_of(placed):
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
            yield Found(path, found, f"lower it below {min(others):g}, or raise the other")
        elif others and kind == "step" and metric.endswith(("_per_copy", "_per_instance")):
            yield from _one_more(path, metric, removed_at, min(others), bounds_of(placed))


def _one_more(path: Path, metric: str, removed_at: float, added_at: float, bounds: tuple[int, int]) -> Iterator[Found]:
    """The fewest copies there are share their load with one more; with several at once each has still less."""
    least, most = max(1, bounds[0]), bounds[1]
    shared = added_at * least / (least + 1)
    if least < most and removed_at > shared:
        found = (
            f"takes copies away below {removed_at:g} {metric}: {least} at {added_at:g} become {least + 1} at "
            f"{shared:.3g}, and one goes again"
        )
        yield Found(path, found, f"lower it to {shared:.3g} or less", "warning")


@component_rule(
    "LP272",
    "Fewer consumers than copies",
    reason="Each consumer has `batch_size` requests in flight: with fewer of them than copies some copies get nothing "
    "from the buffer, and scaling on the backlog adds copies that cannot help. Fewer than the target of one copy, and "
    "at most a quarter of what the objectives are proven at, bring no second one however long the queue is.",
    mend="Raise buffer.max_concurrency to the most copies times what each takes at once, or lower copies.min.",
    severity="warning",
)
def too_few_consumers(placed: Placed) -> Iterator[Found]:
    buffer, (least, most) = placed.profile.buffer, bounds_of(placed)
    tracked = any(getattr(policy, "metric", None) == "backlog_per_copy" for _, policy in policies_of(placed))
    if buffer is None or buffer.max_concurrency == "auto" or not (tracked or (placed.is_main and _has_buffer(placed))):
        return
    raised = (policy.min_copies or 0 for _, policy in policies_of(placed) if isinstance(policy, ScheduledScaling))
    copies, in_flight = most if tracked else max((least, *raised)), buffer.max_concurrency * buffer.batch_size
    trackers = [policy for _, policy in policies_of(placed) if isinstance(policy, TargetTracking)]
    targets = [policy.target for policy in trackers if policy.metric == "concurrent_requests_per_copy"]
    busy = [target for target in targets if target != "auto"]
    trickle = _TRICKLE * in_flight <= placed.profile.objectives.at_concurrency
    if busy and least < most and in_flight < min(busy) and trickle:
        found = f"{in_flight} requests in flight bring no copy, which comes above {min(busy):g} of them"
        yield Found(("buffer", "max_concurrency"), found, "write auto, or what the most copies take at once")
    elif in_flight < copies:
        found = f"{buffer.max_concurrency} consumers cannot keep {copies} copies busy"
        yield Found(("buffer", "max_concurrency"), found, f"raise it to {copies} or more")


BOUND_NAMES: Final = {
    "inference_components": ("copies.min", "copies.max"),
    "plain_variant": ("endpoint.min_instances", "endpoint.max_instances"),
}


def bounds_of(placed: Placed) -> tuple[int, int]:
    """What scaling moves between: copies, or the instances of a plain variant, which has one copy on each."""
    copies, endpoint = placed.component.copies, placed.endpoint
    if endpoint.hosting == "plain_variant":
        return endpoint.min_instances, endpoint.max_instances
    return copies.min, copies.max


@component_rule(
    "LP368",
    "Copies that only ever come",
    reason="No policy takes a copy away again: what one busy hour needed is paid for from then on.",
    mend="Let target tracking scale in, or add a step that removes copies.",
    severity="warning",
)
def never_fewer(placed: Placed) -> Iterator[Found]:
    scaling = placed.component.scaling
    policies = [policy for _, policy in policies_of(placed)]
    if scaling is not None and policies and not scaling.to_zero and not any(map(_takes_away, policies)):
        yield Found(placed.at("scaling", "policies"), "none of them removes a copy", "let one scale in")


def _takes_away(policy: Policy) -> bool:
    """A schedule may, by its bounds."""
    if isinstance(policy, TargetTracking):
        return policy.scale_in
    if isinstance(policy, ScheduledScaling):
        return policy.min_copies is not None or policy.max_copies is not None
    step = policy.as_step() if isinstance(policy, SimpleScaling) else policy
    return any(one.add_copies < 0 for one in step.steps)


def policies_of(placed: Placed) -> Iterator[tuple[Path, Policy]]:
    scaling = placed.component.scaling
    for at, policy in enumerate(scaling.policies if scaling else ()):
        yield placed.at("scaling", "policies", at), policy


def _has_buffer(placed: Placed) -> bool:
    return placed.profile.buffer is not None and placed.profile.buffer.enabled
