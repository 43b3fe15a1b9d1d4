"""How an update goes on: rules about its kind, its steps, its time and its room (LP227-LP229)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from typing import Final

from loadproof.profiles.checks.facts import known_instances, rooms
from loadproof.profiles.checks.rule import Found, Subject, rule
from loadproof.profiles.schema import BlueGreenUpdate, Copies, CopiesUpdate, RollingUpdate
from loadproof.profiles.tree import Path
from loadproof.profiles.updates import batch_copies, copies_update, waiting_s

# CloudFormation's own patience with an update: 970 minutes for an endpoint, 490 for a component.
_ALARM_S: Final = 180
_ENDPOINT_UPDATE_S: Final = 970 * 60
_COMPONENT_UPDATE_S: Final = 490 * 60


@rule(
    "LP227",
    "An update that cannot go this way",
    reason="Variants and components are updated by different calls, and a batch is at most half of what there is.",
    mend="endpoint.update for a plain variant, copies.update for components; rolling from two on.",
)
def update_kind(subject: Subject) -> Iterator[Found]:
    endpoint = subject.endpoint
    components = endpoint.hosting == "inference_components"
    if endpoint.update is not None and components:
        found = "inference components are updated one by one, not with the endpoint"
        yield Found(("endpoint", "update"), found, "write copies.update, or hosting: plain_variant")
    elif isinstance(endpoint.update, RollingUpdate) and endpoint.min_instances < 2:
        found = f"a batch is at most half of the instances, min_instances is {endpoint.min_instances}"
        yield Found(("endpoint", "update"), found, "write type: blue_green, or raise min_instances to 2")
    for placed in subject.components:
        copies = placed.component.copies
        if copies.update is None:
            continue
        if not components:
            found = "a plain variant has no copies to exchange"
            yield Found(placed.at("copies", "update"), found, "write endpoint.update, or hosting: inference_components")
        elif copies.min < 2:
            found = f"a batch is at most half of the copies, copies.min is {copies.min}"
            mend = "raise copies.min to 2, or delete it: SageMaker then starts the new copy beside the old one"
            yield Found(placed.at("copies", "update"), found, mend)


@rule(
    "LP228",
    "Steps of an update that contradict each other",
    reason="SageMaker refuses the deployment configuration, or rolls every update back when its time is over. Alarms "
    "that are to roll it back want three bad minutes of five: a shorter wait goes on before one can fire.",
    mend="Give canary and linear their step_percent, one of batch_copies and batch_percent, and time for all waits.",
)
def update_steps(subject: Subject) -> Iterator[Found]:
    endpoint = subject.endpoint
    update = endpoint.update
    if isinstance(update, BlueGreenUpdate):
        yield from _traffic_steps(update)
    if update is not None:
        yield from _time_for_waits(("endpoint", "update"), update, subject.profile.copies, _ENDPOINT_UPDATE_S)
    for placed in subject.components:
        copies = placed.component.copies
        if copies.update is None:
            continue
        path, wanted = placed.at("copies", "update"), copies.update.batch_copies
        if wanted is not None and copies.update.batch_percent is not None:
            found = "batch_copies and batch_percent are both given"
            yield Found((*path, "batch_percent"), found, "keep one of them")
        if wanted is not None and 2 <= copies.min < 2 * wanted:
            found = f"a batch of {wanted} copies is more than half of copies.min {copies.min}"
            yield Found((*path, "batch_copies"), found, f"lower it to {copies.min // 2}, or raise copies.min")
        yield from _time_for_waits(path, copies.update, copies, _COMPONENT_UPDATE_S)


def _traffic_steps(update: BlueGreenUpdate) -> Iterator[Found]:
    path: Path = ("endpoint", "update")
    step = update.step_percent
    if update.traffic == "all_at_once" and step is not None:
        found = "`step_percent` has no use with traffic all_at_once"
        yield Found((*path, "step_percent"), found, "delete it, or write traffic: canary")
    if update.traffic != "all_at_once" and step is None:
        yield Found(path, f"traffic {update.traffic} needs `step_percent`", "add `step_percent: 10`")
    if update.traffic == "linear" and step is not None and step < 10:
        found = f"a linear step is 10 to 50 percent, found {step}"
        yield Found((*path, "step_percent"), found, "write at least 10, or traffic: canary")


def _time_for_waits(
    path: Path, update: BlueGreenUpdate | RollingUpdate | CopiesUpdate, copies: Copies, patience_s: int
) -> Iterator[Found]:
    if update.rollback_on_alarms and update.wait_s < _ALARM_S:
        found = f"{update.wait_s} s after each step are over before an alarm could fire, which is to roll it back"
        mend = f"write at least {_ALARM_S}, or rollback_on_alarms: false"
        yield Found((*path, "wait_s"), found, mend, "warning")
    waits_s = waiting_s(update, copies)
    if waits_s >= patience_s:
        found = f"the steps only wait for {waits_s} s, CloudFormation gives up after {patience_s} s"
        yield Found((*path, "wait_s"), found, "shorten wait_s, or take larger steps")
    if update.max_execution_s is not None and update.max_execution_s <= waits_s:
        found = f"max_execution_s {update.max_execution_s} ends within the {waits_s} s that the update only waits"
        yield Found((*path, "max_execution_s"), found, f"write more than {waits_s}, or shorten wait_s")


@rule(
    "LP229",
    "No room for an update",
    reason="A batch starts beside the copies it replaces; without room for it SageMaker turns the update back.",
    mend="Raise endpoint.max_instances, or lower the batch.",
    severity="warning",
)
def no_room_to_update(subject: Subject) -> Iterator[Found]:
    endpoint = subject.endpoint
    if endpoint.hosting != "inference_components":
        return
    for _, instance in known_instances(endpoint):
        held = rooms(subject.components, instance)
        steady = sum(Fraction(placed.component.copies.min, room) for placed, room in held)
        for placed, room in held:
            copies = placed.component.copies
            update = copies_update(copies)
            batch = batch_copies(copies, update) if update else 0
            whole = ceil(steady + Fraction(batch, room))
            # More copies than machines without any update are LP309's.
            if update is not None and ceil(steady) <= endpoint.max_instances < whole:
                found = (
                    f"a batch of {batch} beside {copies.min} copies needs {whole} instances of "
                    f"{instance.instance_type}, max_instances is {endpoint.max_instances}"
                )
                yield Found(placed.at("copies"), found, f"raise endpoint.max_instances to {whole}")
