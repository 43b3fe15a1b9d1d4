"""A profile's plan whose levels the twin has played, and what it leaves to `auto` with it."""

from __future__ import annotations

from loadproof.capacity import Plan
from loadproof.capacity import make_plan as plan_of
from loadproof.profiles.schema import Profile
from loadproof.simulation.replay import replayed_workload
from loadproof.simulation.targets import derived_values


def make_plan(profile: Profile) -> Plan:
    """The profile's plan, its levels played. Raises InputError as `capacity.make_plan` does."""
    return plan_of(profile, replayed_workload(profile), derived_values(profile))
