"""What can be said of a model on Bedrock before it is deployed: what its quotas let through. Nothing of its speed.

Bedrock shows no machines, so neither latency nor throughput of the model is predicted. The quotas are AWS's published
defaults, as vendored rows; an account may have others.
"""

from __future__ import annotations

from dataclasses import dataclass

from loadproof.capacity.workload import mean_tokens
from loadproof.catalog.bedrock import BedrockQuota, default_quota
from loadproof.profiles.on_bedrock import bedrock_row, bedrock_settings, invoked_id
from loadproof.profiles.schema import Profile

_LATENCIES = ("e2e_p50_ms", "e2e_p90_ms", "e2e_p95_ms", "e2e_p99_ms")


@dataclass(frozen=True, slots=True)
class QuotaOutlook:
    """One profile against the published quotas of its model; None where no row tells one.

    `reserved_tokens` a request takes when it is admitted, `settled_tokens` when it has ended.
    """

    profile_name: str
    model_id: str
    region: str | None
    provisioned_units: int | None
    reserved_tokens: int
    settled_tokens: float
    requests_quota: BedrockQuota | None
    tokens_quota: BedrockQuota | None
    requests_per_minute: float | None
    binds: str | None
    reserved_in_flight: int | None
    in_flight_at_objective: float | None
    objective: str | None
    max_concurrency: int


def quota_outlook(profile: Profile, region: str | None) -> QuotaOutlook:
    """What the defaults of a region let through, for requests of the workload's mean size.

    requests per minute = min(requests quota, tokens quota / settled), settled = input + output · burndown;
    in flight by reservations = tokens quota / (input + max_tokens): a bucket holds a minute's quota;
    in flight that uses it all up, at an objective's E2E = requests per minute / 60 · E2E (Little's law).
    """
    settings, row = bedrock_settings(profile), bedrock_row(profile)
    read, written = mean_tokens(profile.workload.input_tokens), mean_tokens(profile.workload.output_tokens)
    settled = read + written * (row.output_burndown if row else 1.0)
    on_quota = row is not None and settings.provisioned_throughput is None
    quotas = [
        default_quota(row, settings.inference_profile, unit, region or "") if row and on_quota else None
        for unit in ("requests", "tokens")
    ]
    requests, tokens = quotas
    ceilings = {
        "requests per minute": requests.value if requests else None,
        "tokens per minute": tokens.value / settled if tokens else None,
    }
    known = {name: value for name, value in ceilings.items() if value is not None}
    binds = min(known, key=lambda name: known[name], default=None)
    per_minute = known[binds] if binds else None
    objective = next((name for name in _LATENCIES if getattr(profile.objectives, name) is not None), None)
    e2e_s = getattr(profile.objectives, objective) / 1000 if objective else None
    return QuotaOutlook(
        profile_name=profile.name,
        model_id=invoked_id(profile),
        region=region,
        provisioned_units=settings.provisioned_throughput.model_units if settings.provisioned_throughput else None,
        reserved_tokens=read + written,
        settled_tokens=settled,
        requests_quota=requests,
        tokens_quota=tokens,
        requests_per_minute=per_minute,
        binds=binds,
        reserved_in_flight=int(tokens.value // (read + written)) if tokens else None,
        in_flight_at_objective=per_minute / 60 * e2e_s if per_minute is not None and e2e_s is not None else None,
        objective=objective,
        max_concurrency=settings.max_concurrency,
    )
