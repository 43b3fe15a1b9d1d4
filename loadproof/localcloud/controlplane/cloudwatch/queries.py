"""MetricDataQueries: metrics and expressions that refer to each other by id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from loadproof.localcloud.controlplane.cloudwatch.expressions import (
    Context,
    Node,
    Points,
    Value,
    names_in,
    parse,
    refuse,
    result_of,
)
from loadproof.localcloud.controlplane.cloudwatch.metrics import MetricKey, MetricStore, dimensions_of
from loadproof.localcloud.controlplane.cloudwatch.statistics import check_statistic
from loadproof.localcloud.wire import Caller
from loadproof.wire.documents import Document

# Statistics that count: at a speed of N they are taken over 1/N of the time and stand for N times as much.
_COUNTING = ("Sum", "SampleCount")


@dataclass(frozen=True, slots=True)
class MetricQuery:
    """One metric at one statistic."""

    id: str
    key: MetricKey
    statistic: str
    period_s: int
    unit: str | None = None  # data of another unit do not count


@dataclass(frozen=True, slots=True)
class ExpressionQuery:
    """Metric math over the other queries."""

    id: str
    node: Node
    text: str


@dataclass(frozen=True, slots=True)
class Queries:
    """Checked queries. `returned` are the ids whose values are asked for, in the order given."""

    metrics: tuple[MetricQuery, ...]
    expressions: tuple[ExpressionQuery, ...]
    returned: tuple[str, ...]

    @property
    def period_s(self) -> int:
        """The one period of all metrics."""
        return self.metrics[0].period_s

    def points(self, store: MetricStore, edges_s: Sequence[float], speed: float = 1.0) -> dict[str, Points]:
        """Values between the edges (the cloud's time), by id; those of all queries, returned or not."""
        values: dict[str, Value] = {}
        for metric in self.metrics:
            found = store.points(metric.key, edges_s, metric.statistic, metric.unit)
            if speed != 1 and metric.statistic in _COUNTING:
                found = [None if point is None else point * speed for point in found]
            values[metric.id] = found
        context = Context(values, tuple(one.id for one in self.metrics), len(edges_s) - 1, self.period_s)
        for expression in self.expressions:
            values[expression.id] = result_of(expression.node, context)
        return values  # type: ignore[return-value]


def metric_query(
    caller: Caller, query_id: str, metric: Document, statistic: str, period_s: int, unit: str | None = None
) -> MetricQuery:
    """One metric of the caller's account and region. Raises for a statistic or period that is not computed here."""
    check_statistic(statistic)
    if period_s not in (1, 5, 10, 20, 30) and (period_s < 60 or period_s % 60):
        raise refuse(f"Period must be 10, 20, 30 or a multiple of 60, found {period_s}.")
    key = MetricKey(
        caller.account,
        caller.region,
        metric["Namespace"],
        metric["MetricName"],
        dimensions_of(metric.get("Dimensions")),
    )
    return MetricQuery(query_id, key, statistic, period_s, unit)


def queries_of(caller: Caller, rows: Sequence[Document]) -> Queries:
    """Raises ValidationError for ids that are not there or not unique, and for what is not computed here."""
    metrics = tuple(_metric(caller, row) for row in rows if row.get("MetricStat"))
    expressions = [
        ExpressionQuery(row["Id"], parse(row["Expression"]), row["Expression"]) for row in rows if row.get("Expression")
    ]
    ids = [metric.id for metric in metrics] + [expression.id for expression in expressions]
    if len(ids) != len(rows):
        raise refuse("Each query needs either a MetricStat or an Expression.")
    if len(set(ids)) != len(ids):
        raise refuse(f"The ids of the queries must be unique, found {', '.join(ids)}.")
    for query_id in ids:
        if not re.fullmatch(r"[a-z]\w*", query_id):
            raise refuse(
                f"The value {query_id} for parameter MetricDataQueries.member.Id is not matching the expected "
                "pattern ^[a-z][a-zA-Z0-9_]*$."
            )
    if not metrics:
        raise refuse("At least one query must have a MetricStat.")
    returned = tuple(row["Id"] for row in rows if row.get("ReturnData", True))
    queries = Queries(metrics, tuple(_in_order(metrics, expressions)), returned)
    queries.points(MetricStore(), [0.0, 1.0])  # what cannot be computed shows here, not at the first evaluation
    return queries


def check_one_period(queries: Queries) -> None:
    """Metric math joins values of the same periods only."""
    periods = sorted({metric.period_s for metric in queries.metrics})
    if len(periods) > 1:
        raise refuse(
            "The local cloud computes with metrics of one period only, found "
            + ", ".join(f"{period_s} s" for period_s in periods)
            + "."
        )


def _metric(caller: Caller, row: Document) -> MetricQuery:
    stat = row["MetricStat"]
    if row.get("AccountId", caller.account) != caller.account:
        raise refuse(f"The local cloud reads metrics of the caller's own account only, found {row['AccountId']}.")
    return metric_query(caller, row["Id"], stat["Metric"], stat["Stat"], int(stat["Period"]), stat.get("Unit"))


def _in_order(metrics: Sequence[MetricQuery], expressions: Sequence[ExpressionQuery]) -> list[ExpressionQuery]:
    """Expressions after those they refer to. Raises ValidationError for ids that do not exist or refer in a circle."""
    known = {metric.id for metric in metrics}
    waiting, ordered = list(expressions), []
    everything = known | {expression.id for expression in expressions}
    for expression in expressions:
        missing = names_in(expression.node) - everything - {"*"}
        if missing:
            raise refuse(
                f"Expression '{expression.text}' names {', '.join(sorted(missing))}, which no query has as Id."
            )
    while waiting:
        ready = [one for one in waiting if names_in(one.node) - {"*"} <= known]
        if not ready:
            raise refuse(f"Expressions refer to each other in a circle: {', '.join(one.id for one in waiting)}.")
        ordered += ready
        known |= {one.id for one in ready}
        waiting = [one for one in waiting if one not in ready]
    return ordered
