"""What both sides cost: the fewest copies, those the workload needs, the most, as instances and as USD per hour.

On-demand prices of the instances alone: no storage, traffic, queue or logs. Every figure but the bounds is *predicted*.

The copies that the workload needs come from the plan's ceiling of the profile's own model, the most requests in
flight with which its latency objectives are predicted to hold, and never past the knee by marginal gain:

- open arrivals: `copies = ceil(requests/s ÷ requests/s of one copy at its ceiling)`; a ramp counts at its higher end;
- a closed loop: `copies = ceil(objectives.at_concurrency ÷ ceiling of one copy)`, the load the objectives name;

within the fewest and the most copies, and the fewest where nothing scales. Where no load at all is predicted to meet
the objectives, the knee alone is the ceiling, and a note says so. Further components count with their fewest:
the workload says nothing about them. A recorded trace has no one rate, so nothing is expected of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, Literal

from loadproof import catalog
from loadproof.capacity.plan import Plan
from loadproof.capacity.workload import planned_workload
from loadproof.catalog import Instance
from loadproof.knee import MARGINAL_GAIN, OBJECTIVE_BOUND
from loadproof.profiles import Component, Environment, Profile, components_of
from loadproof.profiles.checks.facts import copies_per_instance
from loadproof.profiles.checks.rule import Placed
from loadproof.profiles.schema import Endpoint, ScheduledScaling
from loadproof.review.model import CostChange, CostFigure, Side

At = Literal["minimum", "expected", "maximum"]
_ORDER: Final[tuple[At, ...]] = ("minimum", "expected", "maximum")
_NOTHING_KNOWN: Final = CostFigure(None)


@dataclass(frozen=True, slots=True)
class Costs:
    """The rows, where their prices are from and when they were seen, and what they leave out, in words."""

    changes: tuple[CostChange, ...]
    price_source: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _SideCost:
    figures: dict[At, CostFigure]
    instances: tuple[Instance, ...] = ()
    notes: tuple[str, ...] = ()


def cost_changes(before: Side | None, after: Side | None, plan_before: Plan | None, plan_after: Plan | None) -> Costs:
    """One row each for the fewest, expected and most copies; empty where neither side has a profile."""
    old, new = _side_cost(before, plan_before), _side_cost(after, plan_after)
    if old is None and new is None:
        return Costs((), "", ())
    changes = tuple(CostChange(at, old.figures[at] if old else None, new.figures[at] if new else None) for at in _ORDER)
    shown = [side for side in (old, new) if side is not None]
    prices = dict.fromkeys(_price_source(instance) for side in shown for instance in side.instances)
    # What holds for what is deployed now; the other side's only where it differs, marked as such.
    notes = list(new.notes) if new else []
    notes += [f"before: {note}" for note in (old.notes if old else ()) if note not in notes]
    return Costs(changes, "; ".join(price for price in prices if price), tuple(notes))


def _side_cost(side: Side | None, plan: Plan | None) -> _SideCost | None:
    profile = side.profile if side else None
    if side is None or (profile is None and not side.problems and not side.refusal):
        return None
    if profile is None:
        return _SideCost(dict.fromkeys(_ORDER, _NOTHING_KNOWN))
    if profile.backend == "bedrock":
        return _bedrock_cost(profile)
    return _endpoint_cost(profile, side.environment, plan)


def _bedrock_cost(profile: Profile) -> _SideCost:
    """On the account's quotas an idle model costs nothing, and model units the same whether used or not."""
    throughput = profile.bedrock and profile.bedrock.provisioned_throughput
    if throughput:
        note = f"Bedrock bills {throughput.model_units} model units by the hour; the catalog has no prices of them"
        return _SideCost(dict.fromkeys(_ORDER, _NOTHING_KNOWN), notes=(note,))
    figures: dict[At, CostFigure] = {
        "minimum": CostFigure(0.0),
        "expected": _NOTHING_KNOWN,
        "maximum": _NOTHING_KNOWN,
    }
    return _SideCost(figures, notes=("Bedrock bills tokens; the catalog has no prices of them, idle costs nothing",))


def _endpoint_cost(profile: Profile, environment: Environment | None, plan: Plan | None) -> _SideCost:
    endpoint = _endpoint(profile)
    pools = sorted(endpoint.instance_pools, key=lambda pool: pool.priority)
    names = [endpoint.instance_type] if endpoint.instance_type else [pool.instance_type for pool in pools]
    rows = [row for name in names if (row := catalog.instances().get(name)) is not None]
    if len(rows) < 1 or rows[0].instance_type != names[0]:
        note = f"the catalog does not know {names[0]}, so its price is not known"
        return _SideCost(dict.fromkeys(_ORDER, _NOTHING_KNOWN), notes=(note,))
    machine = rows[0]
    fewest, most = _bounds(profile, machine)
    wanted, why = _expected_copies(profile, plan)
    figures: dict[At, CostFigure] = {
        "minimum": _figure(machine, fewest),
        "expected": _NOTHING_KNOWN
        if wanted is None
        else _figure(machine, _expected_instances(profile, machine, wanted)),
        "maximum": _figure(machine, most),
    }
    return _SideCost(figures, (machine,), tuple(_notes(profile, environment, rows, why)))


def _endpoint(profile: Profile) -> Endpoint:
    assert profile.endpoint is not None  # the checks refuse a profile without one
    return profile.endpoint


def _bounds(profile: Profile, machine: Instance) -> tuple[int, int]:
    """(fewest, most) instances. A plain variant has one copy on each, and `copies` no say; nothing else moves them."""
    endpoint = _endpoint(profile)
    if endpoint.hosting == "plain_variant":
        return endpoint.min_instances, endpoint.max_instances if profile.scaling else endpoint.min_instances
    return _holding(profile, machine, lambda one: one.copies.min), _holding(profile, machine, _most)


