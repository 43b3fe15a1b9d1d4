"""What both sides cost: the fewest copies, those the workload needs, the most, as instances and as USD per hour.

On-demand prices of the instances alone: no storage, traffic, queue or logs. Every figure but the bounds is *predicted*.

How many instances that is: `capacity/instances.py`, the plan's own reckoning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from loadproof import catalog
from loadproof.capacity.cost import price_of, priced_elsewhere
from loadproof.capacity.instances import copies_short, endpoint_of, expected_instances, instance_bounds, scheduled
from loadproof.capacity.plan import Plan
from loadproof.catalog import Instance
from loadproof.profiles import Environment, Profile, components_of
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
    prices = dict.fromkeys(price_of(instance) for side in shown for instance in side.instances)
    # What holds for what is deployed now; the other side's only where it differs, marked as such.
    notes = list(new.notes) if new else []
    notes += [f"before: {note}" for note in (old.notes if old else ()) if note not in notes]
    return Costs(changes, "; ".join(price for price in prices if price), tuple(notes))


def short_of_copies(side: Side | None, plan: Plan | None) -> tuple[int, int] | None:
    """`copies_short` of a side, by the lengths that a trace was fitted with, where the profile names one."""
    profile = side.planned if side else None
    return None if profile is None or plan is None else copies_short(profile, plan.deployment, plan.knees)


def _side_cost(side: Side | None, plan: Plan | None) -> _SideCost | None:
    profile = side.planned if side else None
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
    endpoint = endpoint_of(profile)
    pools = sorted(endpoint.instance_pools, key=lambda pool: pool.priority)
    names = [endpoint.instance_type] if endpoint.instance_type else [pool.instance_type for pool in pools]
    rows = [row for name in names if (row := catalog.instances().get(name)) is not None]
    if len(rows) < 1 or rows[0].instance_type != names[0]:
        note = f"the catalog does not know {names[0]}, so its price is not known"
        return _SideCost(dict.fromkeys(_ORDER, _NOTHING_KNOWN), notes=(note,))
    machine = rows[0]
    fewest, most = instance_bounds(profile, machine)
    expected = expected_instances(profile, machine, plan.deployment if plan else None, plan.knees if plan else ())
    figures: dict[At, CostFigure] = {
        "minimum": _figure(machine, fewest),
        "expected": _NOTHING_KNOWN if expected.instances is None else _figure(machine, expected.instances),
        "maximum": _figure(machine, most),
    }
    return _SideCost(figures, (machine,), tuple(_notes(profile, environment, rows, expected.note)))


def _figure(machine: Instance, instances: int) -> CostFigure:
    return CostFigure(None if machine.usd_per_hour is None else machine.usd_per_hour * instances)


def _notes(profile: Profile, environment: Environment | None, rows: list[Instance], why: str) -> Iterator[str]:
    machine, endpoint = rows[0], endpoint_of(profile)
    if why:
        yield why
    if instance_bounds(profile, machine)[0] == 0:
        yield "with no copy no instance runs: $0 while idle, and the first request then waits for a machine"
    raised = max((policy.min_copies or 0 for policy in scheduled(components_of(profile)[0])), default=0)
    if raised > (endpoint.min_instances if endpoint.hosting == "plain_variant" else profile.copies.min):
        yield f"scheduled actions raise the fewest copies to {raised} at times"
    if machine.usd_per_hour is None:
        yield f"no on-demand price is known for {machine.instance_type}"
    elif machine.price_derived:
        yield f"the price of {machine.instance_type} is derived: {machine.price_source}"
    elif environment is not None and (elsewhere := priced_elsewhere(machine, environment.region)):
        yield elsewhere
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
