"""What PutMetricData takes and refuses, and the labels that GetMetricData gives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loadproof.localcloud.controlplane.cloudwatch.queries import MetricQuery
from loadproof.localcloud.wire import AwsError

_MOST_DATA, _MOST_VALUES = 1000, 150
_LARGEST = 2.0**360
_OLDEST_S, _NEWEST_S = 14 * 86400.0, 2 * 3600.0
_RESOLUTIONS = (1, 60)
_KINDS = ("Value", "Values", "StatisticValues")

Sample = list[tuple[float, float]]  # values, each with how often it came


def check_namespace(namespace: str) -> None:
    if namespace.startswith("AWS/"):
        raise _invalid("The value AWS/ for parameter Namespace is invalid.")


def check_dimensions(rows: Iterable[Mapping[str, str]], number: int) -> None:
    """Names and values are ASCII and more than blanks; no name begins with a colon, none comes twice."""
    given = list(rows)
    names = [row.get("Name") for row in given]
    if len(set(names)) != len(names):
        raise _invalid(f"The collection MetricData.member.{number}.Dimensions must not contain a name twice.")
    for position, row in enumerate(given, 1):
        for part, text in row.items():
            if not text.strip() or not text.isascii() or (part == "Name" and text.startswith(":")):
                place = f"MetricData.member.{number}.Dimensions.member.{position}.{part}"
                raise _invalid(f"The value {text} for parameter {place} is invalid.")


def check_amount(data: Sequence[Any]) -> None:
    if not data:
        raise AwsError("MissingParameter", "The parameter MetricData is required.")
    if len(data) > _MOST_DATA:
        raise _invalid(f"The collection MetricData must not have a size greater than {_MOST_DATA}.")


def sample_of(datum: Mapping[str, Any], number: int) -> Sample:
    """The values of the datum at a place in the request. Raises AwsError for what CloudWatch refuses."""
    place = f"MetricData.member.{number}"
    given = [kind for kind in _KINDS if kind in datum]
    if len(given) > 1:
        raise AwsError(
            "InvalidParameterCombination",
            f"The parameters {place}.{given[0]} and {place}.{given[1]} are mutually exclusive and you have "
            "specified both.",
        )
    if not given:
        raise AwsError(
            "InvalidParameterCombination", f"At least one of the parameters {place}.Value must be specified."
        )
    if datum.get("StorageResolution", _RESOLUTIONS[-1]) not in _RESOLUTIONS:
        raise _invalid(f"The value {datum['StorageResolution']} for parameter {place}.StorageResolution is invalid.")
    sample = _summarised(datum["StatisticValues"]) if given == ["StatisticValues"] else _told(datum, place)
    for value, count in sample:
        if not math.isfinite(value) or abs(value) > _LARGEST:
            raise _invalid(f"The value {value} for parameter {place}.Value is invalid.")
        if not math.isfinite(count) or count < 0:
            raise _invalid(f"The value {count} for parameter {place}.Counts is invalid.")
    return sample


def check_age(age_s: float) -> None:
    """How long ago, by the wall's clock, a datum says that it was taken."""
    if age_s > _OLDEST_S or age_s < -_NEWEST_S:
        raise _invalid("The parameter Timestamp must be within the past two weeks and the next two hours.")


def _told(datum: Mapping[str, Any], place: str) -> Sample:
    values = datum["Values"] if "Values" in datum else [datum["Value"]]
    counts = datum.get("Counts") or [1.0] * len(values)
    if len(values) != len(counts):
        raise _invalid(f"The parameters {place}.Values and {place}.Counts must be of the same size.")
    if len(values) > _MOST_VALUES:
        raise _invalid(f"The collection {place}.Values must not have a size greater than {_MOST_VALUES}.")
    return [(float(value), float(count)) for value, count in zip(values, counts, strict=True)]


def _summarised(given: Mapping[str, Any]) -> Sample:
    """A sample with the same sum, count, least and most; what lay between is not known."""
    count, total = float(given["SampleCount"]), float(given["Sum"])
    low, high = float(given["Minimum"]), float(given["Maximum"])
    if count <= 0:
        raise _invalid(f"The value {count} for parameter StatisticValues.SampleCount must be greater than 0.")
    if low > high:
        raise _invalid(
            f"The parameter StatisticValues.Minimum ({low}) must not exceed StatisticValues.Maximum ({high})."
        )
    if count < 2:
        return [(total, 1.0)]
    if count == 2:
        return [(low, 1.0), (high, 1.0)]
    return [(low, 1.0), (high, 1.0), ((total - low - high) / (count - 2), count - 2)]


def labels_of(metrics: Iterable[MetricQuery]) -> dict[str, str]:
    """A metric's name, with its statistic and its period where those of the request differ."""
    rows = list(metrics)
    statistics, periods = {one.statistic for one in rows}, {one.period_s for one in rows}
    return {
        one.id: " ".join(
            [
                one.key.name,
                *([one.statistic] if len(statistics) > 1 else []),
                *([str(one.period_s)] if len(periods) > 1 else []),
            ]
        )
        for one in rows
    }


def _invalid(message: str) -> AwsError:
    return AwsError("InvalidParameterValue", message)
