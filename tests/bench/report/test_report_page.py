"""The page itself: verdict first, every figure in a table, nothing foreign that runs, nothing half-written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from bench_summaries import a_summary, whole
from sample_run import write_sample

from loadproof import catalog
from loadproof.bench.document import read_summary
from loadproof.bench.report import render_report
from loadproof.bench.report.charts import curve
from loadproof.bench.report.page import page_of, verdict_sentence
from loadproof.capacity.cost import price_of
from loadproof.errors import InputError

HOSTILE = ["</script><b>x", '"><img src=x onerror=alert(1)>', "a\u2028b\u2029", "\u202eexe", "W" * 10_000, "\ud800"]


class Seen(HTMLParser):
    """Elements, their classes, and text outside scripts and styles, as a parser sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.classes: list[str] = []
        self.handlers: list[str] = []
        self.policy = ""
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.classes += (dict(attrs).get("class") or "").split()
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"] or ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text.append(data)


def read_page(folder: Path) -> Seen:
    return Seen(render_report(folder).read_text(encoding="utf-8"))


def words(seen: Seen) -> str:
    return re.sub(r"\s+", " ", " ".join(seen.text))


def verdict(outcome: str, objectives: list[dict[str, Any]], reasons: list[str] | None = None) -> str:
    said = {"outcome": outcome, "at_concurrency": 8, "reasons": reasons or []}
    return verdict_sentence(a_summary(objectives=objectives, verdict=said))


TTFT = {"name": "ttft_p95_ms", "bound": 500.0, "observed": 412.0, "low": 390.0, "high": 431.0, "margin": 0.176}


@pytest.mark.parametrize(
    ("outcome", "objective", "sentence"),
    [
        (
            "PASS",
            {},
            "The one objective was met at 8 requests in flight; the closest is TTFT p95 with 412 ms, 18 % inside",
        ),
        ("FAIL", {"observed": 620.0}, "TTFT p95 was 620 ms at 8 requests in flight, the objective is ≤ 500 ms."),
        (
            "INCONCLUSIVE",
            {},
            "TTFT p95 was 412 ms (95 % interval 390 to 431 ms) at 8 requests in flight: too few samples",
        ),
        (
            "INCONCLUSIVE",
            {"doubt": "answers were short"},
            "TTFT p95 was 412 ms at 8 requests in flight, which does not settle ≤ 500 ms: answers were short.",
        ),
        ("INCONCLUSIVE", {"observed": None}, "TTFT p95 has no data at 8 requests in flight, so ≤ 500 ms stays open."),
    ],
)
def test_the_verdict_says_why_in_one_sentence(outcome: str, objective: dict[str, Any], sentence: str) -> None:
    """What was observed, where, and the bound."""
    assert verdict(outcome, [TTFT | {"verdict": outcome} | objective]).startswith(sentence)


def test_two_objectives_are_both() -> None:
    """Nobody says `all 2`."""
    assert verdict("PASS", [TTFT | {"verdict": "PASS"}] * 2).startswith("Both objectives were met")


SEARCH = {
    "kind": "find_max",
    "unit": "in flight",
    "found": 8.0,
    "bracket": {"met": 8.0, "missed": 16.0, "met_votes": [True, False, True], "missed_votes": [False]},
    "repeats": 3,
    "tolerance": 0.05,
    "levels": 4,
    "limited_by": {"rule": "objective", "reason": "ttft_p95_ms: observed 512, bound <= 500"},
    "stop": {"rule": "converged", "reason": "they hold at 8 and are missed at 16"},
    "probes": [{"value": value, "met": met} for value, met in ((8, True), (16, False), (8, False), (8, True))],
}


def test_a_search_is_told_with_its_bracket_and_votes(tmp_path: Path) -> None:
    """The load found, what it lies between, by how many measurements, and what limits it."""
    text = words(read_page(write_sample(tmp_path, search=SEARCH)))
    assert "Highest load that meets the objectives: 8 in flight" in text
    assert "met at 8 (2 of 3), missed at 16 (1 of 1); 4 levels measured" in text
    assert "limited by objective: ttft_p95_ms: observed 512, bound <= 500" in text


