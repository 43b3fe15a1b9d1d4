"""Evaluating alarms: when each is due, what its new state is, and who is told."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.cloudwatch.alarms import ACTIONS_OF, Alarm, State, Watch
from loadproof.localcloud.controlplane.cloudwatch.expressions import Points
from loadproof.localcloud.controlplane.cloudwatch.metrics import MetricStore
from loadproof.localcloud.wire import Caller
from loadproof.wire.documents import Document

log = logging.getLogger(__name__)

_EVERY_S = 60.0  # alarms are evaluated each minute, those on shorter periods each period
_REPEAT_S = 60.0  # while an alarm stays in a state, its scaling policies are called again each minute
_KEPT_ITEMS = 2000


@dataclass(frozen=True, slots=True)
class Breach:
    """Why a scaling policy is called: the alarm, its threshold, and the points it was evaluated on (oldest first)."""

    alarm: str
    state: State
    threshold: float | None
    points: tuple[float, ...]
    oldest_s: float | None  # when the periods of the oldest and the newest point began, the cloud's time
    newest_s: float | None


Invoke = Callable[[str, Breach], None]  # (policy ARN, why)
Publish = Callable[[Caller, str, str, str], None]  # (caller, topic ARN, subject, message)


class History:
    """What DescribeAlarmHistory tells, oldest first."""

    def __init__(self) -> None:
        self._items: deque[tuple[Caller, str, str, float, str, str, Document]] = deque(maxlen=_KEPT_ITEMS)

    def add(self, alarm: Alarm, at_s: float, kind: str, summary: str, data: Document) -> None:
        alarm_type = "MetricAlarm" if alarm.rule is None else "CompositeAlarm"
        self._items.append((alarm.caller, alarm.name, alarm_type, at_s, kind, summary, data))

    def rows(self, caller: Caller, clock: CloudClock) -> list[Document]:
        return [
            {
                "AlarmName": name,
                "AlarmType": alarm_type,
                "Timestamp": clock.wall(at_s),
                "HistoryItemType": kind,
                "HistorySummary": summary,
                "HistoryData": json.dumps(data),
            }
            for owner, name, alarm_type, at_s, kind, summary, data in list(self._items)
            if owner.shares_place_with(caller)
        ]


class Evaluator:
    """Evaluates alarms on a store's data and calls their actions."""

    def __init__(
        self, store: MetricStore, clock: CloudClock, history: History, *, invoke: Invoke, publish: Publish
    ) -> None:
        self._store, self._clock, self._history = store, clock, history
        self._invoke, self._publish = invoke, publish

    def evaluate(self, alarms: Iterable[Alarm]) -> None:
        """All alarms that are due; composite ones after those they look at."""
        now_s = self._clock.now_s()
        known = list(alarms)
        for alarm in known:
            if alarm.watch is not None and now_s >= alarm.due_s:
                self._evaluate(alarm, alarm.watch, now_s)
        self.evaluate_composites(known)

    def move(self, alarm: Alarm, state: State, reason: str, data: Document) -> None:
        """Set a state and call its actions; nothing is called when it is the present one."""
        now_s = self._clock.now_s()
        alarm.updated_s = now_s
        if state == alarm.state:
            return
        before = {"stateValue": alarm.state, "stateReason": alarm.reason}
        self._history.add(
            alarm,
            now_s,
            "StateUpdate",
            f"Alarm updated from {alarm.state} to {state}",
            {"version": "1.0", "oldState": before, "newState": {"stateValue": state, "stateReason": reason}},
        )
        log.info("alarm %s: %s to %s: %s", alarm.name, alarm.state, state, reason)
        alarm.before = alarm.state
        alarm.state, alarm.reason, alarm.reason_data, alarm.changed_s = state, reason, data, now_s
        self._act(alarm, now_s, changed=True)

    def _evaluate(self, alarm: Alarm, watch: Watch, now_s: float) -> None:
        every_s = min(_EVERY_S, float(watch.period_s))
        alarm.due_s = (now_s // every_s + 1) * every_s
        edges_s = watch.edges_s(now_s)
        points = watch.queries.points(self._store, edges_s, self._clock.speed)[watch.returned]
        state = watch.state_of(points, alarm.state)
        told = [(edge_s, point) for edge_s, point in zip(edges_s, points, strict=False) if point is not None]
        told = told[-watch.evaluation :]
        alarm.points = tuple(point for _, point in told)
        alarm.oldest_s, alarm.newest_s = (told[0][0], told[-1][0]) if told else (None, None)
        data = {
            "version": "1.0",
            "period": watch.period_s,
            "recentDatapoints": alarm.points,
            "threshold": watch.threshold,
        }
        if state != alarm.state:
            self.move(alarm, state, _reason(watch, points, state), data)
        elif now_s - alarm.acted_s >= _REPEAT_S - 1e-6:
            alarm.reason_data = data
            self._act(alarm, now_s, changed=False)

    def evaluate_composites(self, alarms: Sequence[Alarm]) -> None:
        """As often as there are composites, so that one that looks at another sees its new state."""
        composites = [alarm for alarm in alarms if alarm.rule is not None]
        states = {(one.caller.account, one.caller.region, one.name): one for one in alarms}
        for _ in composites:
            moved = False
            for alarm in composites:
                assert alarm.rule is not None
                caller = alarm.caller

                def state_of(name: str, caller: Caller = caller) -> str:
                    found = states.get((caller.account, caller.region, name))
                    return found.state if found else "INSUFFICIENT_DATA"

                state: State = "ALARM" if alarm.rule.holds(state_of) else "OK"
                if state != alarm.state:
                    told = ", ".join(f"{name} is {state_of(name)}" for name in sorted(alarm.rule.alarms))
                    self.move(alarm, state, f"AlarmRule evaluated to {state}: {told}", {})
                    moved = True
            if not moved:
                return

    def _act(self, alarm: Alarm, now_s: float, *, changed: bool) -> None:
        """Call the actions of the alarm's state: policies when it changed and while it lasts, topics once."""
        for action in alarm.actions:
            try:
                if ":sns:" in action:
                    if changed:
                        self._publish(alarm.caller, action, *self._words(alarm))
                        self._acted(alarm, now_s, action, "Successfully executed action")
                    continue
                alarm.acted_s = now_s
                threshold = alarm.watch.threshold if alarm.watch else None
                breach = Breach(alarm.name, alarm.state, threshold, alarm.points, alarm.oldest_s, alarm.newest_s)
                self._invoke(action, breach)
                if changed:
                    self._acted(alarm, now_s, action, "Successfully executed action")
            except Exception as error:  # an action that fails must not stop the other alarms
                log.warning("alarm %s could not call %s: %s", alarm.name, action, error)
                self._acted(alarm, now_s, action, f"Failed to execute action: {error}")

    def _acted(self, alarm: Alarm, now_s: float, action: str, summary: str) -> None:
        self._history.add(
            alarm, now_s, "Action", f"{summary}: {action}", {"actionState": summary, "notificationResource": action}
        )

    def _words(self, alarm: Alarm) -> tuple[str, str]:
        """Subject and message of a notification."""
        subject = f'{alarm.state}: "{alarm.name}" in {alarm.caller.region}'[:100]
        actions = {name: list(alarm.request.get(name) or ()) for name in ACTIONS_OF.values()}
        message = {
            "AlarmName": alarm.name,
            "AlarmDescription": alarm.request.get("AlarmDescription"),
            "AWSAccountId": alarm.caller.account,
            "AlarmConfigurationUpdatedTimestamp": self._clock.wall(alarm.configured_s).isoformat(),
            "NewStateValue": alarm.state,
            "NewStateReason": alarm.reason,
            "StateChangeTime": self._clock.wall(alarm.changed_s).isoformat(),
            "Region": alarm.caller.region,
            "AlarmArn": alarm.arn,
            "OldStateValue": alarm.before,
            **actions,
            **(
                {"Trigger": _trigger(alarm.request)}
                if alarm.rule is None
                else {"AlarmRule": alarm.request["AlarmRule"]}
            ),
        }
        return subject, json.dumps(message)


def _trigger(request: Document) -> Document:
    """What a metric alarm watches, as notifications tell it."""
    told = {name: request[name] for name in _TRIGGER if name in request}
    told["Dimensions"] = [{"value": one["Value"], "name": one["Name"]} for one in request.get("Dimensions") or ()]
    told["EvaluateLowSampleCountPercentile"] = request.get("EvaluateLowSampleCountPercentile", "")
    if "Statistic" in request:
        told |= {"StatisticType": "Statistic", "Statistic": _STATISTIC_WORDS.get(request["Statistic"], "")}
    elif "ExtendedStatistic" in request:
        told |= {"StatisticType": "ExtendedStatistic", "ExtendedStatistic": request["ExtendedStatistic"]}
    return told


_TRIGGER = (
    "MetricName", "Namespace", "Unit", "Period", "EvaluationPeriods", "DatapointsToAlarm", "ComparisonOperator",
    "Threshold", "TreatMissingData", "Metrics",
)  # fmt: skip
_STATISTIC_WORDS = {
    "Average": "AVERAGE",
    "Sum": "SUM",
    "Minimum": "MINIMUM",
    "Maximum": "MAXIMUM",
    "SampleCount": "SAMPLE_COUNT",
}
_SAID = {
    "GreaterThanThreshold": "greater than",
    "GreaterThanOrEqualToThreshold": "greater than or equal to",
    "LessThanThreshold": "less than",
    "LessThanOrEqualToThreshold": "less than or equal to",
}


def _reason(watch: Watch, points: Points, state: State) -> str:
    """In AWS's words where they were recorded."""
    looked_at = points[-watch.evaluation :]
    present = [point for point in looked_at if point is not None]
    missing = watch.evaluation - len(present)
    if state == "INSUFFICIENT_DATA":
        return f"Insufficient Data: {watch.evaluation} datapoints were unknown."
    treated = {"breaching": "Breaching", "notBreaching": "NonBreaching"}.get(watch.missing)
    if not present and treated:
        return (
            f"Threshold Crossed: no datapoints were received for {watch.evaluation} periods and {missing} missing "
            f"datapoints were treated as [{treated}]."
        )
    values = ", ".join(str(float(value)) for value in reversed(present))
    compared = f"{_SAID[watch.comparison]} the threshold ({watch.threshold})"
    if watch.to_alarm == watch.evaluation == 1 and present:
        verb = "was" if state == "ALARM" else "was not"
        return f"Threshold Crossed: 1 datapoint [{values}] {verb} {compared}."
    breaching = sum(map(watch.breaching, present))
    return (
        f"Threshold Crossed: {breaching} out of the last {watch.evaluation} datapoints [{values}] were {compared} "
        f"(minimum {watch.to_alarm} for OK -> ALARM transition; missing data {watch.missing})."
    )
