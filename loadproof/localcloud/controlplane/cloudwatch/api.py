"""CloudWatch's operations on alarms. What is not here (dashboards) is moto's."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable

from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.cloudwatch.alarms import Alarm, State, watch_of
from loadproof.localcloud.controlplane.cloudwatch.evaluation import Evaluator, History, Invoke, Publish
from loadproof.localcloud.controlplane.cloudwatch.expressions import refuse
from loadproof.localcloud.controlplane.cloudwatch.metric_operations import INVALID_VALUE, MetricOperations, seconds
from loadproof.localcloud.controlplane.cloudwatch.metrics import MetricStore, dimensions_of
from loadproof.localcloud.controlplane.cloudwatch.rules import parse_rule
from loadproof.localcloud.wire import AwsError, Caller, Params, Regional, add_tags, key, paged, tag_map
from loadproof.wire.documents import Document

_ACTION_LISTS = ("AlarmActions", "OKActions", "InsufficientDataActions")
_SET_STATE_HOLDS_S = 5.0  # a set state outlasts the next evaluation, when that would come at once


class CloudWatchApi(MetricOperations):
    """All operations on one store. `invoke` calls a scaling policy, `publish` a topic."""

    def __init__(self, store: MetricStore, clock: CloudClock, *, invoke: Invoke, publish: Publish) -> None:
        super().__init__(store, clock)
        self._lock = threading.RLock()
        self._alarms = Regional[Alarm]()
        self._tags: dict[str, dict[str, str]] = {}
        self._history = History()
        self._evaluator = Evaluator(store, clock, self._history, invoke=invoke, publish=publish)

    @property
    def watched(self) -> bool:
        """Whether there is any alarm to evaluate."""
        return bool(self._alarms)

    def evaluate(self) -> None:
        """Bring every alarm that is due up to now, and call the actions of those that changed."""
        with self._lock:
            alarms = list(self._alarms.values())
        self._evaluator.evaluate(alarms)

    def state(self, caller: Caller, name: str) -> State | None:
        """The state of one alarm; None where there is none of that name."""
        alarm = self._alarms.named(caller, name)
        return alarm.state if alarm else None

    def put(self, caller: Caller, alarm: Document) -> str:
        """Create one alarm; returns its ARN."""
        self.PutMetricAlarm(caller, alarm)
        return caller.arn("cloudwatch", f"alarm:{alarm['AlarmName']}")

    def acting_on(self, caller: Caller, policy_arn: str) -> list[dict[str, str]]:
        """Names and ARNs of the alarms that name a policy as an action, whatever their state."""
        return [
            {"AlarmName": alarm.name, "AlarmARN": alarm.arn}
            for alarm in self._of(caller)
            if any(policy_arn in (alarm.request.get(actions) or ()) for actions in _ACTION_LISTS)
        ]

    def delete(self, caller: Caller, names: Iterable[str]) -> None:
        """Those of the alarms that are there."""
        with self._lock:
            for name in names:
                alarm = self._alarms.pop(key(caller, name), None)
                if alarm is not None:
                    self._tags.pop(alarm.arn, None)
                    self._history.add(alarm, self._clock.now_s(), "ConfigurationUpdate", f'Alarm "{name}" deleted', {})

    def PutMetricAlarm(self, caller: Caller, params: Params) -> None:  # noqa: N802
        watch = watch_of(caller, params)
        alarm = self._configured(caller, params)
        alarm.watch, alarm.rule = watch, None

    def PutCompositeAlarm(self, caller: Caller, params: Params) -> None:  # noqa: N802
        rule = parse_rule(params["AlarmRule"])
        if params.get("ActionsSuppressor"):
            raise AwsError("UnsupportedOperation", "The local cloud does not provide ActionsSuppressor.")
        missing = sorted(name for name in rule.alarms if self.state(caller, name) is None)
        if missing:
            raise refuse(f"AlarmRule names alarms that do not exist: {', '.join(missing)}.")
        alarm = self._configured(caller, params)
        alarm.watch, alarm.rule = None, rule

    def DescribeAlarms(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        names, prefix = params.get("AlarmNames"), params.get("AlarmNamePrefix", "")
        kinds = params.get("AlarmTypes") or ["MetricAlarm"]
        if names and prefix:
            raise refuse("AlarmNames and AlarmNamePrefix cannot be used together.")
        by_action = params.get("ActionPrefix", "")
        found = [
            alarm
            for alarm in sorted(self._of(caller), key=lambda one: one.name)
            if (not names or alarm.name in names)
            and alarm.name.startswith(prefix)
            and alarm.state == params.get("StateValue", alarm.state)
            and ("MetricAlarm" if alarm.rule is None else "CompositeAlarm") in kinds
            and (not by_action or any(one.startswith(by_action) for one in alarm.request.get("AlarmActions") or ()))
        ]
        shown = paged(found, params, "all", 100, "MaxRecords")
        page = {
            "MetricAlarms": [self._described(alarm) for alarm in shown["all"] if alarm.rule is None],
            "CompositeAlarms": [self._described(alarm) for alarm in shown["all"] if alarm.rule is not None],
        }
        return {**page, **({"NextToken": shown["NextToken"]} if "NextToken" in shown else {})}

    def DescribeAlarmsForMetric(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        rows = [
            self._described(alarm)
            for alarm in self._of(caller)
            if alarm.request.get("MetricName") == params["MetricName"]
            and alarm.request.get("Namespace") == params["Namespace"]
            and dimensions_of(alarm.request.get("Dimensions")) == dimensions_of(params.get("Dimensions"))
        ]
        return {"MetricAlarms": rows}

    def DescribeAlarmHistory(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        rows = self._history.rows(caller, self._clock)
        start_s = seconds(params["StartDate"]) if "StartDate" in params else float("-inf")
        end_s = seconds(params["EndDate"]) if "EndDate" in params else float("inf")
        found = [
            row
            for row in rows
            if row["AlarmName"] == params.get("AlarmName", row["AlarmName"])
            and row["HistoryItemType"] == params.get("HistoryItemType", row["HistoryItemType"])
            and row["AlarmType"] in (params.get("AlarmTypes") or (row["AlarmType"],))
            and start_s <= row["Timestamp"].timestamp() <= end_s
        ]
        if params.get("ScanBy", "TimestampDescending") == "TimestampDescending":
            found.reverse()
        return paged(found, params, "AlarmHistoryItems", 100, "MaxRecords")

    def SetAlarmState(self, caller: Caller, params: Params) -> None:  # noqa: N802
        """The state holds for seconds, until an evaluation finds another; its actions are called at once."""
        alarm = self._alarm(caller, params["AlarmName"])
        try:
            data = json.loads(params.get("StateReasonData") or "{}")
        except ValueError:
            raise AwsError("InvalidFormat", "StateReasonData is not JSON.") from None
        alarm.points = tuple(data.get("recentDatapoints") or ())
        alarm.oldest_s = alarm.newest_s = None
        self._evaluator.move(alarm, params["StateValue"], params["StateReason"], data)
        alarm.due_s = max(alarm.due_s, self._clock.now_s() + _SET_STATE_HOLDS_S)
        with self._lock:
            alarms = list(self._alarms.values())
        self._evaluator.evaluate_composites(alarms)

    def DeleteAlarms(self, caller: Caller, params: Params) -> None:  # noqa: N802
        names = set(params["AlarmNames"])
        for alarm in self._of(caller):
            needed = names & alarm.rule.alarms if alarm.rule and alarm.name not in names else ()
            if needed:
                raise refuse(f"Composite alarm {alarm.name} looks at {', '.join(sorted(needed))}: delete it first.")
        self.delete(caller, names)

    def EnableAlarmActions(self, caller: Caller, params: Params) -> None:  # noqa: N802
        self._enable(caller, params["AlarmNames"], True)

    def DisableAlarmActions(self, caller: Caller, params: Params) -> None:  # noqa: N802
        self._enable(caller, params["AlarmNames"], False)

    def ListTagsForResource(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        tags = self._tags.get(params["ResourceARN"], {})
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    def TagResource(self, caller: Caller, params: Params) -> None:  # noqa: N802
        add_tags(self._tagged(params["ResourceARN"]), tag_map(params["Tags"], INVALID_VALUE), INVALID_VALUE)

    def UntagResource(self, caller: Caller, params: Params) -> None:  # noqa: N802
        for name in params["TagKeys"]:
            self._tagged(params["ResourceARN"]).pop(name, None)

    def _configured(self, caller: Caller, params: Params) -> Alarm:
        """The alarm of that name with this configuration; a changed one keeps its state until it is evaluated."""
        for actions in _ACTION_LISTS:
            for action in params.get(actions) or ():
                _check_action(action, caller.region)
        name, now_s, tags = params["AlarmName"], self._clock.now_s(), tag_map(params.get("Tags"), INVALID_VALUE)
        arn = caller.arn("cloudwatch", f"alarm:{name}")
        with self._lock:
            alarm = self._alarms.named(caller, name)
            if alarm is None:
                alarm = self._alarms[key(caller, name)] = Alarm(caller, arn, params, now_s, updated_s=now_s)
                alarm.changed_s = now_s
                if tags:
                    self._tags[arn] = tags
                summary = f'Alarm "{name}" created'
            else:
                alarm.request, alarm.configured_s, alarm.due_s = params, now_s, 0.0
                summary = f'Alarm "{name}" updated'
            alarm.actions_enabled = bool(params.get("ActionsEnabled", True))
        self._history.add(alarm, now_s, "ConfigurationUpdate", summary, {"type": "Update"})
        return alarm

    def _described(self, alarm: Alarm) -> Document:
        shown = {name: value for name, value in alarm.request.items() if name != "Tags"}
        return {
            **shown,
            "AlarmArn": alarm.arn,
            "ActionsEnabled": alarm.actions_enabled,
            **{actions: shown.get(actions) or [] for actions in _ACTION_LISTS},
            **({"Dimensions": shown.get("Dimensions") or []} if alarm.rule is None else {}),
            "StateValue": alarm.state,
            "StateReason": alarm.reason,
            "StateReasonData": json.dumps(alarm.reason_data),
            "StateUpdatedTimestamp": self._clock.wall(alarm.updated_s),
            "StateTransitionedTimestamp": self._clock.wall(alarm.changed_s),
            "AlarmConfigurationUpdatedTimestamp": self._clock.wall(alarm.configured_s),
        }

    def _enable(self, caller: Caller, names: Iterable[str], enabled: bool) -> None:
        for name in names:
            alarm = self._alarms.named(caller, name)
            if alarm is not None:
                alarm.actions_enabled = enabled

    def _of(self, caller: Caller) -> list[Alarm]:
        with self._lock:
            return self._alarms.of(caller)

    def _alarm(self, caller: Caller, name: str) -> Alarm:
        alarm = self._alarms.named(caller, name)
        if alarm is None:
            raise AwsError("ResourceNotFound", f"Alarm {name} does not exist.", 404)
        return alarm

    def _tagged(self, arn: str) -> dict[str, str]:
        if not any(alarm.arn == arn for alarm in self._alarms.values()):
            raise AwsError("ResourceNotFoundException", f"Unknown resource {arn}.", 404)
        return self._tags.setdefault(arn, {})


def _check_action(action: str, region: str) -> None:
    """An alarm that could only stay silent is refused, and a topic of another region."""
    service, place = action.split(":")[2:3], action.split(":")[3:4]
    if service == ["sns"] and place != [region]:
        raise refuse(f"Invalid region {''.join(place)} specified. Only {region} is supported.")
    if service not in (["autoscaling"], ["sns"]):
        raise refuse(
            f"Alarm action {action}: the local cloud calls scaling policies of Application Auto Scaling and SNS topics."
        )
