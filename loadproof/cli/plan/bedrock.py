"""`loadproof plan` of a profile on Bedrock: what published quotas let through, in words or as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from loadproof.capacity.bedrock import QuotaOutlook
from loadproof.catalog.bedrock import BedrockQuota


def as_json(outlook: QuotaOutlook) -> str:
    return json.dumps({"schema_version": 1, "backend": "bedrock", **asdict(outlook)}, indent=2)


def as_text(outlook: QuotaOutlook) -> str:
    """Each figure with where it is from; what is not known is said."""
    lines = [
        f"{outlook.profile_name}: {outlook.model_id} on Bedrock, {outlook.region or 'region not given'}",
        "Bedrock shows no machines: latency and throughput are not predicted; `loadproof bench` measures them.",
    ]
    if outlook.provisioned_units is not None:
        lines.append(f"{outlook.provisioned_units} model units of its own; what a unit does, AWS tells each account.")
        return "\n".join(lines)
    lines += [
        f"A request reserves {outlook.reserved_tokens} quota tokens and settles for {outlook.settled_tokens:g}.",
        _quota("Requests a minute", outlook.requests_quota),
        _quota("Tokens a minute", outlook.tokens_quota),
    ]
    if outlook.requests_per_minute is None:
        lines.append("Without a quota nothing follows; see Service Quotas in the account.")
        return "\n".join(lines)
    lines.append(f"So at most {outlook.requests_per_minute:g} requests a minute: {outlook.binds} bind.")
    if outlook.reserved_in_flight is not None:
        lines.append(f"Reservations allow {outlook.reserved_in_flight} in flight at once.")
    if outlook.in_flight_at_objective is not None:
        lines.append(
            f"At the objective's {outlook.objective}, {outlook.in_flight_at_objective:.1f} in flight use all of it; "
            f"the profile allows {outlook.max_concurrency} (bedrock.max_concurrency)."
        )
    lines.append("The account may have other quotas: the deployed stack's output TokensPerMinute says.")
    return "\n".join(lines)


def _quota(what: str, quota: BedrockQuota | None) -> str:
    if quota is None:
        return f"{what}: no default is known"
    return f"{what}: {quota.value:g} by default ({quota.name}; {quota.source}, {quota.date})"
