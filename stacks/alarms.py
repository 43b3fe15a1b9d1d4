"""Alarms: the objectives as far as CloudWatch can know them, and what else should wake somebody.

| objective | alarm |
|---|---|
| `e2e_pXX_ms` | ModelLatency pXX + OverheadLatency pXX, both microseconds, in milliseconds |
| `error_rate_max` | (InvocationModelErrors + MidStreamErrors) / Invocations |
| `ttft_*`, `itl_*`, `tpot_*`, `*_per_s_min` | none: SageMaker publishes no such metric |

The last row is what the benchmark is for. The sum of two percentiles is not the percentile of the sum: it lies above
it or close to it, so the alarm errs towards telling.

Alarms that say the same thing to the same people are one alarm: what threatens the objectives is silent by itself and
speaks through `objectives-at-risk`. Each description ends with its section of the runbook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from loadproof.profiles.names import alarm_name
from loadproof.profiles.schema import Component, Objectives
from stacks.alarm_topic import topic_arn
from stacks.buffer.infrastructure import Buffer
from stacks.cloudwatch import AlarmRule, Metric, alarm_on_expression, alarm_on_metric
from stacks.endpoint_metrics import Served, served_models
from stacks.model_endpoint import ModelEndpoint

_PERCENTILES: Final = ("p50", "p90", "p95", "p99")
# Three bad minutes of five: one slow minute wakes nobody.
_SUSTAINED: Final = (5, 3)
# From the first failed request to the first copy took 9.4 minutes where it was measured; 15 minutes are a fault.
_WAKING: Final = (15, 15)
_AT_MOST: Final = (15, 15)
_REJECTED_SHARE: Final = 0.05


class Alarms(Construct):
    """Alarms on the endpoint's models and on its buffer. They notify the environment's topic, if there is one."""

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
        self._endpoint = endpoint
        self._environment = endpoint.deployment.environment
        topic = topic_arn(self, self._environment)
        self._told = [topic] if topic else []
        self.names: list[str] = []
        self._at_risk: dict[str, cloudwatch.CfnAlarm] = {}  # by name
        models = served_models(endpoint.deployment)
        self._latency(models[0], objectives)
        if objectives.error_rate_max is not None:
            self._error_rate(models[0], objectives.error_rate_max)
        self.on_objectives = tuple(self._at_risk.values())  # they turn an update back
        self._rejected(models[0])
        for model, component in zip(models, endpoint.deployment.components, strict=False):
            self._capacity(model, component)
        if self._at_risk:
            self._objectives_at_risk(objectives)
        if buffer is not None:
            self._buffer(buffer)

    def _latency(self, model: Served, objectives: Objectives) -> None:
        for percentile in _PERCENTILES:
            bound_ms = getattr(objectives, f"e2e_{percentile}_ms")
            if bound_ms is None:
                continue
            self._silent(
                f"latency-{percentile}",
                "latency",
                expression="(model + overhead) / 1000",
                label=f"e2e_{percentile}_ms",
                metrics={
                    "model": model.metric("ModelLatency", percentile),
                    "overhead": model.metric("OverheadLatency", percentile),
                },
                rule=_above(bound_ms, _SUSTAINED),
                words=f"e2e_{percentile}_ms above {bound_ms:g} ms.",
            )

    def _error_rate(self, model: Served, bound: float) -> None:
        self._silent(
            "error-rate",
            "error-rate",
            expression="IF(invocations > 0, (FILL(failed, 0) + FILL(broken, 0)) / invocations, 0)",
            label="error_rate",
            metrics={
                "failed": model.metric("InvocationModelErrors", "Sum"),
                "broken": model.metric("MidStreamErrors", "Sum"),
                "invocations": model.metric("Invocations", "Sum"),
            },
            rule=_above(bound, _SUSTAINED),
            words=f"share of failed requests above {bound:g}.",
        )

    def _rejected(self, model: Served) -> None:
        """Throttled or malformed requests: the caller's side, so it speaks for itself."""
        alarm_on_expression(
            self,
            "rejected",
            name=self._name("rejected"),
            expression="IF(invocations > 0, FILL(rejected, 0) / invocations, 0)",
            label="rejected",
            metrics={
                "rejected": model.metric("Invocation4XXErrors", "Sum"),
                "invocations": model.metric("Invocations", "Sum"),
            },
            rule=_above(_REJECTED_SHARE, _SUSTAINED),
            description=self._described(
                "rejected",
                f"more than {_REJECTED_SHARE:.0%} of requests refused: throttled, malformed or without capacity.",
            ),
            actions=self._told,
        )

    def _capacity(self, model: Served, component: Component) -> None:
        """Requests that found no copy, and copies that cannot become more."""
        if model.component is not None:
            sleeps = component.scaling is not None and component.scaling.to_zero is not None
            kind = f"no-capacity-{component.name}"
            wait = ", for longer than waking from zero takes" if sleeps else ""
            self._at_risk[self._name(kind)] = alarm_on_metric(
                self,
                kind,
                name=self._name(kind),
                metric=model.metric("NoCapacityInvocationFailures", "Sum"),
                rule=_above(0, _WAKING if sleeps else _SUSTAINED),
                description=self._described("no-capacity", f"requests find no copy of {model.title}{wait}."),
                actions=[],
            )
        most = self._most_copies(component)
        if most is not None:
            expression, metrics = model.copies()
            self._silent(
                f"at-most-copies-{component.name}",
                "at-most-copies",
                expression=expression,
                label="copies",
                metrics=metrics,
                rule=_above(most - 0.5, _AT_MOST),
                words=f"{model.title} has run {most} copies, the most it may, for {_AT_MOST[0]} minutes.",
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

    def _objectives_at_risk(self, objectives: Objectives) -> None:
        unseen = ", ".join(objectives_without_metric(objectives))
        note = f" Not seen by CloudWatch, proven by the benchmark: {unseen}." if unseen else ""
        alarm = cloudwatch.CfnCompositeAlarm(
            self,
            "objectives-at-risk",
            alarm_name=self._name("objectives-at-risk"),
            alarm_rule=" OR ".join(f'ALARM("{name}")' for name in self._at_risk),
            alarm_description=self._described("objectives-at-risk", f"objectives are missed, or about to be.{note}"),
            alarm_actions=self._told,
        )
        # The rule names its alarms in a text, which makes CloudFormation wait for nothing.
        for child in self._at_risk.values():
            alarm.add_resource_dependency(child)

    def _buffer(self, buffer: Buffer) -> None:
        waited_s = buffer.visibility_timeout_s
        rows: tuple[tuple[str, Metric, AlarmRule, str], ...] = (
            (
                "dead-letters",
                buffer.metric_dead_letters(),
                _above(0, (1, 1)),
                "messages failed too often and wait in the dead-letter queue.",
            ),
            (
                "queue-age",
                buffer.metric_oldest_message_age_s(),
                _above(waited_s, _SUSTAINED),
                f"the oldest message has waited longer than one visibility timeout ({waited_s} s); "
                "messages received three times or more do not count here.",
            ),
            (
                "consumer-errors",
                buffer.consumer.metric("Errors"),
                _above(0, _SUSTAINED),
                "the consumer fails as a whole: code, rights or time-out, not single messages.",
            ),
        )
        for kind, metric, rule, words in rows:
            alarm_on_metric(
                self,
                kind,
                name=self._name(kind),
                metric=metric,
                rule=rule,
                description=self._described(kind, words),
                actions=self._told,
            )

    def _silent(
        self,
        kind: str,
        section: str,
        *,
        expression: str,
        label: str,
        metrics: Mapping[str, Metric],
        rule: AlarmRule,
        words: str,
    ) -> None:
        """An alarm that speaks through the one over them."""
        self._at_risk[self._name(kind)] = alarm_on_expression(
            self,
            kind,
            name=self._name(kind),
            expression=expression,
            label=label,
            metrics=metrics,
            rule=rule,
            description=self._described(section, words),
            actions=[],
        )

    def _name(self, kind: str) -> str:
        """The name of a new alarm, listed once."""
        name = alarm_name(self._endpoint.name, kind)
        if name not in self.names:
            self.names.append(name)
        return name

    def _described(self, section: str, words: str) -> str:
        return f"{self._endpoint.name}: {words} Runbook: {self._environment.runbook_url}#{section}"


def objectives_without_metric(objectives: Objectives) -> tuple[str, ...]:
    """The objectives that no CloudWatch metric can tell, in the profile's order."""
    known = {"at_concurrency", "error_rate_max", *(f"e2e_{percentile}_ms" for percentile in _PERCENTILES)}
    given = objectives.model_dump(exclude_none=True)
    return tuple(name for name in given if name not in known)


def _above(threshold: float, minutes: tuple[int, int]) -> AlarmRule:
    """Above the threshold in `minutes[1]` of the last `minutes[0]` minutes."""
    periods, to_alarm = minutes
    return AlarmRule(threshold=threshold, comparison="GreaterThanThreshold", periods=periods, to_alarm=to_alarm)
