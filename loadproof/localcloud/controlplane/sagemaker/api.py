"""SageMaker's operations: one small class a resource, joined into what the wire calls."""

from __future__ import annotations

from collections.abc import Callable

from loadproof.localcloud.controlplane.sagemaker.components import ComponentOperations
from loadproof.localcloud.controlplane.sagemaker.endpoints import EndpointOperations
from loadproof.localcloud.controlplane.sagemaker.lifecycle import Startable
from loadproof.localcloud.controlplane.sagemaker.models import ModelOperations
from loadproof.localcloud.controlplane.sagemaker.rules import RoleCheck
from loadproof.localcloud.controlplane.sagemaker.store import Store
from loadproof.localcloud.wire import Caller


class SageMakerApi(ModelOperations, EndpointOperations, ComponentOperations):
    """All operations on one store.

    `roles` says why a role cannot be assumed; `scaled` gives an endpoint's variants that are scalable targets;
    `startable` says why a component's container could not start.
    """

    def __init__(
        self,
        store: Store,
        *,
        roles: RoleCheck,
        scaled: Callable[[Caller, str], frozenset[str]],
        startable: Startable,
    ) -> None:
        self.store = store
        self.roles = roles
        self.scaled = scaled
        self.startable = startable
