"""Quotas: endpoints at their most, the gate's job, and Bedrock's models."""

from __future__ import annotations

from collections.abc import Iterator

from loadproof.catalog.bedrock import same_quota
from loadproof.preflight.account import Account
from loadproof.preflight.needs import BedrockQuotaNeed, Instances
from loadproof.preflight.rules.rule import Found, bedrock_rule, instances_rule
from loadproof.wire.documents import Document


@instances_rule(
    "LA101",
    "Quota of instances is too low",
    reason="SageMaker counts instances by type over all endpoints, and over all processing jobs, of an account and "
    "region. Past the quota CreateEndpoint fails, or scaling stops at the very load it is for. New accounts have 0 of "
    "most types with accelerators.",
    mend="Ask for an increase before the day it is needed: large ones go through AWS Support and take days.",
)
def quota_too_low(need: Instances) -> Iterator[Found]:
    quota = _quota(need.account, "sagemaker", (need.quota_name,))
    if quota is None:
        return
    others = _instances_of_others(need) if need.use == "endpoint" else {}
    in_use = sum(others.values())
    if quota["Value"] >= need.count + in_use:
        return
    beside = f", and {in_use} in use by {', '.join(sorted(others))}" if in_use else ""
    yield Found(
        need.quota_name,
        f"the quota is {quota['Value']:g}",
        f"aws service-quotas request-service-quota-increase --service-code sagemaker --quota-code {quota['QuotaCode']} "
        f"--desired-value {need.count + in_use} --region {need.account.region}",
        needed=f"{need.count} for {', '.join(need.of)} at most{beside}",
    )


@instances_rule(
    "LA102",
    "The region lists no quota for an instance type",
    reason="Service Quotas lists every type that SageMaker offers in a region. One that is not listed cannot be had.",
    mend="Choose another instance type, or another region.",
)
def type_not_offered(need: Instances) -> Iterator[Found]:
    if _quota(need.account, "sagemaker", (need.quota_name,)) is None:
        yield Found(
            need.quota_name,
            f"Service Quotas of {need.account.region} has no such quota",
            f"aws service-quotas list-service-quotas --service-code sagemaker --region {need.account.region} "
            f"--query \"Quotas[?ends_with(QuotaName, '{need.use} usage')].[QuotaName,Value]\"",
            needed=f"{need.count} for {', '.join(need.of)}",
        )


@bedrock_rule(
    "LA103",
    "Bedrock grants no requests or tokens",
    reason="A model whose quota is 0, or that is not listed for the account, answers every request with a "
    "ThrottlingException or an AccessDeniedException.",
    mend="Ask for the quota, or use a cross-region inference profile that has one.",
)
def no_bedrock_quota(need: BedrockQuotaNeed) -> Iterator[Found]:
    quota = _quota(need.account, "bedrock", need.names)
    if quota is None or quota["Value"] <= 0:
        code = f" --quota-code {quota['QuotaCode']}" if quota else ""
        verb = "request-service-quota-increase" if quota else "list-service-quotas"
        yield Found(
            need.names[0],
            "the quota is 0" if quota else "no such quota is listed",
            f"aws service-quotas {verb} --service-code bedrock{code} --region {need.account.region}",
            needed=f"some {need.unit} a minute for {need.model_id}",
        )


def _quota(account: Account, service: str, names: tuple[str, ...]) -> Document | None:
    """The quota under any of the names: the account's own, else AWS's default; None where neither is listed."""
    for operation in ("list_service_quotas", "list_aws_default_service_quotas"):
        listed = account.listed("service-quotas", operation, "Quotas", {"ServiceCode": service})
        for name in names:
            for quota in listed:
                if same_quota(quota["QuotaName"], name):
                    found: Document = quota
                    return found
    return None


def _instances_of_others(need: Instances) -> dict[str, int]:
    """Instances of the type that endpoints beside ours have now, by endpoint."""
    listed = need.account.listed("sagemaker", "list_endpoints", "Endpoints")
    names = [one["EndpointName"] for one in listed if one["EndpointName"] not in need.ours]
    counts = need.account.together(lambda name: _instances(need.account, name, need.instance_type), names)
    return {name: count for name, count in zip(names, counts, strict=True) if count}


def _instances(account: Account, endpoint: str, instance_type: str) -> int:
    gone = ("ValidationException: Could not find",)
    described = account.read("sagemaker", "describe_endpoint", {"EndpointName": endpoint}, gone)
    if described is None:
        return 0
    config = account.read(
        "sagemaker", "describe_endpoint_config", {"EndpointConfigName": described["EndpointConfigName"]}, gone
    )
    types = {one["VariantName"]: _types(one) for one in (config or {}).get("ProductionVariants", [])}
    return sum(
        one.get("CurrentInstanceCount", 0)
        for one in described.get("ProductionVariants", [])
        # Of pools, SageMaker does not say here which type an instance has: it may be this one.
        if instance_type in types.get(one["VariantName"], ())
    )


def _types(variant: Document) -> tuple[str, ...]:
    pools = tuple(pool["InstanceType"] for pool in variant.get("InstancePools", []))
    return (variant["InstanceType"],) if "InstanceType" in variant else pools
