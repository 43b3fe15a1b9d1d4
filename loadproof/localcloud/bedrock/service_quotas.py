"""Service Quotas, of the services that have some here. Values are defaults until somebody asks for others."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Final

from loadproof.localcloud.bedrock.quotas import Quota
from loadproof.localcloud.bedrock.store import BedrockStore
from loadproof.localcloud.wire import AwsError, Caller, Params, paged
from loadproof.wire.documents import Document

SERVICES: Final = {"bedrock": "Amazon Bedrock", "sagemaker": "Amazon SageMaker"}
Listed = Callable[[BedrockStore, Caller], list[Quota]]


class ServiceQuotasApi:
    """An increase that is asked for is granted at once, also a decrease and for what AWS does not adjust."""

    def __init__(self, store: BedrockStore, listed: Mapping[str, Listed]) -> None:
        self._store, self._by_service = store, listed

    def ListServiceQuotas(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        quotas = [one for one in self._listed(caller, params) if params.get("QuotaCode") in (None, one.code)]
        rows = [_shown(caller, params["ServiceCode"], quota) for quota in quotas]
        return paged(rows, params, "Quotas", 100)

    def ListAWSDefaultServiceQuotas(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        """As listed before anybody asked for another value."""
        return ServiceQuotasApi(BedrockStore(now_s=self._store.now_s), self._by_service).ListServiceQuotas(
            caller, params
        )

    def GetServiceQuota(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        return {"Quota": _shown(caller, params["ServiceCode"], self._quota(caller, params))}

    def RequestServiceQuotaIncrease(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        quota = self._quota(caller, params)
        value = float(params["DesiredValue"])
        with self._store.lock:
            self._store.quota_values[(caller.account, caller.region, quota.name)] = value
        return {
            "RequestedQuota": {
                "Id": uuid.uuid4().hex,
                "ServiceCode": params["ServiceCode"],
                "QuotaCode": quota.code,
                "QuotaName": quota.name,
                "DesiredValue": value,
                "Status": "APPROVED",
            }
        }

    def _quota(self, caller: Caller, params: Params) -> Quota:
        for quota in self._listed(caller, params):
            if quota.code == params["QuotaCode"]:
                return quota
        raise AwsError("NoSuchResourceException", "The request failed because the specified quota does not exist.")

    def _listed(self, caller: Caller, params: Params) -> list[Quota]:
        listed = self._by_service.get(params["ServiceCode"])
        if listed is None:
            known = " and ".join(self._by_service)
            raise AwsError("NoSuchResourceException", f"The local cloud has quotas of {known} only.")
        return listed(self._store, caller)


def _shown(caller: Caller, service: str, quota: Quota) -> Document:
    return {
        "ServiceCode": service,
        "ServiceName": SERVICES[service],
        "QuotaArn": caller.arn("servicequotas", f"{service}/{quota.code}"),
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "Value": quota.value,
        "Unit": "None",
        "Adjustable": quota.adjustable,
        "GlobalQuota": False,
    }
