"""Alarms of a model on Bedrock.

| objective | alarm |
|---|---|
| `e2e_pXX_ms` | InvocationLatency pXX, ms |
| `ttft_pXX_ms` | TimeToFirstToken pXX, ms; Bedrock publishes it of streams only |
| `error_rate_max` | (InvocationServerErrors + InvocationThrottles) / all requests |
| `itl_*`, `tpot_*`, `*_per_s_min` | none: Bedrock publishes no such metric |

Beside them: throttled requests, errors of either side, and the use of the account's quota.
"""

from __future__ import annotations

from typing import Final

from constructs import Construct

from loadproof.constructs.bedrock.metrics import metric, share
from loadproof.constructs.bedrock.model import HostedModel
from loadproof.constructs.bedrock.quota.infrastructure import TokenQuota
from loadproof.constructs.buffer.infrastructure import Buffer
from loadproof.constructs.observability.alarm_set import PERCENTILES, SUSTAINED, AlarmSet, above, unseen_objectives
from loadproof.profiles.on_bedrock import bedrock_row, bedrock_settings
from loadproof.profiles.schema import Objectives

_THROTTLED_SHARE: Final = 0.01
_FAILED_SHARE: Final = 0.05
_LATENCIES: Final = {"e2e": "InvocationLatency", "ttft": "TimeToFirstToken"}


class BedrockAlarms(AlarmSet):
    """Alarms on the model and on its buffer. `quota` is None where none is watched."""

    def __init__(self, scope: Construct, construct_id: str, *, model: HostedModel, buffer: Buffer | None) -> None:
        super().__init__(scope, construct_id, deployment=model.deployment)
        self._model = model
        profile = model.deployment.profile
        self._latency(profile.objectives)
        if profile.objectives.error_rate_max is not None:
            self._error_rate(profile.objectives.error_rate_max)
        for kind, counted, limit, what in (
            ("throttled", "InvocationThrottles", _THROTTLED_SHARE, "throttled: a quota is used up."),
            ("server-errors", "InvocationServerErrors", _FAILED_SHARE, "failed on Bedrock's side."),
            ("rejected", "InvocationClientErrors", _FAILED_SHARE, "refused as malformed or not allowed."),
        ):
            words = f"more than {limit:.0%} of requests {what}"
            self._telling(kind, share(model, kind, counted), above(limit, SUSTAINED), words)
        self.quota = self._quota_use()
        if self._at_risk:
            self._objectives_at_risk(objectives_unseen_on_bedrock(profile.objectives))
        if buffer is not None:
            self._buffer(buffer)

    def _latency(self, objectives: Objectives) -> None:
        for kind, name in _LATENCIES.items():
            for percentile in PERCENTILES:
                objective = f"{kind}_{percentile}_ms"
                bound_ms = getattr(objectives, objective, None)
                if bound_ms is None:
                    continue
                self._silent(
                    f"{'latency' if kind == 'e2e' else kind}-{percentile}",
                    "latency",
                    metric(self._model, name, percentile),
                    above(bound_ms, SUSTAINED),
                    f"{objective} above {bound_ms:g} ms.",
                )

    def _error_rate(self, bound: float) -> None:
        formula = share(self._model, "error_rate", "InvocationServerErrors", "InvocationThrottles")
        words = f"share of failed and throttled requests above {bound:g}."
        self._silent("error-rate", "error-rate", formula, above(bound, SUSTAINED), words)

    def _quota_use(self) -> TokenQuota | None:
        """On what the profile itself uses: whoever else calls the model counts against the same quota, unseen here."""
        deployment = self._model.deployment
        settings, row = bedrock_settings(deployment.profile), bedrock_row(deployment.profile)
        wanted = settings.quota_alarm_share
        if wanted is None or row is None or settings.provisioned_throughput is not None:
            return None
        quota = TokenQuota(self, "Quota", deployment=deployment, model=row, share=wanted)
        self._telling(
            "quota-use",
            metric(self._model, "EstimatedTPMQuotaUsage", "Sum"),
            above(quota.alarm_at, SUSTAINED),
            f"uses more than {wanted:.0%} of the account's tokens per minute for {row.title}.",
        )
        return quota


def objectives_unseen_on_bedrock(objectives: Objectives) -> tuple[str, ...]:
    """The objectives that no metric of Bedrock's can tell, in the profile's order."""
    return unseen_objectives(objectives, frozenset(f"{kind}_{p}_ms" for kind in _LATENCIES for p in PERCENTILES))