def test_a_load_measured_several_times_is_one_mark() -> None:
    """Of three measurements at 8 the judged one is drawn, with how many of them met."""
    latencies = {"ttft_ms": {"p95": 400.0, "p50": 300.0}}
    levels = [
        {"concurrency": value, "output_tokens_per_s": rate, "planned": {"level": index, "concurrency": value}}
        | latencies
        for index, (value, rate) in enumerate([(8, 100.0), (8, 110.0), (8, 120.0), (16, 150.0)])
    ]
    judged = {"outcome": "PASS", "at_concurrency": 8, "at_level": 1}
    figure = curve(a_summary(levels=levels, verdict=judged, search=SEARCH), "ttft", "measured")
    assert figure is not None
    assert [(mark.x, mark.words) for mark in figure.series[0].marks] == [(110.0, "8 (2 of 3 met)"), (150.0, "16")]


def test_an_open_objective_says_what_would_settle_it(tmp_path: Path) -> None:
    """More requests, by their number, or something else in words: in its own row."""
    opened = TTFT | {"verdict": "INCONCLUSIVE", "comparison": "<="}
    rows = [opened | {"more_requests": 1200}, opened | {"name": "e2e_p95_ms", "doubt": "answers were short"}]
    text = words(read_page(write_sample(tmp_path, objectives=rows)))
    assert "INCONCLUSIVE about 1,200 more requests" in text and "INCONCLUSIVE answers were short" in text


def test_a_verdict_beyond_the_objectives_gives_its_own_reason() -> None:
    """INVALID speaks of the generator, not of objectives; a run without objectives claims none was met."""
    reason = "at 8 in flight: dispatch lag p99 9.0 ms exceeds 5.0 ms"
    assert verdict("INVALID", [TTFT | {"verdict": "PASS"}], [reason]) == reason
    assert verdict("NOT JUDGED", []) == "No objectives were given."


def test_the_page_leads_with_the_verdict_and_holds_the_figures_in_tables(tmp_path: Path) -> None:
    """Without any script, text alone tells verdict, objectives, levels and conditions."""
    seen = read_page(write_sample(tmp_path))
    text = words(seen)
    assert text.index("PASS") < text.index("Objectives") < text.index("Levels") < text.index("Run conditions")
    summary = json.loads((tmp_path / "summary.json").read_text())
    for level in summary["levels"]:
        assert f"{level['e2e_ms']['p99']:,.0f}" in text
    assert "3 × throttled" in text
    assert seen.tags.count("table") == 12  # objectives, levels, four latencies, phases, five groups of conditions


def test_the_twin_is_named_on_the_local_cloud_and_only_there(tmp_path: Path) -> None:
    """Simulated latencies are never shown as measured ones."""
    local = read_page(write_sample(tmp_path / "local"))
    assert "Simulated endpoint." in words(local)
    assert "p95 on the twin" in words(local) and "p95 measured" not in words(local)
    cloud = read_page(write_sample(tmp_path / "cloud", conditions={"local_cloud": False}))
    assert "Simulated endpoint." not in words(cloud)
    assert "p95 measured" in words(cloud)


def test_no_data_is_a_dash(tmp_path: Path) -> None:
    """A run that was stopped before its first level ended still has a page, without a single invented 0."""
    stopped = whole({"levels": [{"concurrency": 3}], "verdict": {"outcome": "INCONCLUSIVE"}})
    (tmp_path / "summary.json").write_text(json.dumps(stopped))
    seen = read_page(tmp_path)
    assert re.search(r"In flight .* Notes 3 0 0( –){10} ", words(seen)), "no request, no error, and no figure"
    assert "panel" not in seen.classes


def test_nothing_runs_and_nothing_is_loaded(tmp_path: Path) -> None:
    """The page has no script, and its policy allows none and no address; it weighs less than a photo."""
    folder = write_sample(tmp_path)
    seen = read_page(folder)
    assert "script" not in seen.tags
    policy = dict(part.strip().split(" ", 1) for part in seen.policy.split(";"))
    assert policy["default-src"] == "'none'" and "script-src" not in policy
    assert (folder / "report.html").stat().st_size < 600_000


