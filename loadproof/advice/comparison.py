"""`find_alternatives`: every candidate predicted, counted, pruned and ranked for the profile's workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from loadproof import catalog
from loadproof.advice.alternatives import DEFAULT_GOAL, Alternative, Alternatives, Goal, Recommendation
from loadproof.advice.assessment import assess, serves
from loadproof.advice.candidates import (
    candidates,
    copies_at,
    count_changes,
    counts,
    limits_of_search,
)
from loadproof.advice.changes import KeyChange, changed, net_changes
from loadproof.advice.families import families_for
from loadproof.advice.ranking import Standing, beats, divided, ranked, recommend, standing
from loadproof.advice.settings import advise
from loadproof.capacity.cost import copies_on_instance, cost_of
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.memory import memory_fit
from loadproof.capacity.outlook import Expected
from loadproof.capacity.workload import PlannedWorkload, planned_deployment
from loadproof.profiles.checks import errors_of
from loadproof.profiles.promises import promises_of
from loadproof.profiles.schema import Environment, Profile
from loadproof.simulation.replay import replayed_workload

MOST_ROUNDS = 5
MOST_SHOWN = 24  # kinds of machine, degree and family beside the recommended ones and the profile's own


@dataclass(frozen=True, slots=True)
class Constraints:
    """What the search may offer: these instance types only (empty: all), and at most so much an hour."""

    instance_types: tuple[str, ...] = ()
    usd_per_hour_max: float | None = None

    def allow(self, instance_type: str, usd_per_hour: float | None) -> bool:
        """An unknown price is over any limit."""
        if self.instance_types and instance_type not in self.instance_types:
            return False
        limit = self.usd_per_hour_max
        return limit is None or (usd_per_hour is not None and usd_per_hour <= limit)


@dataclass(slots=True)
class _Tally:
    considered: int = 0
    do_not_fit: int = 0
    fit_marginally: int = 0
    cannot_serve: int = 0
    over_price: int = 0
    refused: set[str] = field(default_factory=set)


def find_alternatives(
    profile: Profile,
    goal: Goal = DEFAULT_GOAL,
    constraints: Constraints = Constraints(),
    environment: Environment | None = None,
) -> Alternatives:
    """The profile's own configuration and whatever else could serve its workload, ranked by `goal`; settings for it.

    Raises InputError for an unknown instance type, and where there is nothing to plan (backend bedrock).
    """
    return replace(_compared(profile, goal, constraints, environment), settings=advise(profile, environment))


def _compared(profile: Profile, goal: Goal, constraints: Constraints, environment: Environment | None) -> Alternatives:
    own_deployment = planned_deployment(profile)
    own = _own(profile, own_deployment)
    tally = _Tally()
    choices: list[_Choice] = []
    notes = []
    if (narrow := limits_of_search(profile)) is not None:
        notes.append(f"only the profile's own configuration is shown: {narrow}")
    else:
        _, why = families_for(profile)
        notes += [why] if why else []
        choices = _others(profile, own_deployment, constraints, environment, tally)
    if tally.refused:
        notes.append(f"left out because `loadproof check` would refuse them: {', '.join(sorted(tally.refused))}")
    if tally.over_price:
        limit = f"{constraints.usd_per_hour_max or 0:,.2f} USD an hour"
        notes.append(f"left out: {tally.over_price:,} that cost more than {limit}, or have no known price")
    possible = own.fits == "yes" and serves(own, streaming=profile.workload.streaming)
    able = [own] if possible and constraints.allow(own.instance_type, own.usd_per_hour) else []
    played, beaten = _played(profile, choices)
    front, behind = divided([*able, *played])
    own = next((row for row in (*front, *behind) if row.is_own), own)
    recommendations = recommend(front, own)
    kept = [own, *(found.alternative for found in recommendations if found.alternative is not None)]
    shown = _shown(ranked(front, goal), kept)
    return Alternatives(
        goal=goal,
        ranked=tuple(shown),
        recommendations=recommendations,
        considered=tally.considered,
        do_not_fit=tally.do_not_fit,
        fit_marginally=tally.fit_marginally,
        cannot_serve=tally.cannot_serve,
        dominated=beaten + sum(not row.is_own for row in behind),
        notes=(*notes, *_doubtful(shown)),
    )


def _doubtful(shown: Sequence[Alternative]) -> Iterator[str]:
    """Which of the rows shown rest on prices or figures that nobody published or verified."""
    instances = [catalog.instance(name) for name in dict.fromkeys(row.instance_type for row in shown)]
    if derived := [row.instance_type for row in instances if row.price_derived]:
        yield f"prices derived, not published: {', '.join(derived)}"
    chips = [catalog.accelerator(name) for name in dict.fromkeys(row.accelerator for row in instances)]
    unverified = [row.instance_type for row in instances if row.unverified]
    unverified += [row.name for row in chips if row.unverified]
    if unverified:
        yield f"figures the catalog marks as unverified: {', '.join(unverified)}"


def _shown(best_first: Sequence[Alternative], kept: Sequence[Alternative]) -> list[Alternative]:
    """One row for each machine, degree and family, at its best number of instances for the goal; `kept` in any case."""
    seen: set[tuple[str, int, str]] = set()
    shown = []
    for row in best_first:
        kind = row.instance_type, row.tensor_parallel_degree, row.family
        if row in kept or (kind not in seen and len(seen) < MOST_SHOWN):
            shown.append(row)
        seen.add(kind)
    return [*shown, *(row for row in kept if row.is_own and row not in shown)]


def _own(profile: Profile, deployment: PlannedDeployment) -> Alternative:
    cost = cost_of(profile, deployment)
    room = copies_on_instance(profile, deployment.instance, deployment.accelerators)
    return assess(
        profile, deployment, replayed_workload(profile), room=room, instances=max(1, cost.instances_min), is_own=True
    )


@dataclass(frozen=True, slots=True)
class _Choice:
    """A candidate on so many machines. `first`: as the formula predicts it, or as played where it knows no sessions."""

    deployment: PlannedDeployment
    workload: PlannedWorkload
    room: int
    instances: int
    changes: tuple[KeyChange, ...]
    first: Alternative

    def played(self, profile: Profile) -> Alternative:
        if not self.workload.single:
            return self.first
        return assess(
            profile, self.deployment, self.workload, room=self.room, instances=self.instances, changes=self.changes
        )


def _others(
    profile: Profile,
    own: PlannedDeployment,
    constraints: Constraints,
    environment: Environment | None,
    tally: _Tally,
) -> list[_Choice]:
    """All that fit, are allowed and serve the load."""
    found: list[_Choice] = []
    instances_to_try = counts(profile)
    for candidate in candidates(profile, own, constraints.instance_types):
        fits = memory_fit(candidate.deployment).fits
        if fits != "yes":
            tally.considered += 1
            tally.do_not_fit += fits == "no"
            tally.fit_marginally += fits == "marginal"
            continue
        one = (*candidate.changes, *count_changes(profile, candidate.room, instances_to_try[0]))
        as_profile = changed(profile, one)
        if errors := errors_of(as_profile, environment):
            tally.considered += 1
            tally.refused.add(errors[0].split(" ", 1)[0])
            continue
        workload = replayed_workload(as_profile)
        first_look = workload.by_formula if workload.single else workload
        for instances in instances_to_try:
            price = candidate.instance.usd_per_hour
            if not constraints.allow(candidate.instance.instance_type, None if price is None else price * instances):
                tally.over_price += 1
                continue
            tally.considered += 1
            changes = (*candidate.changes, *count_changes(profile, candidate.room, instances))
            if not changes:
                continue  # the profile's own
            deployment = replace(candidate.deployment, copies=copies_at(profile, candidate.room, instances))
            room = candidate.room
            first = assess(profile, deployment, first_look, room=room, instances=instances, changes=changes)
            if serves(first, streaming=profile.workload.streaming):
                found.append(_Choice(deployment, workload, room, instances, changes, first))
            else:
                tally.cannot_serve += 1
    return found


def _played(profile: Profile, choices: Sequence[_Choice]) -> tuple[list[Alternative], int]:
    """What the twin says of all that could be best for a goal, and how many it need not play.

    The twin leaves throughput, cost and mean E2E as the formula has them. So what the formula puts behind a choice that
    meets all objectives when it is played cannot be the better one for any goal.
    """
    best: Expected = "meets" if promises_of(profile) else "unknown"
    sure: list[Standing] = []
    played: list[Alternative] = []
    beaten = 0
    standings = [(standing(replace(choice.first, objectives=best)), choice) for choice in choices]
    for place, choice in sorted(standings, key=lambda pair: pair[0]):
        if any(beats(better, place) for better in sure):
            beaten += 1
            continue
        row = choice.played(profile)
        played.append(row)
        if row.objectives == best:
            sure.append(place)
    return played, beaten


@dataclass(frozen=True, slots=True)
class Settled:
    """Where following the recommendation ends: `profile` is what it then recommends itself, `changes` lead there.

    `recommendation` is of the last round; its alternative is None where none will do (then nothing changes).
    """

    profile: Profile
    changes: tuple[KeyChange, ...]
    recommendation: Recommendation


def settle(
    profile: Profile, goal: Goal, constraints: Constraints = Constraints(), environment: Environment | None = None
) -> Settled:
    """Take the recommended alternative and the settings advised for it, until nothing better is found.

    One round is the rule; settings advised for a new machine may make another one good enough, so a second can follow.
    Settling a settled profile changes nothing.
    """
    first, changes = profile, list[KeyChange]()
    for _ in range(MOST_ROUNDS):
        recommendation = _compared(profile, goal, constraints, environment).recommended
        # Where nothing will do, settings may still make it: then the next round finds something.
        made = list(recommendation.alternative.changes) if recommendation.alternative else []
        profile = changed(profile, made)
        for advice in advise(profile, environment):
            made += advice.changes
            profile = changed(profile, advice.changes)
        changes += made
        if not made:
            break
    if recommendation.alternative is None:
        return Settled(first, (), recommendation)
    return Settled(profile, net_changes(first, changes), recommendation)
