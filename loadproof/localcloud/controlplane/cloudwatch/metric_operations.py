"""CloudWatch's operations on metrics: data put, read, listed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from loadproof.localcloud.clock import CloudClock
from loadproof.localcloud.controlplane.cloudwatch.data import (
    check_age,
    check_amount,
    check_dimensions,
    check_namespace,
    labels_of,
    sample_of,
)
from loadproof.localcloud.controlplane.cloudwatch.expressions import refuse
from loadproof.localcloud.controlplane.cloudwatch.metrics import Dimensions, MetricKey, MetricStore, dimensions_of
from loadproof.localcloud.controlplane.cloudwatch.queries import (
    MetricQuery,
    Queries,
    check_one_period,
    metric_query,
    queries_of,
)
from loadproof.localcloud.wire import AwsError, Caller, Params, paged
from loadproof.wire.documents import Document

INVALID_VALUE = "InvalidParameterValue"
_MOST_POINTS = 100_800  # of one GetMetricData
_MOST_QUERIES = 500
_MOST_DATAPOINTS = 1440  # of one GetMetricStatistics


class MetricOperations:
    """Methods carry the operations' names."""

    def __init__(self, store: MetricStore, clock: CloudClock) -> None:
        self._store = store
        self._clock = clock

    def PutMetricData(self, caller: Caller, params: Params) -> None:  # noqa: N802
        namespace, data = params["Namespace"], params.get("MetricData") or ()
        check_namespace(namespace)
        check_amount(data)
        taken = []
        for number, datum in enumerate(data, 1):
            sample, at_s = sample_of(datum, number), self._clock.now_s()
            if "Timestamp" in datum:
                told_s = seconds(datum["Timestamp"])
                check_age(self._clock.wall(self._clock.now_s()).timestamp() - told_s)
                at_s = self._clock.cloud_s(told_s)
            check_dimensions(datum.get("Dimensions") or (), number)
            dimensions = dimensions_of(datum.get("Dimensions"))
            key = MetricKey(caller.account, caller.region, namespace, datum["MetricName"], dimensions)
            taken.append((key, at_s, sample, datum.get("Unit", "None")))
        for key, at_s, sample, unit in taken:
            for value, count in sample:
                self._store.put(key, at_s, value, count, unit)

    def GetMetricData(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        asked = len(params["MetricDataQueries"])
        if asked > _MOST_QUERIES:
            raise refuse(f"The collection MetricDataQueries must not have a size greater than {_MOST_QUERIES}.")
        queries = queries_of(caller, params["MetricDataQueries"])
        if queries.expressions:
            check_one_period(queries)
        start_s, end_s = _range(params)
        labels = {row["Id"]: row.get("Label") for row in params["MetricDataQueries"]}
        results = {
            metric.id: self._row(Queries((metric,), (), (metric.id,)), metric.id, metric.period_s, start_s, end_s)
            for metric in queries.metrics
        }
        for expression in queries.expressions:
            results[expression.id] = self._row(queries, expression.id, queries.period_s, start_s, end_s)
        names = labels_of(queries.metrics)
        several = {metric.id: self._several_units(metric, start_s, end_s) for metric in queries.metrics}
        if params.get("ScanBy", "TimestampDescending") == "TimestampDescending":
            results = {query_id: row[::-1] for query_id, row in results.items()}
        rows = [
            {
                "Id": query_id,
                "Label": labels[query_id] or names.get(query_id, query_id),
                "StatusCode": "Complete",
                "Timestamps": [at for at, _ in results[query_id]],
                "Values": [value for _, value in results[query_id]],
                **({"Messages": several[query_id]} if several.get(query_id) else {}),
            }
            for query_id in queries.returned
        ]
        return {"MetricDataResults": rows, "Messages": []}

    def GetMetricStatistics(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        start_s, end_s = _range(params, INVALID_VALUE)
        statistics = [*(params.get("Statistics") or ()), *(params.get("ExtendedStatistics") or ())]
        if not statistics:
            raise AwsError(
                "InvalidParameterCombination", "At least one of Statistics and ExtendedStatistics must be specified."
            )
        if params.get("Statistics") and params.get("ExtendedStatistics"):
            raise AwsError(
                "InvalidParameterCombination", "Statistics and ExtendedStatistics are mutually exclusive parameters."
            )
        period_s = int(params["Period"])
        _check_points(math.ceil((end_s - start_s) / period_s))
        found: dict[tuple[datetime, str], Document] = {}
        for statistic in statistics:
            query = metric_query(caller, "m", params, statistic, period_s, params.get("Unit"))
            for unit in [query.unit] if query.unit else self._units(query, start_s, end_s):
                of_unit = replace(query, unit=unit)
                for at, value in self._row(Queries((of_unit,), (), ("m",)), "m", period_s, start_s, end_s):
                    row = found.setdefault((at, unit), {"Timestamp": at, "Unit": unit})
                    if statistic.startswith("p"):
                        row.setdefault("ExtendedStatistics", {})[statistic] = value
                    else:
                        row[statistic] = value
        return {"Label": params["MetricName"], "Datapoints": list(found.values())}

    def ListMetrics(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        wanted = params.get("Dimensions") or ()
        recent_s = self._clock.now_s() - 3 * 3600 * self._clock.speed if params.get("RecentlyActive") else float("-inf")
        rows = [
            {
                "Namespace": key.namespace,
                "MetricName": key.name,
                "Dimensions": [{"Name": name, "Value": value} for name, value in key.dimensions],
            }
            for key, last_s in self._store.keys(caller.account, caller.region)
            if key.namespace == params.get("Namespace", key.namespace)
            and key.name == params.get("MetricName", key.name)
            and all(_has(key.dimensions, filter_) for filter_ in wanted)
            and last_s >= recent_s
        ]
        return paged(rows, params, "Metrics", 500)

    def _units(self, query: MetricQuery, start_s: float, end_s: float) -> list[str]:
        """The units of a metric's data in the wall's [start, end), its last period included."""
        until_s = end_s + query.period_s
        return self._store.units(query.key, self._clock.cloud_s(start_s - query.period_s), self._clock.cloud_s(until_s))

    def _several_units(self, query: MetricQuery, start_s: float, end_s: float) -> list[dict[str, str]]:
        """AWS's warning where data of several units came and none was asked for."""
        units = [] if query.unit else self._units(query, start_s, end_s)
        if len(units) < 2:
            return []
        return [{"Code": "MultipleUnits", "Value": f"Multiple units returned: '[{', '.join(units)}]'"}]

    def _row(
        self, queries: Queries, query_id: str, period_s: int, start_s: float, end_s: float
    ) -> list[tuple[datetime, float]]:
        """What one query found in the wall's periods that begin in [start, end): their beginnings and values."""
        first, last = int(start_s // period_s), int(-(-end_s // period_s))
        if last - first > _MOST_POINTS:
            raise refuse(f"The request asks for more than {_MOST_POINTS} periods; choose a longer Period.")
        edges_s = [self._clock.cloud_s(float(index * period_s)) for index in range(first, last + 1)]
        values = queries.points(self._store, edges_s)[query_id]
        return [
            (self._clock.wall(edge_s), value)
            for edge_s, value in zip(edges_s[:-1], values, strict=True)
            if value is not None
        ]


def _check_points(asked: int) -> None:
    if asked > _MOST_DATAPOINTS:
        raise AwsError(
            "InvalidParameterCombination",
            f"You have requested up to {asked} datapoints, which exceeds the limit of {_MOST_DATAPOINTS}. You may "
            "reduce the datapoints requested by increasing Period, or decreasing the time range.",
        )


def _range(params: Document, code: str = "ValidationError") -> tuple[float, float]:
    start_s, end_s = seconds(params["StartTime"]), seconds(params["EndTime"])
    if start_s >= end_s:
        raise AwsError(code, "The parameter StartTime must be less than the parameter EndTime.")
    return start_s, end_s


def _has(dimensions: Dimensions, wanted: Mapping[str, str]) -> bool:
    return any(name == wanted["Name"] and value == wanted.get("Value", value) for name, value in dimensions)


def seconds(value: str | float | datetime) -> float:
    """A timestamp as JSON (seconds) or the Query protocol (read into a datetime) brings it."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return float(value)
