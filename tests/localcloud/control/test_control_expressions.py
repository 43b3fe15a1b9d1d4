"""CloudWatch's metric math, composite rules, statistics and missing data, each against values worked by hand."""

from __future__ import annotations

import pytest

from loadproof.localcloud.controlplane.cloudwatch.alarms import watch_of
from loadproof.localcloud.controlplane.cloudwatch.expressions import Context, Points, names_in, parse, result_of
from loadproof.localcloud.controlplane.cloudwatch.metrics import MetricKey, MetricStore
from loadproof.localcloud.controlplane.cloudwatch.queries import queries_of
from loadproof.localcloud.controlplane.cloudwatch.rules import parse_rule
from loadproof.localcloud.controlplane.cloudwatch.statistics import check_statistic, statistic_of
from loadproof.localcloud.wire import AwsError, Caller

CALLER = Caller("123456789012", "us-east-1", "AKIA")
A: Points = [1.0, None, 3.0]
B: Points = [10.0, 20.0, 0.0]


def result(expression: str) -> Points:
    return result_of(parse(expression), Context({"a": A, "b": B}, ("a", "b"), 3, 60.0))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a + b", [11.0, None, 3.0]),
        ("a / b", [0.1, None, None]),  # by zero: no point
        ("2 * b - 1", [19.0, 39.0, -1.0]),
        ("2 + 3 * 4 ^ 2", [50.0, 50.0, 50.0]),
        ("-(b - 4) / 2", [-3.0, -8.0, 2.0]),
        ("FILL(a, 0)", [1.0, 0.0, 3.0]),
        ("FILL(a, REPEAT)", [1.0, 1.0, 3.0]),
        ("FILL(a, b)", [1.0, 20.0, 3.0]),
        ("IF(b > 5, a, 7)", [1.0, None, 7.0]),
        ("IF(b > 5 AND b < 15, 1)", [1.0, None, None]),
        ("IF(a, 1, 0)", [1.0, None, 1.0]),
        ("b == 0 || b >= 20", [0.0, 1.0, 1.0]),
        ("MAX([a, b])", [10.0, 20.0, 3.0]),
        ("SUM(METRICS())", [11.0, 20.0, 3.0]),
        ("AVG([a, b])", [5.5, 20.0, 1.5]),
        ("b / MAX(b)", [0.5, 1.0, 0.0]),  # of one series: its largest value
        ("SUM(a) + MIN(b)", [4.0, 4.0, 4.0]),
        ("CEIL(b / 3)", [4.0, 7.0, 0.0]),
        ("ABS(0 - b) / PERIOD(b)", [10 / 60, 20 / 60, 0.0]),
        ("MAX([FILL(a, 0), TIME_SERIES(2)])", [2.0, 2.0, 3.0]),
    ],
)
def test_expression(expression: str, expected: Points) -> None:
    assert result(expression) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("ANOMALY_DETECTION_BAND(a, 2)", r"does not compute ANOMALY_DETECTION_BAND\(\); it computes ABS, AVG"),
        ("RATE(a)", r"does not compute RATE\(\)"),
        ("SEARCH('{AWS/SageMaker}', 'Sum')", "does not read `'{AWS/SageMaker}'"),
        ("FILL(a)", r"FILL\(\) takes 2 arguments"),
        ("a +", "found `the end`"),
        ("(a + b", r"expected `\)`"),
        ("a b", "did not expect `b`"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(expression: str, message: str) -> None:
    with pytest.raises(AwsError, match=message):
        parse(expression)


def test_several_series_are_no_alarm() -> None:
    with pytest.raises(AwsError, match="several time series"):
        result("[a, b]")
    assert names_in(parse("IF(a > 1, FILL(b, REPEAT), METRICS())")) == {"a", "b", "*"}


def stat(query_id: str, period_s: int = 60) -> dict[str, object]:
    metric = {"Namespace": "N", "MetricName": query_id}
    return {"Id": query_id, "MetricStat": {"Metric": metric, "Period": period_s, "Stat": "Sum"}, "ReturnData": False}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([stat("a"), {"Id": "e", "Expression": "a + c"}], "names c, which no query has as Id"),
        ([stat("a"), {"Id": "e", "Expression": "f"}, {"Id": "f", "Expression": "e"}], "in a circle: e, f"),
        ([stat("a"), stat("a")], "must be unique, found a, a"),
        ([{"Id": "e", "Expression": "1"}], "At least one query must have a MetricStat"),
        ([stat("a"), {"Id": "e", "Expression": "[a, a]"}], "several time series"),
    ],
)
def test_queries_that_do_not_join(rows: list[dict[str, object]], message: str) -> None:
    with pytest.raises(AwsError, match=message):
        queries_of(CALLER, rows)


def test_expressions_are_computed_after_what_they_name() -> None:
    """`e` is named before it is defined; 5 in the period makes f = (5 + 1) · 2."""
    rows = [{"Id": "f", "Expression": "e * 2"}, {"Id": "e", "Expression": "a + 1", "ReturnData": False}, stat("a")]
    store = MetricStore()
    store.put(MetricKey("123456789012", "us-east-1", "N", "a", ()), 30.0, 5.0)
    assert queries_of(CALLER, rows).points(store, [0.0, 60.0])["f"] == [12.0]


