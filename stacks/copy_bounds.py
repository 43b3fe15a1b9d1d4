"""How many copies a component may rightly have."""

from __future__ import annotations

from loadproof.profiles.schema import Component, ScheduledScaling


def copy_bounds(component: Component) -> tuple[int, int]:
    """(fewest, most) that scaling may have made, at any hour of its schedules; the same twice without scaling."""
    copies, scaling = component.copies, component.scaling
    if scaling is None:
        return max(1, copies.min), max(1, copies.min)
    schedules = [policy for policy in scaling.policies if isinstance(policy, ScheduledScaling)]
    fewest = [copies.min, *(one.min_copies for one in schedules if one.min_copies is not None)]
    most = [copies.max, *(one.max_copies for one in schedules if one.max_copies is not None)]
    return 0 if scaling.to_zero is not None else min(fewest), max(most)
