"""Alarms: the objectives as far as CloudWatch can know them, and what else should wake somebody.

| objective | alarm |
|---|---|
| `e2e_pXX_ms` | ModelLatency pXX + OverheadLatency pXX, both microseconds, in milliseconds |
| `error_rate_max` | (InvocationModelErrors + MidStreamErrors) / Invocations |
| `ttft_*`, `itl_*`, `tpot_*`, `*_per_s_min` | none: SageMaker publishes no such metric |

The last row is what the benchmark is for. The sum of two percentiles is not the percentile of the sum: it lies above
it or close to it, so the alarm errs towards telling.
"""

from __future__ import annotations

from typing import Final

from constructs import Construct

from loadproof.constructs.buffer.infrastructure import Buffer
from loadproof.constructs.cdk.cloudwatch import Formula
from loadproof.constructs.endpoint.model_endpoint import ModelEndpoint
from loadproof.constructs.observability.alarm_set import (
    PERCENTILES,
    SUSTAINED,
    AlarmSet,
    above,
    unseen_objectives,
)
from loadproof.constructs.observability.endpoint_metrics import Served, served_models
from loadproof.profiles.schema import Component, Objectives

# From the first failed request to the first copy took 9.4 minutes where it was measured; 15 minutes are a fault.
_WAKING: Final = (15, 15)
_AT_MOST: Final = (15, 15)
_REJECTED_SHARE: Final = 0.05


class Alarms(AlarmSet):
    """Alarms on the endpoint's models and on its buffer."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ModelEndpoint,
        buffer: Buffer | None = None,
    ) -> None:
        super().__init__(scope, construct_id, deployment=endpoint.deployment)
        objectives = endpoint.deployment.profile.objectives
        self._endpoint = endpoint
        models = served_models(endpoint.deployment)
        self._latency(models[0], objectives)
        if objectives.error_rate_max is not None:
            self._error_rate(models[0], objectives.error_rate_max)
        self.on_objectives = tuple(self._at_risk.values())  # they roll an update back
        self._rejected(models[0])
        for model, component in zip(models, endpoint.deployment.components, strict=False):
            self._capacity(model, component)
        if self._at_risk:
            self._objectives_at_risk(objectives_without_metric(objectives))
        if buffer is not None:
            self._buffer(buffer)

    def _latency(self, model: Served, objectives: Objectives) -> None:
        for percentile in PERCENTILES:
            bound_ms = getattr(objectives, f"e2e_{percentile}_ms")
            if bound_ms is None:
                continue
            metrics = {
                "model": model.metric("ModelLatency", percentile),
                "overhead": model.metric("OverheadLatency", percentile),
            }
            formula = Formula("(model + overhead) / 1000", f"e2e_{percentile}_ms", metrics)
            words = f"e2e_{percentile}_ms above {bound_ms:g} ms."
            self._silent(f"latency-{percentile}", "latency", formula, above(bound_ms, SUSTAINED), words)

    def _error_rate(self, model: Served, bound: float) -> None:
        metrics = {
            "failed": model.metric("InvocationModelErrors", "Sum"),
            "broken": model.metric("MidStreamErrors", "Sum"),
            "invocations": model.metric("Invocations", "Sum"),
        }
        share = "IF(invocations > 0, (FILL(failed, 0) + FILL(broken, 0)) / invocations, 0)"
        formula = Formula(share, "error_rate", metrics)
        words = f"share of failed requests above {bound:g}."
        self._silent("error-rate", "error-rate", formula, above(bound, SUSTAINED), words)

    def _rejected(self, model: Served) -> None:
        """Throttled or malformed requests: the caller's side, so it speaks for itself."""
        metrics = {
            "rejected": model.metric("Invocation4XXErrors", "Sum"),
            "invocations": model.metric("Invocations", "Sum"),
        }
        formula = Formula("IF(invocations > 0, FILL(rejected, 0) / invocations, 0)", "rejected", metrics)
        words = f"more than {_REJECTED_SHARE:.0%} of requests refused: throttled, malformed or without capacity."
        self._telling("rejected", formula, above(_REJECTED_SHARE, SUSTAINED), words)

    def _capacity(self, model: Served, component: Component) -> None:
        """Requests that found no copy, and copies that cannot become more."""
        if model.component is not None:
            sleeps = component.scaling is not None and component.scaling.to_zero is not None
            kind = f"no-capacity-{component.name}"
            wait = ", for longer than waking from zero takes" if sleeps else ""
            failures = model.metric("NoCapacityInvocationFailures", "Sum")
            words = f"requests find no copy of {model.title}{wait}."
            self._silent(kind, "no-capacity", failures, above(0, _WAKING if sleeps else SUSTAINED), words)
        most = self._most_copies(component)
        if most is not None:
            expression, metrics = model.copies()
            words = f"{model.title} has run {most} copies, the most it may, for {_AT_MOST[0]} minutes."
            copies = Formula(expression, "copies", metrics)
            self._silent(
                f"at-most-copies-{component.name}", "at-most-copies", copies, above(most - 0.5, _AT_MOST), words
            )

    def _most_copies(self, component: Component) -> int | None:
        """The most copies that scaling may reach; None where nothing scales."""
        endpoint = self._endpoint.deployment.profile.endpoint
        if component.scaling is None or endpoint is None:
            return None
        fewest, most = (
            (component.copies.min, component.copies.max)
            if self._endpoint.components
            else (endpoint.min_instances, endpoint.max_instances)
        )
        return most if most > fewest else None


def objectives_without_metric(objectives: Objectives) -> tuple[str, ...]:
    """The objectives that no metric of SageMaker's can tell, in the profile's order."""
    return unseen_objectives(objectives, frozenset(f"e2e_{percentile}_ms" for percentile in PERCENTILES))
