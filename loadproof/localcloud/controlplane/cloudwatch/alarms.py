"""One alarm: what it watches, its state, and what a row of data points makes of it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from loadproof.localcloud.controlplane.cloudwatch.expressions import Points, refuse
from loadproof.localcloud.controlplane.cloudwatch.queries import (
    MetricQuery,
    Queries,
    check_one_period,
    metric_query,
    queries_of,
)
from loadproof.localcloud.controlplane.cloudwatch.rules import Rule
from loadproof.localcloud.wire import Caller, Params
from loadproof.wire.documents import Document

State = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]
ACTIONS_OF: Mapping[State, str] = {
    "OK": "OKActions",
    "ALARM": "AlarmActions",
    "INSUFFICIENT_DATA": "InsufficientDataActions",
}
# Periods looked at beyond the evaluation periods, so that late or missing data do not decide alone.
SPARE_PERIODS = 2
# FILL(m, REPEAT) may have to look further back for a value to repeat.
_SPARE_FOR_MATH = 10
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Create-alarm-on-metric-math-expression.html
_MOST_METRICS = 10
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}


@dataclass(slots=True)
class Alarm:
    """A metric alarm (`watch` set) or a composite one (`rule` set). Times are the cloud's."""

    caller: Caller
    arn: str
    request: Params
    configured_s: float
    watch: Watch | None = None
    rule: Rule | None = None
    state: State = "INSUFFICIENT_DATA"
    before: State = "INSUFFICIENT_DATA"  # the state that it came from
    reason: str = "Unchecked: Initial alarm creation"
    reason_data: Document = field(default_factory=dict)
    points: tuple[float, ...] = ()  # what the state was found by, oldest first
    oldest_s: float | None = None  # when the periods of the oldest and the newest point began
    newest_s: float | None = None
    updated_s: float = 0.0
    changed_s: float = 0.0
    actions_enabled: bool = True
    due_s: float = 0.0  # the next evaluation
    acted_s: float = 0.0  # when its scaling policies were last called

    @property
    def name(self) -> str:
        return str(self.request["AlarmName"])

    @property
    def actions(self) -> Sequence[str]:
        """What the present state calls."""
        if not self.actions_enabled:
            return ()
        return self.request.get(ACTIONS_OF[self.state]) or ()


@dataclass(frozen=True, slots=True)
class Watch:
    """What a metric alarm compares: the last of `returned` over `evaluation` periods, `to_alarm` of them breaching."""

    queries: Queries
    returned: str
    period_s: int
    evaluation: int
    to_alarm: int
    threshold: float
    comparison: str
    missing: str

    def breaching(self, value: float) -> bool:
        return _COMPARISONS[self.comparison](value, self.threshold)

    def edges_s(self, now_s: float) -> list[float]:
        """The bounds of the whole periods that are looked at, the last of them ending by now."""
        end = int(now_s // self.period_s)
        spare = _SPARE_FOR_MATH if self.queries.expressions else SPARE_PERIODS
        return [float(index * self.period_s) for index in range(end - self.evaluation - spare, end + 1)]

    def state_of(self, points: Points, now: State) -> State:
        """The state after the points (oldest first, missing ones None).

        With enough data the newest `evaluation` of them decide. Otherwise `missing` says what stands for the rest.
        An alarm whose few data all breach waits until the oldest is `to_alarm` periods old. Source: CloudWatch user
        guide, "Configuring how CloudWatch alarms treat missing data".
        """
        looked_at = points[-(self.evaluation + SPARE_PERIODS) :]
        present = [point for point in looked_at if point is not None][-self.evaluation :]
        breaching = sum(map(self.breaching, present))
        filled = self.evaluation - len(present)
        if self.missing == "breaching":
            breaching += filled
        if breaching >= self.to_alarm:
            return "ALARM"
        if breaching < len(present) or self.missing in ("breaching", "notBreaching"):
            return "OK"
        if self.missing == "ignore":
            return now
        if not present:
            return "INSUFFICIENT_DATA"
        newest = points[-self.evaluation :]
        oldest = next((len(newest) - index for index, point in enumerate(newest) if point is not None), 0)
        return "ALARM" if oldest >= self.to_alarm else now


def watch_of(caller: Caller, params: Params) -> Watch:
    """What PutMetricAlarm asks to watch. Raises ValidationError for what is not evaluated here."""
    if params["ComparisonOperator"] not in _COMPARISONS:
        raise refuse(f"The local cloud does not compare by {params['ComparisonOperator']} (anomaly detection).")
    if params.get("ThresholdMetricId") is not None:
        raise refuse("ThresholdMetricId is of alarms on anomaly detection models: Threshold must not be given with it.")
    if params.get("Threshold") is None:
        raise refuse("Threshold is required.")
    if bool(params.get("MetricName")) == bool(params.get("Metrics")):
        raise refuse("Exactly one of MetricName and Metrics is required.")
    queries = _queries(caller, params)
    evaluation = int(params["EvaluationPeriods"])
    to_alarm = int(params.get("DatapointsToAlarm") or evaluation)
    if to_alarm > evaluation:
        raise refuse("DatapointsToAlarm must be less than or equal to EvaluationPeriods.")
    if params.get("EvaluateLowSampleCountPercentile") not in (None, "evaluate", "ignore"):
        raise refuse("EvaluateLowSampleCountPercentile must be evaluate or ignore.")
    if params.get("EvaluateLowSampleCountPercentile") == "ignore":
        raise refuse("The local cloud does not provide EvaluateLowSampleCountPercentile ignore.")
    missing = params.get("TreatMissingData") or "missing"
    if missing not in ("breaching", "notBreaching", "ignore", "missing"):
        raise refuse(f"TreatMissingData must be breaching, notBreaching, ignore or missing, found {missing}.")
    days = 7 if queries.period_s >= 3600 else 1
    if queries.period_s * evaluation > days * 86400:
        raise refuse(
            f"Metrics cannot be checked across more than {days} day(s): EvaluationPeriods * Period is too large."
        )
    if len(params.get("Tags") or ()) > 50:
        raise refuse("An alarm takes up to 50 tags.")
    return Watch(
        queries,
        queries.returned[0],
        queries.period_s,
        evaluation,
        to_alarm,
        float(params["Threshold"]),
        params["ComparisonOperator"],
        missing,
    )


def _queries(caller: Caller, params: Params) -> Queries:
    if params.get("Metrics"):
        queries = queries_of(caller, params["Metrics"])
        if len(queries.metrics) > _MOST_METRICS:
            raise refuse(f"An alarm on metric math takes up to {_MOST_METRICS} metrics, found {len(queries.metrics)}.")
        check_one_period(queries)
        if len(queries.returned) != 1:
            raise refuse(f"Exactly one element of Metrics must return data, found {len(queries.returned)}.")
        return queries
    if params.get("Statistic") and params.get("ExtendedStatistic"):
        raise refuse("Statistic and ExtendedStatistic are mutually exclusive.")
    statistic = params.get("Statistic") or params.get("ExtendedStatistic")
    if not statistic or not params.get("Period") or not params.get("Namespace"):
        raise refuse("Namespace, Period and one of Statistic and ExtendedStatistic are required with MetricName.")
    query: MetricQuery = metric_query(caller, "m", params, statistic, int(params["Period"]), params.get("Unit"))
    return Queries((query,), (), ("m",))
