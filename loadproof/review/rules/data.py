"""Rules about the buffer's time-outs and about data that goes with a resource (LR030-LR037)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from loadproof.review.model import ResourceChange, Severity
from loadproof.review.rules.change import Change, View, references
from loadproof.review.rules.refused import refused
from loadproof.review.rules.rule import Found, rule
from loadproof.review.rules.serving import FUNCTION, QUEUE, number
from loadproof.review.rules.words import label, listing
from loadproof.review.schemas import DATA
from loadproof.templates.template import Resource, listed

_LOGS: Final = "AWS::Logs::LogGroup"
_BUCKET: Final = "AWS::S3::Bucket"
_MAPPING: Final = "AWS::Lambda::EventSourceMapping"
# A parameter's value stands in the template.
_STORES: Final = tuple(kind for kind in DATA if kind not in (_LOGS, QUEUE, "AWS::SSM::Parameter"))
# AWS's own defaults, in seconds.
_VISIBILITY_S: Final = 30
_FUNCTION_S: Final = 3
_RETENTION_S: Final = 345_600
_DAY_S: Final = 86_400
_HELD: Final = {_LOGS: "logs", QUEUE: "messages", _BUCKET: "objects"}
_TIMES: Final = 6  # visibility ≥ 6 x the function's time-out + the batch window, as Lambda's guide asks
_FIELDS: Final = (
    "backend",
    "endpoint.hosting",
    "environment.yaml: results_on_destroy",
    "buffer",
    "model.source",
    "components",
    "adapters",
)


@rule(
    "LR030",
    "Time-outs that contradict each other",
    reason="A message whose visibility ends before its consumer does goes to a second one: the model answers twice. "
    "Lambda refuses a queue whose visibility is shorter than its function's time-out.",
    mend="Visibility of at least six times the function's time-out plus the batch window; the function's time-out "
    "above the longest answer.",
    source="https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html",
    severity="risk",
    also=("break", "warning"),
)
def timeouts(change: Change) -> Iterator[Found]:
    yield from refused(change, "LR030")
    if change.has_after:
        known = {queue: share for queue, share, _ in _short_visibilities(change.before)}
        for queue, share, found in _short_visibilities(change.after):
            if share < known.get(queue, 1):  # as short as before is not news, shorter is
                yield found


@rule(
    "LR031",
    "Messages lost",
    reason="A queue that is deleted or replaced takes with it what nobody has worked on yet, and what waits in a "
    "dead-letter queue to be looked at.",
    mend="Stop the senders, let the queue run empty (`loadproof queue` shows it), then deploy.",
    source=" https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html",
    severity="break",
    also=("risk",),
)
def messages_lost(change: Change) -> Iterator[Found]:
    yield from _losses(change, "stop the senders and let the queue run empty first", QUEUE)


@rule(
    "LR032",
    "Stored data lost",
    reason="What is deleted or replaced without `Retain` goes with all that is stored in it. (CloudFormation "
    "does not delete a bucket that holds objects, but what empties it first is often in the same stack.)",
    mend="Write DeletionPolicy and UpdateReplacePolicy `Retain`, or copy the data first.",
    source=" https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-updatereplacepolicy.html",
    severity="break",
    also=("risk",),
)
def data_lost(change: Change) -> Iterator[Found]:
    yield from _losses(change, "write Retain for it, or copy the data first", *_STORES)


@rule(
    "LR033",
    "Logs lost",
    reason="A log group that is deleted or replaced takes its logs with it, those that would explain the last incident "
    "too.",
    mend="Export what is still needed, or write DeletionPolicy and UpdateReplacePolicy `Retain`.",
    source=" https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html",
    severity="warning",
)
def logs_lost(change: Change) -> Iterator[Found]:
    for found in _losses(change, "export what is still needed", _LOGS):
        yield replace(found, severity=None)


@rule(
    "LR034",
    "Kept for a shorter time",
    reason="What is older than the new time is deleted soon after the deployment, not only what comes from then on.",
    mend="Export what is still needed, or keep the longer time.",
    source=" https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/Working-with-log-groups-and-streams.html",
    severity="warning",
)
def kept_shorter(change: Change) -> Iterator[Found]:
    shorter: dict[tuple[str, str, str], list[Resource]] = {}
    for one, before, after in change.updated(_LOGS, QUEUE, _BUCKET):
        old, new = _keeps_s(before), _keeps_s(after)
        if old is not None and new is not None and new < old:
            shorter.setdefault((_HELD[one.type], _time(old), _time(new)), []).append(after)
    for (what, was, becomes), held in shorter.items():
        message = f"{what} of {listing([label(one) for one in held])} are kept for {becomes}, until now {was}"
        subject = change.field("buffer.retention_s") if what == "messages" else ""
        subject = subject or change.field("environment.yaml: log_retention_days", otherwise=held[0].logical_id)
        yield Found(subject, message, "export what is still needed")


@rule(
    "LR035",
    "No longer kept on removal",
    reason="Without `Retain` the next removal or replacement deletes what is stored, and so does `cdk destroy`.",
    mend="Keep DeletionPolicy and UpdateReplacePolicy at `Retain`.",
    source=" https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html",
    severity="risk",
)
def not_retained(change: Change) -> Iterator[Found]:
    for stack, resource in change.after.placed(*DATA) if change.has_both else ():
        name = resource.logical_id
        was, becomes = (view.policy(stack, name, "DeletionPolicy") for view in (change.before, change.after))
        if was.startswith("Retain") and not becomes.startswith("Retain"):
            named = f"{_word(resource.type)} {label(resource)}"
            message = f"{named} will be deleted with its stack, until now it would be kept"
            subject = change.field("environment.yaml: results_on_destroy", otherwise=name)
            yield Found(subject, message, "keep its DeletionPolicy at Retain")


@rule(
    "LR036",
    "Left behind",
    reason="What is kept on removal belongs to no stack any more: it is billed, and nobody updates or deletes it. A "
    "replacement starts empty beside it.",
    mend="Note who looks after it; move or delete its data when nobody needs it.",
    source=" https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html",
    severity="info",
)
def left_behind(change: Change) -> Iterator[Found]:
    kept = [one for one, _, _ in change.gone(*DATA) if one.kept]
    if kept:
        names, stay = listing([label(change.old(one)) for one in kept]), "stays" if len(kept) == 1 else "stay"
        message = f"{names} {stay} in the account with all data, and in no stack any more"
        yield Found(_subject(change, kept), message, "note who looks after it")


@rule(
    "LR037",
    "Failed messages have nowhere to go",
    reason="Without a dead-letter queue a message that always fails is tried until it expires: each try pays for an "
    "answer, and then the message is gone.",
    mend="Keep a redrive policy of five receives or more.",
    source=" https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html",
    severity="risk",
)
def no_dead_letters(change: Change) -> Iterator[Found]:
    for one, before, after in change.updated(QUEUE):
        if before.properties.get("RedrivePolicy") and not after.properties.get("RedrivePolicy"):
            lacks = f"queue {label(after)} has no dead-letter queue any more"
            message = f"{lacks}: messages that fail are tried until they expire"
            yield Found(one.logical_id, message, "keep its redrive policy")


def _short_visibilities(view: View) -> Iterator[tuple[str, float, Found]]:
    """Queue, the share of the visibility it needs that it has, and what is wrong with that."""
    for source in view.of(_MAPPING):
        queue = _referred(view, source.properties.get("EventSourceArn"), QUEUE)
        function = _referred(view, source.properties.get("FunctionName"), FUNCTION)
        if queue is None or function is None:
            continue
        visibility_s = _seconds(queue.properties, "VisibilityTimeout", _VISIBILITY_S)
        runs_s = _seconds(function.properties, "Timeout", _FUNCTION_S)
        window_s = _seconds(source.properties, "MaximumBatchingWindowInSeconds", 0)
        if visibility_s is None or runs_s is None or window_s is None:
            continue
        needed_s = _TIMES * runs_s + window_s
        if visibility_s >= needed_s:
            continue
        severity: Severity = "break" if visibility_s < runs_s else "risk"
        wrong = "Lambda refuses that" if severity == "break" else "a slow message is given out twice"
        hidden = f"messages of {label(queue)} are hidden for {visibility_s} s"
        message = f"{hidden}, {label(function)} may run {runs_s} s: {wrong}"
        found = Found(queue.logical_id, message, f"set VisibilityTimeout to {needed_s} s or more", severity)
        yield queue.logical_id, visibility_s / needed_s, found


def _referred(view: View, value: object, kind: str) -> Resource | None:
    found = [view.named(name) for name in references(value)]
    return next((one for one in found if one is not None and one.type == kind), None)


def _seconds(properties: Mapping[str, object], name: str, default: int) -> int | None:
    """As written, AWS's default where nothing is; None for what only the deployment knows."""
    return number(properties[name]) if name in properties else default


