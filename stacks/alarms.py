"""Alarms from a profile's objectives, as far as CloudWatch can know them.

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

from loadproof.profiles.names import VARIANT_NAME
from loadproof.profiles.schema import Objectives
from stacks.buffer.infrastructure import Buffer
from stacks.cloudwatch import SAGEMAKER, AlarmRule, Metric, alarm_on_expression, alarm_on_metric
from stacks.model_endpoint import ModelEndpoint

_PERCENTILES: Final = ("p50", "p90", "p95", "p99")
_SUSTAINED_PERIODS: Final = 5  # minutes looked at ...
_SUSTAINED_TO_ALARM: Final = 3  # ... and minutes that must be bad: one slow minute wakes nobody


class Alarms(Construct):
    """Alarms on the profile's own model, and on its buffer. They notify the environment's topic, if it has one."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ModelEndpoint,
        objectives: Objectives,
        buffer: Buffer | None,
    ) -> None:
        super().__init__(scope, construct_id)
        topic = endpoint.deployment.environment.alarm_topic_arn
        self._actions = [topic] if topic else []
        self._endpoint = endpoint
        self._latency(objectives)
        if objectives.error_rate_max is not None:
            self._error_rate(objectives.error_rate_max)
        if buffer is not None:
            self._buffer(buffer)

    def _latency(self, objectives: Objectives) -> None:
        unseen = ", ".join(objectives_without_metric(objectives))
        note = f" Not seen by CloudWatch, proven by the benchmark: {unseen}." if unseen else ""
        for percentile in _PERCENTILES:
            bound_ms = getattr(objectives, f"e2e_{percentile}_ms")
            if bound_ms is None:
                continue
            alarm_on_expression(
                self,
                f"E2e-{percentile}",
                expression="(model + overhead) / 1000",
                label=f"e2e_{percentile}_ms",
                metrics={
                    "model": self._metric("ModelLatency", percentile),
                    "overhead": self._metric("OverheadLatency", percentile),
                },
                rule=_sustained(bound_ms),
                description=f"{self._endpoint.name}: e2e_{percentile}_ms above {bound_ms:g} ms.{note}",
                actions=self._actions,
            )

    def _error_rate(self, bound: float) -> None:
        alarm_on_expression(
            self,
            "ErrorRate",
            expression="IF(invocations > 0, (FILL(failed, 0) + FILL(broken, 0)) / invocations, 0)",
            label="error_rate",
            metrics={
                "failed": self._metric("InvocationModelErrors", "Sum"),
                "broken": self._metric("MidStreamErrors", "Sum"),
                "invocations": self._metric("Invocations", "Sum"),
            },
            rule=_sustained(bound),
            description=f"{self._endpoint.name}: share of failed requests above {bound:g}",
            actions=self._actions,
        )

    def _buffer(self, buffer: Buffer) -> None:
        alarm_on_metric(
            self,
            "DeadLetters",
            metric=buffer.metric_dead_letters(),
            rule=AlarmRule(threshold=0, comparison="GreaterThanThreshold"),
            description=f"{self._endpoint.name}: messages failed too often and wait in the dead-letter queue",
            actions=self._actions,
        )
        alarm_on_metric(
            self,
            "QueueAge",
            metric=buffer.metric_oldest_message_age_s(),
            rule=_sustained(buffer.visibility_timeout_s),
            description=(
                f"{self._endpoint.name}: the oldest message has waited longer than one visibility timeout "
                f"({buffer.visibility_timeout_s} s); messages received three times or more do not count here"
            ),
            actions=self._actions,
        )

    def _metric(self, name: str, statistic: str) -> Metric:
        return Metric(SAGEMAKER, name, self._dimensions(), statistic)

    def _dimensions(self) -> dict[str, str]:
        component = self._endpoint.main_component_name
        if component is not None:
            return {"InferenceComponentName": component}
        return {"EndpointName": self._endpoint.name, "VariantName": VARIANT_NAME}


def objectives_without_metric(objectives: Objectives) -> tuple[str, ...]:
    """The objectives that no CloudWatch metric can tell, in the profile's order."""
    known = {"at_concurrency", "error_rate_max", *(f"e2e_{percentile}_ms" for percentile in _PERCENTILES)}
    given = objectives.model_dump(exclude_none=True)
    return tuple(name for name in given if name not in known)


def _sustained(threshold: float) -> AlarmRule:
    return AlarmRule(
        threshold=threshold,
        comparison="GreaterThanThreshold",
        periods=_SUSTAINED_PERIODS,
        to_alarm=_SUSTAINED_TO_ALARM,
    )
