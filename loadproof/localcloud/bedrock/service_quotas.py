"""Service Quotas, for Bedrock. Values are AWS's published defaults until somebody asks for others."""

from __future__ import annotations

import uuid

from loadproof.localcloud.bedrock.quotas import Quota, listed_quotas
from loadproof.localcloud.bedrock.store import BedrockStore
from loadproof.localcloud.controlplane.wire import AwsError, Caller, Params, paged
from loadproof.wire.documents import Document

SERVICE_CODE = "bedrock"


class ServiceQuotasApi:
    """An increase that is asked for is granted at once, also a decrease and for what AWS does not adjust."""

    def __init__(self, store: BedrockStore) -> None:
        self._store = store

    def ListServiceQuotas(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        quotas = [one for one in self._listed(caller, params) if params.get("QuotaCode") in (None, one.code)]
        return paged([_shown(caller, quota) for quota in quotas], params, "Quotas", 100)

    def ListAWSDefaultServiceQuotas(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        """As listed before anybody asked for another value."""
        return ServiceQuotasApi(BedrockStore(now_s=self._store.now_s)).ListServiceQuotas(caller, params)

    def GetServiceQuota(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        return {"Quota": _shown(caller, self._quota(caller, params))}

    def RequestServiceQuotaIncrease(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        quota = self._quota(caller, params)
        value = float(params["DesiredValue"])
        with self._store.lock:
            self._store.quota_values[(caller.account, caller.region, quota.name)] = value
        return {
            "RequestedQuota": {
                "Id": uuid.uuid4().hex,
                "ServiceCode": SERVICE_CODE,
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
        if params["ServiceCode"] != SERVICE_CODE:
            raise AwsError("NoSuchResourceException", "The local cloud has quotas of bedrock only.")
        return listed_quotas(self._store, caller)


def _shown(caller: Caller, quota: Quota) -> Document:
    return {
        "ServiceCode": SERVICE_CODE,
        "ServiceName": "Amazon Bedrock",
        "QuotaArn": caller.arn("servicequotas", f"{SERVICE_CODE}/{quota.code}"),
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "Value": quota.value,
        "Unit": "None",
        "Adjustable": quota.adjustable,
        "GlobalQuota": False,
    }
