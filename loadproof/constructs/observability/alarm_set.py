"""What the alarms of every profile have in common: their names and words, the one that speaks for many, the buffer's.

Alarms that say the same thing to the same people are one alarm: what threatens the objectives is silent by itself and
speaks through `objectives-at-risk`. Each description ends with its section of the runbook.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aws_cdk import CfnResource
from constructs import Construct

from loadproof.constructs.buffer.infrastructure import Buffer
from loadproof.constructs.cdk.cloudwatch import AlarmRule, Formula, Metric, alarm
from loadproof.constructs.cdk.resource import resource
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.observability.alarm_topic import topic_arn
from loadproof.profiles.names import alarm_name
from loadproof.profiles.schema import Objectives

PERCENTILES: Final = ("p50", "p90", "p95", "p99")
# Three bad minutes of five: one slow minute wakes nobody.
SUSTAINED: Final = (5, 3)
CONSOLES: Final = (
    ("cn-", "console.amazonaws.cn"),
    ("us-gov-", "console.amazonaws-us-gov.com"),
    ("", "console.aws.amazon.com"),
)


class AlarmSet(Construct):
    """The alarms of one profile. They notify the environment's topic, if there is one. `names` are all of them."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        self._of = deployment.endpoint_name
        self._environment = deployment.environment
        topic = topic_arn(self, self._environment)
        self._topics = [topic] if topic else []
        self.names: list[str] = []
        self._at_risk: dict[str, CfnResource] = {}  # by name

    def _objectives_at_risk(self, unseen: Sequence[str]) -> None:
        """The one alarm that speaks for the silent ones; `unseen` are the objectives that none of them can tell."""
        note = f" Not seen by CloudWatch, proven by the benchmark: {', '.join(unseen)}." if unseen else ""
        words = f"objectives are missed, or about to be.{note}"
        properties = {
            "AlarmName": self._name("objectives-at-risk"),
            "AlarmRule": " OR ".join(f'ALARM("{name}")' for name in self._at_risk),
            "AlarmDescription": self._described("objectives-at-risk", "objectives-at-risk", words),
            "AlarmActions": self._topics,
        }
        tags = self._environment.tags
        alarm = resource(self, "objectives-at-risk", "CloudWatch::CompositeAlarm", properties, tags=tags)
        # The rule names its alarms in a text, which makes CloudFormation wait for nothing.
        for child in self._at_risk.values():
            alarm.add_resource_dependency(child)

    def _buffer(self, buffer: Buffer) -> None:
        waited_s = buffer.visibility_timeout_s
        # SQS forgets a postponed message's age, and one received three times; the consumer does not.
        ages = {"waiting": buffer.metric_oldest_message_age_s(), "handled": buffer.metric("Age", "Maximum")}
        rows: tuple[tuple[str, Metric | Formula, AlarmRule, str], ...] = (
            (
                "dead-letters",
                buffer.metric_dead_letters(),
                above(0, (1, 1)),
                "messages failed too often and wait in the dead-letter queue.",
            ),
            (
                "queue-age",
                Formula("MAX([FILL(waiting, 0), FILL(handled, 0)])", "age_s", ages),
                above(waited_s, SUSTAINED),
                f"the oldest message has waited longer than one visibility timeout ({waited_s} s).",
            ),
            (
                "consumer-errors",
                buffer.consumer.metric("Errors"),
                above(0, SUSTAINED),
                "the consumer fails as a whole: code, rights or time-out, not single messages.",
            ),
        )
        for kind, metric, rule, words in rows:
            self._telling(kind, metric, rule, words)

    def _telling(self, kind: str, on: Metric | Formula, rule: AlarmRule, words: str) -> None:
        """An alarm that speaks for itself, in a section of the runbook of its own."""
        self._alarm(kind, kind, on, rule, words, self._topics)

    def _silent(self, kind: str, section: str, on: Metric | Formula, rule: AlarmRule, words: str) -> None:
        """An alarm that speaks through the one over them."""
        self._at_risk[self._name(kind)] = self._alarm(kind, section, on, rule, words, [])

    def _alarm(
        self, kind: str, section: str, on: Metric | Formula, rule: AlarmRule, words: str, topics: Sequence[str]
    ) -> CfnResource:
        name, description, tags = self._name(kind), self._described(kind, section, words), self._environment.tags
        return alarm(self, kind, name=name, on=on, rule=rule, description=description, actions=topics, tags=tags)

    def _name(self, kind: str) -> str:
        """The name of a new alarm, listed once."""
        name = alarm_name(self._of, kind)
        if name not in self.names:
            self.names.append(name)
        return name

    def _described(self, kind: str, section: str, words: str) -> str:
        """A notification shows this: where the alarm is, for whoever reads it on a phone, and what to do."""
        page = f"{console_url(self._environment.region)}#alarmsV2:alarm/{alarm_name(self._of, kind)}"
        return f"{self._of}: {words} {page} Runbook: {self._environment.runbook_url}#{section}"


def console_url(region: str) -> str:
    """CloudWatch's pages in the console of a region."""
    domain = next(domain for prefix, domain in CONSOLES if region.startswith(prefix))
    return f"https://{region}.{domain}/cloudwatch/home?region={region}"


def unseen_objectives(objectives: Objectives, alarmed: frozenset[str]) -> tuple[str, ...]:
    """The objectives that no CloudWatch metric can tell, in the profile's order; `alarmed` are those with an alarm."""
    return tuple(name for name in objectives.bounds if name not in alarmed | {"error_rate_max"})


def above(threshold: float, minutes: tuple[int, int]) -> AlarmRule:
    """Above the threshold in `minutes[1]` of the last `minutes[0]` minutes."""
    periods, to_alarm = minutes
    return AlarmRule(threshold=threshold, comparison="GreaterThanThreshold", periods=periods, to_alarm=to_alarm)
