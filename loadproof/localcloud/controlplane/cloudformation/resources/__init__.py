"""The resource types that can be deployed here. Any other type fails the deployment, with the reason in its event."""

from __future__ import annotations

from loadproof.localcloud.controlplane.cloudformation.resources import (
    autoscaling,
    bedrock,
    cloudwatch,
    custom,
    events,
    functions,
    iam,
    keys,
    messaging,
    network,
    sagemaker,
    stepfunctions,
    storage,
)
from loadproof.localcloud.controlplane.cloudformation.resources.base import ResourceType

_MODULES = (
    autoscaling, bedrock, cloudwatch, custom, events, functions, iam, keys, messaging, network, sagemaker,
    stepfunctions, storage,
)  # fmt: skip


class _ByName(dict[str, ResourceType]):
    """Whatever a template calls `Custom::...` is a custom resource."""

    def __missing__(self, type_name: str) -> ResourceType:
        if type_name.startswith("Custom::"):
            return self[custom.CustomResource.type_name]
        raise KeyError(type_name)


_CLASSES = [one for module in _MODULES for one in vars(module).values() if isinstance(one, type)]
RESOURCE_TYPES: dict[str, ResourceType] = _ByName(
    {one.type_name: one() for one in _CLASSES if issubclass(one, ResourceType) and hasattr(one, "type_name")}
)
