"""How many copies a component, or instances a plain variant, may rightly have."""

from __future__ import annotations

from loadproof.profiles.schema import Component, Endpoint, Scaling, ScheduledScaling


def copy_bounds(component: Component) -> tuple[int, int]:
    """(fewest, most) copies; the same twice without scaling."""
    if component.scaling is None:
        return max(1, component.copies.min), max(1, component.copies.min)
    return _reached(component.scaling, component.copies.min, component.copies.max)


def instance_bounds(component: Component, endpoint: Endpoint) -> tuple[int, int]:
    """The same of a plain variant, whose instances are its copies."""
    if component.scaling is None:
        return max(1, endpoint.min_instances), max(1, endpoint.min_instances)
    return _reached(component.scaling, endpoint.min_instances, endpoint.max_instances)


def _reached(scaling: Scaling, least: int, most: int) -> tuple[int, int]:
    """What scaling may have made at any hour of its schedules."""
    schedules = [policy for policy in scaling.policies if isinstance(policy, ScheduledScaling)]
    fewest = min([least, *(one.min_copies for one in schedules if one.min_copies is not None)])
    return (
        0 if scaling.to_zero is not None else fewest,
        max([most, *(one.max_copies for one in schedules if one.max_copies is not None)]),
    )