def _losses(change: Change, mend: str, *kinds: str) -> Iterator[Found]:
    """Physical resources that leave their stack and that nothing keeps: a finding for each type of them."""
    for kind in kinds:
        lost = [one for one, _, _ in change.gone(kind) if not one.kept]
        if lost:
            yield Found(_subject(change, lost), _loss(change, lost, _word(kind), DATA[kind]), mend, _severity(lost))


def _subject(change: Change, lost: list[ResourceChange]) -> str:
    """The field that explains it: only where the resources go; a replacement is named by the resource."""
    removed = all(one.action == "remove" for one in lost)
    return change.field(*_FIELDS, otherwise=lost[0].logical_id) if removed else lost[0].logical_id


def _severity(lost: list[ResourceChange]) -> Severity | None:
    """Where AWS's schema calls every one of the replacements possible only, it is a risk."""
    return "risk" if all(one.possible for one in lost) else None


def _loss(change: Change, lost: list[ResourceChange], word: str, what: str) -> str:
    """`queue a is deleted: the messages in it are lost`; `what` as for one."""
    actions = {one.action for one in lost}
    empty = "empty ones" if len(lost) > 1 else "an empty one"
    done = "deleted" if actions == {"remove"} else f"replaced by {empty}"
    names = listing([label(change.old(one)) for one in lost])
    if len(lost) == 1:
        return f"{word} {names} is {done}; lost with it: {what}"
    many = re.sub(r"\bits\b", "their", re.sub(r"\bit\b", "them", what))
    return f"{word}s {names} are {done}; lost with them: {many}"


def _word(kind: str) -> str:
    """`bucket` of `AWS::S3::Bucket`."""
    return {_LOGS: "log group"}.get(kind, kind.rpartition("::")[2].lower())


def _keeps_s(resource: Resource) -> float | None:
    """How long it keeps what it holds, infinity for ever; None for what only the deployment knows."""
    properties = resource.properties
    if resource.type == QUEUE:
        return _seconds(properties, "MessageRetentionPeriod", _RETENTION_S)
    if resource.type == _LOGS:
        days = number(properties.get("RetentionInDays"))
        return math.inf if "RetentionInDays" not in properties else None if days is None else days * _DAY_S
    rules: Iterable[Mapping[str, object]] = listed(properties.get("LifecycleConfiguration") or {}, "Rules")
    expiries = [number(one.get("ExpirationInDays")) for one in rules if one.get("Status") == "Enabled"]
    return min((day * _DAY_S for day in expiries if day is not None), default=math.inf)


def _time(seconds: float) -> str:
    if math.isinf(seconds):
        return "for ever"
    days = seconds / _DAY_S
    return f"{days:g} {'day' if days == 1 else 'days'}" if days >= 1 else f"{seconds:g} s"
