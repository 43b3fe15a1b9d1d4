"""From pairs and stored runs to a whole review: each part asked once, notes gathered, nothing decided here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final

from loadproof.review.context import Context
from loadproof.review.cost import cost_changes, short_of_copies
from loadproof.review.curves import curves_of
from loadproof.review.evidence import evidence_of
from loadproof.review.fields import field_changes
from loadproof.review.model import MeasuredRun, Pair, ProfileReview, ResourceChange, Review, Side, Traffic
from loadproof.review.objectives import objective_changes, plan_of
from loadproof.review.resources import macros, resource_changes, unknown_types
from loadproof.review.rules import findings_of


class LateError(Exception):
    """Raised wherever the review of a pair is when its time is over; the message says so."""


def review(
    base: str,
    head: str,
    pairs: Sequence[Pair],
    runs: Sequence[MeasuredRun],
    unaffected: int,
    not_run: tuple[str, ...] = (),
    late: Callable[[], str] = str,
    bounded: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Review:
    """The review of every pair, by environment and name; `base` and `head` are the refs as they are shown.

    Pairs are looked at, what is deployed first, until `late` says why no more of them are; the others are refused for
    that, and so is one that raises LateError within `bounded`.
    """
    reviewed = [_in_time(pair, late(), runs, bounded) for pair in sorted(pairs, key=lambda pair: pair.before is None)]
    reviewed.sort(key=lambda one: (one.pair.environment_name, one.pair.name))
    return Review(base, head, tuple(reviewed), unaffected, not_run)


_PLANNED: Final = "its lengths, turns and mean rate, fitted, are planned in place of the workload's"
_NO_TIME: Final = "to plan with its requests takes too long; give it more time with --within"


def _in_time(
    pair: Pair, refusal: str, runs: Sequence[MeasuredRun], bounded: Callable[[], AbstractContextManager[None]]
) -> ProfileReview:
    """With the requests of its traces, else without; refused where neither is done in time."""
    sides = [side for side in (pair.before, pair.after) if side is not None]
    fitted = any(one.planned is not None for side in sides for one in side.traffic.values())
    for one in () if refusal else (pair, _without_traces(pair)) if fitted else (pair,):
        try:
            with bounded():
                return review_pair(one, runs)
        except LateError as error:
            refusal = str(error)
    return review_pair(_put_off(pair, refusal), runs)


def _without_traces(pair: Pair) -> Pair:
    """Planned by the workload's own lengths, and said so."""
    before, after = (side and replace(side, traffic=_unplanned(side.traffic)) for side in (pair.before, pair.after))
    return replace(pair, before=before, after=after)


def _unplanned(traffic: Mapping[str, Traffic]) -> dict[str, Traffic]:
    return {
        file: replace(one, planned=None, unread=_NO_TIME) if one.planned is not None else one
        for file, one in traffic.items()
    }


def _put_off(pair: Pair, refusal: str) -> Pair:
    before, after = (side and Side(side.file, None, None, {}, refusal=refusal) for side in (pair.before, pair.after))
    return replace(pair, before=before, after=after)


def review_pair(pair: Pair, runs: Sequence[MeasuredRun]) -> ProfileReview:
    """Everything about one pair. Never raises for what a profile holds: what cannot be told is a note."""
    before, after = pair.before, pair.after
    plan_before, why_before = plan_of(before)
    plan_after, why_after = plan_of(after)
    old, new = before.profile if before else None, after.profile if after else None
    resources = _resources(before, after)
    costs = cost_changes(before, after, plan_before, plan_after)
    context = Context(
        pair=pair,
        fields=field_changes(before, after),
        resources=resources,
        costs=costs.changes,
        objectives=objective_changes(old, new, plan_before, plan_after),
        evidence=evidence_of(new, pair.environment_name, pair.name, runs),
        plan_before=plan_before,
        plan_after=plan_after,
    )
    return ProfileReview(
        pair=pair,
        fields=context.fields,
        resources=resources,
        findings=findings_of(context),
        costs=costs.changes,
        objectives=context.objectives,
        evidence=context.evidence,
        price_source=costs.price_source,
        curves=curves_of(plan_before, plan_after),
        copies_short=short_of_copies(after, plan_after),
        notes=(*_notes(pair, resources, why_before, why_after), *costs.notes),
    )


def _resources(before: Side | None, after: Side | None) -> tuple[ResourceChange, ...]:
    """Nothing where a side exists and has no templates: it was refused, so what it deploys is not known."""
    if any(side is not None and not side.templates for side in (before, after)):
        return ()
    return resource_changes(before.templates if before else {}, after.templates if after else {})


def _notes(pair: Pair, resources: tuple[ResourceChange, ...], why_before: str, why_after: str) -> Iterator[str]:
    for word, side, why in (("before", pair.before, why_before), ("after", pair.after, why_after)):
        if side is not None and not side.templates:
            yield f"{word}: nothing was synthesized, so resources are not compared" + (
                f": {side.refusal}" if side.refusal else ""
            )
        if why:
            yield f"{word}: not planned: {why}"
        traffic = side.traffic.get(side.arrivals) if side else None
        if side is not None and traffic is not None and side.profile is not None:
            how = f"not planned: {traffic.unread or traffic.wrong}" if traffic.planned is None else _PLANNED
            yield f"{word}: {side.arrivals}: {how}"
    for stack in dict.fromkeys(stack for side in (pair.before, pair.after) if side for stack in macros(side.templates)):
        yield f"{stack}: its template is rewritten by macros (Transform, Fn::ForEach), whose outcome is not compared"
    for name in unknown_types(resources):
        yield f"{name}: its schema is not known here, so its changes are taken as updates in place"
