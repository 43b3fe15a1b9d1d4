"""The scaling of everything that a profile's endpoint runs copies of."""

from __future__ import annotations

from constructs import Construct

from loadproof.constructs.buffer.infrastructure import Buffer
from loadproof.constructs.endpoint.model_endpoint import ModelEndpoint
from loadproof.constructs.scaling.copy_scaling import CopyScaling, ScaledCopies


def scale_copies(scope: Construct, *, endpoint: ModelEndpoint, buffer: Buffer | None = None) -> tuple[CopyScaling, ...]:
    """One `CopyScaling` a component that wants it; none while scaling is paused.

    A plain variant has one copy an instance, so its copies are its instances.
    """
    deployment, machines = endpoint.deployment, endpoint.deployment.profile.endpoint
    if deployment.scaling_paused or machines is None:
        return ()
    scaled = [
        (made.component, ScaledCopies(made.resource, made.name, made.component.copies.min, made.component.copies.max))
        for made in endpoint.components
    ]
    if not scaled:
        instances = ScaledCopies(endpoint.resource, None, machines.min_instances, machines.max_instances)
        scaled = [(deployment.components[0], instances)]
    return tuple(
        CopyScaling(
            scope,
            f"Scaling-{component.name}",
            deployment=deployment,
            scaling=component.scaling,
            copies=copies,
            buffer=buffer,
        )
        for component, copies in scaled
        if component.scaling is not None
    )
