"""SageMaker's quotas of instances: what a new account has, which is none, until somebody asks for more.

A value that was asked for is enforced. One that nobody touched is listed as 0 and not enforced, so that whoever wants
a deployment and no account's state has nothing to set up; `loadproof preflight` then says what a new account lacks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

import botocore.session

from loadproof.catalog.readers import instance_regions
from loadproof.localcloud.bedrock.quotas import Quota
from loadproof.localcloud.bedrock.store import BedrockStore
from loadproof.localcloud.controlplane.jobs.processing import ProcessingOperations
from loadproof.localcloud.controlplane.sagemaker.capacity import instance_types
from loadproof.localcloud.controlplane.sagemaker.endpoints import EndpointOperations
from loadproof.localcloud.wire import AwsError, Caller, Params
from loadproof.wire.documents import Document

ENDPOINT: Final = "endpoint usage"
PROCESSING: Final = "processing job usage"
_USES: Final = {ENDPOINT: "ProductionVariantInstanceType", PROCESSING: "ProcessingInstanceType"}


def instance_quotas(store: BedrockStore, caller: Caller) -> list[Quota]:
    """Every quota of instances that the region's types have, by name."""
    return [
        Quota(name, code, store.quota_values.get((caller.account, caller.region, name), 0.0), True)
        for name, code, kind in _listed()
        if _is_offered(kind, caller.region)
    ]


class QuotaOperations(EndpointOperations, ProcessingOperations):
    """Endpoints and jobs within their quotas, which the control plane sets: `quota_values` that somebody asked for."""

    quota_values: Mapping[tuple[str, str, str], float]

    def CreateEndpoint(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        for variant in self.store.configs.find(caller, params["EndpointConfigName"]).request["ProductionVariants"]:
            # Of pools the first counts: it is tried before the others.
            kind = next(iter(instance_types(variant)), "")
            used = self.store.in_use(caller, kind)
            self._refuse_past(caller, f"{kind} for {ENDPOINT}", used, int(variant.get("InitialInstanceCount", 1)))
        return super().CreateEndpoint(caller, params)

    def CreateProcessingJob(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        kind = params["ProcessingResources"]["ClusterConfig"]["InstanceType"]
        running = [job.cluster for job in self.processing.all(caller) if job.status == "InProgress"]
        used = sum(one["InstanceCount"] for one in running if one["InstanceType"] == kind)
        wanted = params["ProcessingResources"]["ClusterConfig"]["InstanceCount"]
        self._refuse_past(caller, f"{kind} for {PROCESSING}", used, wanted)
        return super().CreateProcessingJob(caller, params)

    def _refuse_past(self, caller: Caller, quota: str, used: int, wanted: int) -> None:
        """Worded as SageMaker words it."""
        limit = self.quota_values.get((caller.account, caller.region, quota))
        if limit is not None and used + wanted > limit:
            raise AwsError(
                "ResourceLimitExceeded",
                f"The account-level service limit '{quota}' is {limit:g} Instances, with current utilization of {used} "
                f"Instances and a request delta of {wanted} Instances. Please use AWS Service Quotas to request an "
                "increase for this quota. If AWS Service Quotas is not available, contact AWS support to request an "
                "increase for this quota.",
            )


@cache
def _listed() -> tuple[tuple[str, str, str], ...]:
    """(name, code, instance type); the code is made of the name, as AWS's are not known."""
    named = sorted((f"{kind} for {use}", kind) for use, shape in _USES.items() for kind in _types(shape))
    return tuple((name, f"L-{zlib.crc32(name.encode()):08X}", kind) for name, kind in named)


def _types(shape: str) -> Iterator[str]:
    model = botocore.session.get_session().get_service_model("sagemaker")
    yield from model.shape_for(shape).enum


def _is_offered(kind: str, region: str) -> bool:
    """Where the catalog knows a type's regions; a type that it has no row of is offered everywhere."""
    regions = instance_regions().get(kind)
    return regions is None or region in regions
