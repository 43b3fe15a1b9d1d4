"""A run's summary for other programs: JUnit XML for CI, CSV for spreadsheets.

Both are views of summary.json (and of a comparison where one was asked for); no figure is made here. No data is an
empty cell, never 0.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from loadproof.bench.compare.regression import Comparison, describe
from loadproof.bench.document import Summary
from loadproof.bench.judge.judgement import Judgement
from loadproof.bench.measure.scaling import Deployed
from loadproof.bench.objectives import figure
from loadproof.bench.output.words import interval, more_of

STATISTICS = ("p50", "p90", "p95", "p99", "mean", "max")
SPREADS = ("ttft_ms", "itl_ms", "tpot_ms", "e2e_ms", "lag_ms")
SHARES = ("ttft_ms", "itl_ms", "tpot_ms", "e2e_ms")  # the client's of each
PHASES = ("queue_ms", "prefill_ms", "decode_ms")
COUNTS = (
    "requests", "errors", "unfinished", "missing", "error_rate", "duration_s", "mean_in_flight",
    "asked_output_tokens", "answered_output_tokens", "wrong_counts", "offered", "errors_while_away",
)  # fmt: skip
RATES = (
    "output_tokens_per_s",
    "input_tokens_per_s",
    "requests_per_s",
    "goodput_per_s",
    "cost_per_million_output_tokens_usd",
    "cost_per_million_tokens_usd",
    "cost_per_thousand_requests_usd",
)
_NO_FAILURES = {"INVALID": "error", "NOT JUDGED": "skipped"}
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Case:
    """One test: its outcome is the verdict's, `seconds` how long the load it rests on was on."""

    name: str
    outcome: str
    text: str
    seconds: float = 0.0


def to_junit(summary: Summary, comparison: Comparison | None = None) -> str:
    """JUnit XML by the Ant schema that Jenkins, GitLab and GitHub's reporters read.

    One test the verdict, one each objective, one each figure that decides a comparison. FAIL, INCONCLUSIVE and
    REGRESSION are failures, since none of them was shown to hold; INVALID is an error: the client decided. NOT JUDGED
    is skipped.
    """
    verdict, name = summary.verdict, summary.name
    searched = summary.search.lines() if summary.search else []
    total_s = sum(level.duration_s or 0.0 for level in summary.levels)
    judged_s = sum(level.duration_s or 0.0 for level in summary.levels if summary.is_judged(level))
    cases = [Case("verdict", verdict.outcome, "\n".join([*verdict.reasons, *searched]), total_s)]
    cases += [
        Case(f"{row.label} {row.comparison} {row.bound:g} at {summary.place}", row.verdict, objective(row), judged_s)
        for row in summary.objectives
    ]
    suites = [(f"loadproof bench {name}", cases)]
    if comparison is not None:
        # A change that cannot be told from chance is no failure: only a regression closes the gate.
        compared = [
            Case(
                f"{row.name} at {row.place}", "REGRESSION" if row.outcome == "REGRESSION" else "PASS", describe(row), 0
            )
            for row in comparison.changes
            if row.decides
        ]
        suites.append((f"loadproof bench {name} against {comparison.before}", compared))
    root = ElementTree.Element("testsuites")
    for number, (title, found) in enumerate(suites):
        root.append(_suite(number, title, name, found, summary))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(number: int, title: str, name: str, cases: Sequence[Case], summary: Summary) -> ElementTree.Element:
    outcomes = [case.outcome for case in cases]
    suite = ElementTree.Element(
        "testsuite",
        {
            "name": _xml(title),
            "package": "loadproof",
            "id": str(number),
            "timestamp": summary.created_utc[:19],
            "hostname": "localhost",
            "tests": str(len(cases)),
            "failures": str(sum(outcome not in ("PASS", *_NO_FAILURES) for outcome in outcomes)),
            "errors": str(outcomes.count("INVALID")),
            "skipped": str(outcomes.count("NOT JUDGED")),
            "time": f"{max((case.seconds for case in cases), default=0.0):.3f}",  # they ran side by side
        },
    )
    listed = ElementTree.SubElement(suite, "properties")
    for key, value in properties(summary):
        ElementTree.SubElement(listed, "property", {"name": _xml(key), "value": _xml(value)})
    for case in cases:
        element = ElementTree.SubElement(
            suite,
            "testcase",
            {"name": _xml(case.name), "classname": _xml(f"loadproof.{name}"), "time": f"{case.seconds:.3f}"},
        )
        if case.outcome != "PASS":
            kind = _NO_FAILURES.get(case.outcome, "failure")
            first = _xml(case.text.split("\n")[0])
            said = ElementTree.SubElement(element, kind, {"message": first})
            if kind != "skipped":
                said.set("type", case.outcome)
            said.text = _xml(case.text)
    said_of_all = "\n".join(f"{case.name}: {case.text}" for case in cases)
    ElementTree.SubElement(suite, "system-out").text = _xml(said_of_all)
    ElementTree.SubElement(suite, "system-err")
    return suite


def properties(summary: Summary) -> Iterable[tuple[str, str]]:
    """What the run is evidence for, as far as it is known."""
    deployed = summary.deployed or Deployed()
    found = {
        "run_id": summary.run_id,
        "loadproof": summary.loadproof_version,
        "endpoint": summary.target.endpoint,
        "component": summary.target.component,
        "region": summary.target.region,
        "profile_sha256": summary.profile.sha256 if summary.profile else None,
        "image": deployed.image,
        "instance_type": deployed.instance_type,
    }
    return ((key, value) for key, value in found.items() if value is not None)


def to_csv(summary: Summary) -> str:
    """One row a level: counts, every latency at every statistic in ms, rates, costs, and whether it is judged."""
    shares = tuple(f"{name.removesuffix('_ms')}_client_share_ms" for name in SHARES)
    columns = [
        f"{spread.removesuffix('_ms')}_{one}_ms" for spread in (*SPREADS, *PHASES, *shares) for one in STATISTICS
    ]
    head = ["run_id", "profile", "load", "concurrency", "judged", "valid", *COUNTS, *RATES, *columns]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for level in summary.levels:
        spreads = [getattr(level, name) for name in SPREADS] + [getattr(level.phases, name) for name in PHASES]
        spreads += [getattr(level.client_share, name) for name in SHARES]
        row = [
            summary.run_id,
            summary.profile.name if summary.profile else None,
            level.place,
            level.concurrency,
            summary.is_judged(level),
            level.valid,
            *(getattr(level, name) for name in (*COUNTS, *RATES)),
            *(getattr(spread, one) for spread in spreads for one in STATISTICS),
        ]
        writer.writerow(["" if value is None else value for value in row])
    return text.getvalue()


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)


def objective(row: Judgement) -> str:
    """`ttft_p95_ms: observed 412, bound <= 500, 95% interval 390 to 431`."""
    said = f"{row.label}: observed {figure(row.observed)}, bound {row.comparison} {figure(row.bound)}"
    if row.low is not None or row.high is not None:
        said += f", 95% interval {interval(row.low, row.high)}"
    if row.client_share:
        said += f", client's share {figure(row.client_share)}"
    if row.doubt:
        return f"{said}; {row.doubt}"
    return said + (f"; {more_of(row).strip(' ()')} would settle it in 4 of 5 cases" if more_of(row) else "")