def _holding(profile: Profile, machine: Instance, copies: Callable[[Component], int]) -> int:
    """Instances that hold so many copies of each model, within the endpoint's own bounds.

    Models share machines: `instances = ceil(sum of copies ÷ copies an instance takes)`, and no fewer than any model
    needs alone.
    """
    endpoint = _endpoint(profile)
    shares = [
        (copies(component), max(1, copies_per_instance(Placed(component, (), profile), machine)))
        for component in components_of(profile)
    ]
    needed = ceil(round(sum(count / room for count, room in shares), 9))
    most = max(endpoint.min_instances, endpoint.max_instances)
    return min(most, max(endpoint.min_instances, needed))


def _most(component: Component) -> int:
    scheduled = (policy.max_copies or 0 for policy in _scheduled(component))
    return max(component.copies.min, component.copies.max, *scheduled)


def _scheduled(component: Component) -> list[ScheduledScaling]:
    policies = component.scaling.policies if component.scaling else ()
    return [policy for policy in policies if isinstance(policy, ScheduledScaling)]


def _expected_instances(profile: Profile, machine: Instance, wanted: int) -> int:
    endpoint = _endpoint(profile)
    if endpoint.hosting == "plain_variant":
        scaled = profile.scaling is not None
        return max(endpoint.min_instances, min(wanted, endpoint.max_instances)) if scaled else endpoint.min_instances
    return _holding(profile, machine, lambda one: wanted if one.name == "main" else one.copies.min)


def _expected_copies(profile: Profile, plan: Plan | None) -> tuple[int | None, str]:
    """(copies of the profile's own model that its workload needs, what to know about that)."""
    endpoint, main = _endpoint(profile), components_of(profile)[0]
    plain = endpoint.hosting == "plain_variant"
    fewest = endpoint.min_instances if plain else main.copies.min
    most = endpoint.max_instances if plain else _most(main)
    if main.scaling is None:
        return fewest, ""
    if profile.workload.arrivals.process == "trace":
        return None, "what is expected is not known: a recorded trace of arrivals has no one rate"
    if plan is None:
        return None, "what is expected is not known without a plan"
    note = ""
    load = _load(profile, plan, (OBJECTIVE_BOUND, MARGINAL_GAIN))
    if load is None:
        load = _load(profile, plan, (MARGINAL_GAIN,))
        note = "the objectives are predicted to be missed at any load: what is expected is reckoned at the knee instead"
    if load is None:
        return None, "what is expected is not known: no request of this workload can be served"
    needed = max(1, ceil(round(load, 9)))
    if needed > most:
        note = f"the workload needs {needed:,} copies, more than the most ({most:,})"
    return min(most, max(fewest, needed)), note


def _load(profile: Profile, plan: Plan, rules: tuple[str, ...]) -> float | None:
    """The workload as a number of copies at their ceiling by these rules; None where one copy serves nothing so."""
    ceilings = [knee.concurrency for knee in plan.knees if knee.rule in rules]
    ceiling = min(ceilings, default=0) / plan.deployment.copies
    if ceiling < 1:
        return None
    rate = profile.workload.arrivals.requests_per_s
    if rate is None:
        return profile.objectives.at_concurrency / ceiling
    level = planned_workload(profile).level(replace(plan.deployment, copies=1), int(ceiling))
    return None if level is None or not level.requests_per_s else rate / level.requests_per_s


def _figure(machine: Instance, instances: int) -> CostFigure:
    return CostFigure(None if machine.usd_per_hour is None else machine.usd_per_hour * instances)


def _notes(profile: Profile, environment: Environment | None, rows: list[Instance], why: str) -> Iterator[str]:
    machine, endpoint = rows[0], _endpoint(profile)
    if why:
        yield why
    if _bounds(profile, machine)[0] == 0:
        yield "with no copy no instance runs: $0 while idle, and the first request then waits for a machine"
    raised = max((policy.min_copies or 0 for policy in _scheduled(components_of(profile)[0])), default=0)
    if raised > (endpoint.min_instances if endpoint.hosting == "plain_variant" else profile.copies.min):
        yield f"scheduled actions raise the fewest copies to {raised} at times"
    if machine.usd_per_hour is None:
        yield f"no on-demand price is known for {machine.instance_type}"
    elif machine.price_derived:
        yield f"the price of {machine.instance_type} is derived: {machine.price_source}"
    elif environment is not None and environment.region not in machine.price_region:
        yield f"prices are those of {machine.price_region}; {environment.region}'s own are not known here"
    if len(endpoint.instance_pools) > 1:
        dearest = max((row for row in rows if row.usd_per_hour is not None), key=_hourly, default=None)
        yield f"instances are priced as {machine.instance_type}, the first pool" + (
            f"; the dearest is {dearest.instance_type} at ${_hourly(dearest):,.2f} an hour"
            if dearest is not None and dearest is not machine
            else ""
        )
    if endpoint.capacity_reservation is not None:
        yield "instances of a capacity reservation are billed on its own terms; on-demand prices are shown"
    if profile.components:
        yield "further components are expected at their fewest copies: the workload does not say what they need"


def _hourly(machine: Instance) -> float:
    return machine.usd_per_hour or 0.0


def _price_source(machine: Instance) -> str:
    if machine.usd_per_hour is None:
        return ""
    seen = f", seen {machine.price_date}" if machine.price_date else ""
    return f"{machine.instance_type}: on demand in {machine.price_region}{seen}; {machine.price_source}"
