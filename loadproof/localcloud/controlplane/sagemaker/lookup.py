"""`loadproof.localcloud.directory.Directory` over the store: what the runtime sees of the control plane."""

from __future__ import annotations

from loadproof.localcloud.controlplane.sagemaker.lifecycle import Startable, fail, settle
from loadproof.localcloud.controlplane.sagemaker.store import Endpoint, Store
from loadproof.localcloud.controlplane.sagemaker.views import (
    asynchronous_view,
    capture_view,
    component_view,
    variant_view,
)
from loadproof.localcloud.directory import ComponentView, EndpointView, RecordMetric


class StoreDirectory:
    """Implements `Directory`. Names are looked up in every account and region of this local cloud: first come."""

    def __init__(self, store: Store, startable: Startable, record_metric: RecordMetric) -> None:
        self._store = store
        self._startable = startable
        self.record_metric = record_metric

    def endpoint(self, name: str) -> EndpointView | None:
        with self._store.lock:
            settle(self._store, self._startable)
            found = next((one for one in self._store.endpoints.values() if one.name == name), None)
            return self._endpoint_view(found) if found else None

    def endpoints(self) -> tuple[EndpointView, ...]:
        with self._store.lock:
            settle(self._store, self._startable)
            return tuple(self._endpoint_view(one) for one in self._store.endpoints.values())

    def component(self, name: str) -> ComponentView | None:
        with self._store.lock:
            settle(self._store, self._startable)
            found = next((one for one in self._store.components.values() if one.name == name), None)
            return component_view(self._store, found) if found else None

    def fail_component(self, name: str, reason: str) -> None:
        with self._store.lock:
            for component in self._store.components.values():
                if component.name == name and component.status != "Deleting":
                    fail(component, reason)

    def _endpoint_view(self, endpoint: Endpoint) -> EndpointView:
        return EndpointView(
            name=endpoint.name,
            status=endpoint.status,
            variants=tuple(variant_view(self._store, endpoint, one) for one in endpoint.variants),
            component_names=tuple(one.name for one in self._store.components_of(endpoint.caller, endpoint.name)),
            asynchronous=asynchronous_view(self._store, endpoint),
            capture=capture_view(endpoint),
        )