def test_the_run_over_time_and_single_requests_are_drawn(tmp_path: Path) -> None:
    """TTFT, rate, in flight, copies with the scale-out's time, and forty requests of the judged level."""
    seen = read_page(write_sample(tmp_path))
    text = words(seen)
    for title in (
        "Answers per second",
        "Requests in flight",
        "Copies in service",
        "The first 40 requests at 8 in flight",
    ):
        assert title in text
    assert "Scale-out from 1 to 2 copies: 22 s" in re.sub(r"\.0", "", text)
    assert seen.classes.count("streaming") == 2 * 40  # in two sizes


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    """Names that close scripts, open images, reorder or never end: no element, no handler."""
    many = {text: text for text in HOSTILE[:-1]}
    folder = write_sample(
        tmp_path / "hostile",
        run_id=HOSTILE[0],
        profile={"name": "".join(HOSTILE), "file": HOSTILE[1], "sha256": HOSTILE[2], "environment": HOSTILE[3]},
        conditions={"hosts": many, "platform": HOSTILE[0], "local_cloud": True},
        knee={"concurrency": 4, "rule": HOSTILE[0], "reason": HOSTILE[4]},
    )
    seen = read_page(folder)
    assert not seen.handlers
    assert {tag: seen.tags.count(tag) for tag in ("script", "img", "b")} == {"script": 0, "img": 0, "b": 0}
    text = words(seen)
    assert "</script><b>x" in text and '"><img src=x onerror=alert(1)>' in text and "\\u202eexe" in text
    assert "W" * 241 not in text


def test_the_same_run_gives_the_same_page(tmp_path: Path) -> None:
    """Rendering is a pure function of the files: no clock, no random id."""
    summary = read_summary(write_sample(tmp_path))
    assert page_of(summary, None) == page_of(summary, None)


def test_a_failed_rendering_leaves_the_old_report(tmp_path: Path) -> None:
    """A summary that cannot be read neither truncates report.html nor leaves a temporary file."""
    (tmp_path / "report.html").write_text("old")
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(InputError):
        render_report(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "summary.json"]
    assert (tmp_path / "report.html").read_text() == "old"


def test_the_command_prints_the_path_or_one_line_of_error(tmp_path: Path) -> None:
    """`python -m loadproof.bench.report RUN_DIR`: 0 and the path; 2 and a sentence, never a traceback."""
    folder = write_sample(tmp_path / "run")
    command = [sys.executable, "-m", "loadproof.bench.report"]
    good = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert (good.returncode, good.stdout.strip()) == (0, str(folder / "report.html"))
    bad = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    assert bad.returncode == 2
    assert bad.stderr.startswith(f"{tmp_path}/summary.json: not found") and bad.stderr.count("\n") == 1


def test_an_invalid_level_looks_valid_nowhere(tmp_path: Path) -> None:
    """Key figures, charts, their names and every table say so; a run that is valid says it nowhere."""
    write_sample(tmp_path)
    valid = read_page(tmp_path)
    assert "invalid" not in valid.classes and "INVALID" not in words(valid)
    summary = json.loads((tmp_path / "summary.json").read_text())
    at = summary["verdict"]["at_concurrency"]
    summary["verdict"] |= {"outcome": "INVALID", "reasons": ["the client was late"]}
    for level in summary["levels"]:
        level["valid"] = level["concurrency"] != at
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    page = render_report(tmp_path).read_text()
    assert re.search(
        r'requests in flight <span class="mark invalid">.*?</h2>\s*<dl class="key invalid">', page, re.DOTALL
    )
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        if "In flight</th>" in table:
            assert table.count('<tr class="invalid">') + table.count('<tr class="judged invalid">') == 1, table
    for place in ("curve-ttft", "percentiles-e2e", "tokens", "requests"):
        chart = page.partition(f'id="{place}"')[2].partition("</figure>")[0]
        assert re.search(r'class="mark \w+ invalid".*?INVALID', chart, re.DOTALL), place
    said = words(Seen(page))
    assert "(judged, INVALID)" in said and "Hollow and dotted" in said
    assert "not at all: the measurement is INVALID" in said and "intervals of 95 %" not in said


def test_the_source_of_a_price_can_be_followed() -> None:
    """The catalog's own address is a link; what a foreign run calls a source is text."""
    price = price_of(catalog.instance("ml.g5.2xlarge"))
    [address] = re.findall(r"https://[^ ]+", price)
    assert f'<a href="{address}" rel="noreferrer">{address}</a>' in page_of(
        a_summary(conditions={"price": price}), None
    )
    forged = page_of(a_summary(conditions={"price": "free; https://evil.example/"}), None)
    assert "https://evil.example/" in forged and "noreferrer" not in forged
