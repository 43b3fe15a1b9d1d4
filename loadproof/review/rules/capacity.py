"""Rules about capacity: less than before, and less than the workload needs (LR014, LR019)."""

from __future__ import annotations

from collections.abc import Iterator

from loadproof.profiles import Profile
from loadproof.review.cost import short_of_copies
from loadproof.review.rules.change import Change, models_by_name, rendered
from loadproof.review.rules.rule import Found, rule
from loadproof.review.rules.serving import number, place_label, target_pairs


@rule(
    "LR014",
    "Less capacity",
    reason="A lower minimum leaves less running for the next burst; a lower maximum takes copies away at once where "
    "more are running, and refuses what the old maximum would have served.",
    mend="Compare the bounds with what was running lately at the busiest hour.",
    source="the bounds of the profile, else (where code lowers them) of the templates; "
    "https://docs.aws.amazon.com/autoscaling/application/userguide/what-is-application-auto-scaling.html",
    severity="warning",
)
def capacity_lowered(change: Change) -> Iterator[Found]:
    if change.field("endpoint.hosting", "backend"):
        return
    reported = list(_fewer_by_profile(change))
    yield from reported
    if not reported:  # the code may lower what the profile leaves alone
        yield from _lower_bounds(change)


@rule(
    "LR019",
    "Workload needs more copies than there may be",
    reason="At the expected load the most copies run, and requests still wait or are refused: what is shown as the "
    "cost of that load is the cost of too few machines.",
    mend="Raise copies.max (and endpoint.max_instances, where copies have no room), or take a larger machine "
    "(`loadproof plan` compares them).",
    source="the planner (docs/how-the-planner-works.md): the load over one copy's knee, predicted",
    severity="risk",
)
def too_few_copies(change: Change) -> Iterator[Found]:
    short = short_of_copies(change.after.side, change.context.plan_after)
    if short is None or short == short_of_copies(change.before.side, change.context.plan_before):
        return
    needed, most = short
    endpoint = change.after.profile.endpoint if change.after.profile else None
    plain = endpoint is not None and endpoint.hosting == "plain_variant"
    field = "endpoint.max_instances" if plain else "copies.max"
    message = f"the workload needs {needed:,} copies within the objectives, and there are {most:,} at the most"
    yield Found(field, message, f"raise {field} to {needed:,} or more, or compare machines with `loadproof plan`")


def _lower_bounds(change: Change) -> Iterator[Found]:
    for before, after in target_pairs(change):
        for name, word in (("MaxCapacity", "most"), ("MinCapacity", "fewest")):
            was, becomes = (number(target.properties.get(name)) for target in (before, after))
            if was is not None and becomes is not None and becomes < was:
                place = place_label(rendered(after.properties.get("ResourceId")))
                message = f"the {word} that scaling keeps of {place}: {becomes} instead of {was}"
                yield Found(after.logical_id, message, "compare with what was running at the busiest hour")


def _fewer_by_profile(change: Change) -> Iterator[Found]:
    if change.profiles is None:
        return
    before, after = change.profiles
    models = models_by_name(before)
    for name, (path, part) in models_by_name(after).items():
        old, new = (models[name][1] if name in models else part).copies, part.copies
        if new.max < old.max:
            message = f"the most copies: {new.max} instead of {old.max}"
            yield Found(f"{path}copies.max", message, "compare with what was running at the busiest hour")
        if new.min < old.min:
            message = f"the fewest copies: {new.min} instead of {old.min}"
            yield Found(f"{path}copies.min", message, "compare with what the first minutes of a burst need")
    yield from _fewer_machines(before, after)
    yield from _fewer_units(before, after)


def _fewer_machines(before: Profile, after: Profile) -> Iterator[Found]:
    """Of a plain variant, whose copies are its instances."""
    old, new = before.endpoint, after.endpoint
    if old is None or new is None or new.hosting != "plain_variant":
        return
    for name, word in (("max_instances", "most"), ("min_instances", "fewest")):
        was, becomes = getattr(old, name), getattr(new, name)
        if becomes < was:
            message = f"the {word} instances: {becomes} instead of {was}"
            yield Found(f"endpoint.{name}", message, "compare with what was running at the busiest hour")


def _fewer_units(before: Profile, after: Profile) -> Iterator[Found]:
    """Of a model on Bedrock with throughput of its own."""
    old, new = (part.provisioned_throughput if part else None for part in (before.bedrock, after.bedrock))
    if old is None:
        return
    if new is None:
        message = f"the account's shared quota instead of {old.model_units} model units of one's own"
        yield Found("bedrock.provisioned_throughput", message, "compare the quota with the busiest hour")
    elif new.model_units < old.model_units:
        message = f"model units: {new.model_units} instead of {old.model_units}"
        yield Found("bedrock.provisioned_throughput.model_units", message, "compare them with the busiest hour")
