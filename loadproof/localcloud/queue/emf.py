"""Embedded Metric Format: a line of JSON that a function prints and CloudWatch reads as metrics. Pure.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from loadproof.wire.documents import Document

_MOST_DIMENSIONS = 30
_MOST_VALUES = 100


class Datum(NamedTuple):
    """One value of one metric; `at_ms` is Unix time."""

    namespace: str
    name: str
    value: float
    dimensions: Mapping[str, str]
    unit: str
    at_ms: float


def metrics_of(line: str | bytes) -> list[Datum]:
    """The metrics in one line of output: none for a line that is not of the format. As on AWS, nothing is an error."""
    try:
        document = json.loads(line)
        about = document["_aws"]
        return list(_data(document, float(about["Timestamp"]), about["CloudWatchMetrics"]))
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return []


def _data(document: Document, at_ms: float, directives: list[Document]) -> Iterator[Datum]:
    """Every value of every metric, once for each set of dimensions."""
    for directive in directives:
        for names in directive.get("Dimensions", [[]]):
            dimensions = {name: str(document[name]) for name in names[:_MOST_DIMENSIONS]}
            for metric in directive["Metrics"]:
                found = document[metric["Name"]]
                values = found[:_MOST_VALUES] if isinstance(found, list) else [found]
                for value in values:
                    unit = metric.get("Unit", "None")
                    yield Datum(directive["Namespace"], metric["Name"], float(value), dimensions, unit, at_ms)