@pytest.mark.parametrize(
    ("rule", "met"),
    [
        ('ALARM("a")', True),
        ("ALARM(a) AND ALARM(b)", False),
        ("ALARM(b) OR ALARM(a) AND OK(b)", True),
        ("NOT (ALARM(b) OR INSUFFICIENT_DATA(c))", False),
        ("NOT ALARM(b) AND INSUFFICIENT_DATA(arn:aws:cloudwatch:us-east-1:123456789012:alarm:c)", True),
        ("TRUE AND FALSE", False),
    ],
)
def test_rule_of_a_composite_alarm(rule: str, met: bool) -> None:
    """a is in ALARM, b is OK, c has no data."""
    states = {"a": "ALARM", "b": "OK", "c": "INSUFFICIENT_DATA"}
    assert parse_rule(rule).holds(states.__getitem__) is met


@pytest.mark.parametrize("rule", ["ALARM(a", "AT_LEAST(1, ALARM, (a, b))", "ALARM(a) XOR ALARM(b)", "", "AND"])
def test_rule_that_cannot_be_read(rule: str) -> None:
    with pytest.raises(AwsError, match="AlarmRule"):
        parse_rule(rule)


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [
        ("Sum", 110.0), ("Average", 22.0), ("Maximum", 50.0), ("Minimum", 10.0), ("SampleCount", 5.0),
        ("p50", 10.0), ("p90", 42.0), ("p100", 50.0),
    ],
)  # fmt: skip
def test_statistics_count_repeated_values(statistic: str, expected: float) -> None:
    """10 three times, 30 and 50 once: p50 is the third of five, p90 lies 0.6 of the way from 30 to 50."""
    store, key = MetricStore(), MetricKey("123456789012", "us-east-1", "N", "m", ())
    store.put(key, 10.0, 10.0, count=3)
    store.put(key, 30.0, 50.0)
    store.put(key, 20.0, 30.0)  # late
    assert store.points(key, [0.0, 60.0, 120.0], statistic) == [pytest.approx(expected), None]


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [
        ("tm90", 5.0), ("TM(:90%)", 5.0), ("TM(10%:90%)", 5.5), ("TM(80%:)", 9.5), ("TM(2:4)", 3.5), ("TM(20:)", None),
        ("IQM", 5.5), ("wm90", 5.41), ("WM(2:9)", 5.5), ("tc90", 9.0), ("TC(2:4)", 2.0), ("ts90", 45.0),
        ("TS(80%:)", 19.0), ("PR(:3)", 30.0), ("PR(2:4)", 20.0),
    ],
)  # fmt: skip
def test_statistics_with_bounds(statistic: str, expected: float | None) -> None:
    """Of 1 to 10: a tenth is one of them; the least bound is outside, the highest inside; p90 is 9.1."""
    check_statistic(statistic)
    found = statistic_of(list(range(1, 11)), [1.0] * 10, statistic)
    assert found == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    "statistic", ["tm101", "TM(:)", "TM(90%:10%)", "TM(10:90%)", "TM(:110%)", "PR(:10%)", "pr90", "p100.5", "median"]
)
def test_statistics_that_do_not_exist(statistic: str) -> None:
    """Bounds past 100%, none, the wrong way round or of two kinds; a rank knows values only."""
    with pytest.raises(AwsError, match="is invalid"):
        check_statistic(statistic)


# CloudWatch user guide, "Configuring how CloudWatch alarms treat missing data": what becomes of five data points, the
# newest on the right (0 within the threshold, X beyond it, - missing), for each way to treat what is missing.
THREE_OF_THREE = [
    ("0-X-X", "OK", "OK", "OK", "OK"),
    ("0----", "OK", "OK", "OK", "OK"),
    ("-----", "INSUFFICIENT_DATA", "keep", "ALARM", "OK"),
    ("0XX-X", "ALARM", "ALARM", "ALARM", "ALARM"),
    ("--X--", "ALARM", "keep", "ALARM", "OK"),
]
TWO_OF_THREE = [
    ("0-X-X", "ALARM", "ALARM", "ALARM", "ALARM"),
    ("00X0X", "ALARM", "ALARM", "ALARM", "ALARM"),
    ("0-X--", "OK", "OK", "ALARM", "OK"),
    ("----0", "OK", "OK", "ALARM", "OK"),
    ("---X-", "ALARM", "keep", "ALARM", "OK"),
]


@pytest.mark.parametrize("now", ["OK", "ALARM"])
@pytest.mark.parametrize(("to_alarm", "row"), [(3, row) for row in THREE_OF_THREE] + [(2, row) for row in TWO_OF_THREE])
def test_missing_data_as_documented(to_alarm: int, row: tuple[str, ...], now: str) -> None:
    points = [{"0": 0.0, "X": 9.0, "-": None}[one] for one in row[0]]
    for missing, expected in zip(("missing", "ignore", "breaching", "notBreaching"), row[1:], strict=True):
        watch = watch_of(
            CALLER,
            {
                "AlarmName": "a",
                "Namespace": "N",
                "MetricName": "m",
                "Statistic": "Sum",
                "Period": 60,
                "EvaluationPeriods": 3,
                "DatapointsToAlarm": to_alarm,
                "Threshold": 5.0,
                "ComparisonOperator": "GreaterThanThreshold",
                "TreatMissingData": missing,
            },
        )
        assert watch.state_of(points, now) == (now if expected == "keep" else expected), missing  # type: ignore[arg-type]
