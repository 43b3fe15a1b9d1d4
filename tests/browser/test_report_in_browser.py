"""The report in a real browser: it draws, says nothing to the console, asks the network for nothing, and prints."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from page_checks import contrast
from selenium.webdriver import Chrome

from loadproof.bench.report import render_report
from loadproof.bench.report.comparison import comparison_page, read_runs

pytestmark = pytest.mark.browser

Viewport = Callable[[int], AbstractContextManager[None]]
HOSTILE = ["</script><b>x", '"><img src=x onerror=alert(1)>', "a\u2028b\u2029", "\u202eexe", "W" * 10_000]
FIGURES = [
    "curve-ttft",
    "curve-tpot",
    *(f"percentiles-{latency}" for latency in ("ttft", "itl", "tpot", "e2e")),
    "tokens",
    "requests",
    *(f"distribution-{latency}" for latency in ("ttft", "itl", "tpot", "e2e")),
]
OVER_TIME = ["timeline-ttft", "timeline-rate", "timeline-in-flight", "timeline-copies", "waterfall"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, write_sample: Callable[..., Path]) -> Path:
    return render_report(write_sample(tmp_path_factory.mktemp("sample")))


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory: pytest.TempPathFactory, write_sample: Callable[..., Path]) -> Path:
    folder = write_sample(
        tmp_path_factory.mktemp("hostile"),
        run_id=HOSTILE[0],
        profile={"name": HOSTILE[0], "file": HOSTILE[1], "sha256": HOSTILE[4], "environment": HOSTILE[3]},
        target={"endpoint": HOSTILE[4], "model": HOSTILE[0]},
        conditions={"hosts": {text: text for text in HOSTILE}, "platform": HOSTILE[0]},
        knee={"concurrency": 4, "rule": HOSTILE[1], "reason": HOSTILE[4]},
        verdict={"outcome": "INVALID", "at_concurrency": 8, "reasons": HOSTILE},
        objectives=[{"name": HOSTILE[4], "comparison": HOSTILE[1], "bound": 1, "verdict": "INCONCLUSIVE"}],
    )
    summary = json.loads((folder / "summary.json").read_text())
    errors = {"errors_by_kind": dict.fromkeys(HOSTILE, 1), "error_examples": dict(zip(HOSTILE, HOSTILE, strict=True))}
    summary["levels"][2] |= {"valid": False, "invalid_reasons": HOSTILE} | errors
    (folder / "summary.json").write_text(json.dumps(summary))
    return render_report(folder)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory, write_sample: Callable[..., Path]) -> Path:
    folder = tmp_path_factory.mktemp("comparison")
    runs = [write_sample(folder / str(seed), seed=seed, run_id=str(seed)) for seed in range(3)]
    (folder / "page.html").write_text(comparison_page(read_runs(runs)), encoding="utf-8")
    return folder / "page.html"


def open_page(browser: Chrome, page: Path) -> None:
    """Open a report; what earlier pages said is forgotten."""
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(page.as_uri())


def run(browser: Chrome, expression: str) -> Any:
    return browser.execute_script(f"return {expression}")


def requested(browser: Chrome) -> list[str]:
    """Addresses the page asked for, out of the browser's own network events."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = (event for event in events if event["method"] == "Network.requestWillBeSent")
    return [event["params"]["request"]["url"] for event in sent]


def test_every_chart_draws_its_marks_inside_its_axes(browser: Chrome, report: Path) -> None:
    """Each figure shows one of its sizes, and its marks lie within the drawing, right of and above the axes."""
    open_page(browser, report)
    for figure in FIGURES:
        shown, marks, outside = run(
            browser,
            f"""(() => {{
              const panels = [...document.querySelectorAll("#{figure} svg.panel")];
              const shown = panels.filter((panel) => getComputedStyle(panel).display !== "none");
              const axes = [...shown[0].querySelectorAll(".grid, .axis")].map((one) => one.getBoundingClientRect());
              const left = Math.min(...axes.map((box) => box.left)), right = Math.max(...axes.map((box) => box.right));
              const top = Math.min(...axes.map((box) => box.top)), low = Math.max(...axes.map((box) => box.bottom));
              const marks = [...shown[0].querySelectorAll(".mark")];
              const out = marks.filter((mark) => {{
                const box = mark.getBoundingClientRect();
                const x = box.x + box.width / 2, y = box.y + box.height / 2;
                return !(x >= left - 1 && x <= right + 1 && y >= top - 1 && y <= low + 1);
              }});
              return [shown.length, marks.length, out.length];
            }})()""",
        )
        assert shown == 1 and marks >= 6 and outside == 0, (figure, shown, marks, outside)
    for figure in OVER_TIME:
        height = run(browser, f"document.querySelector('#{figure} svg.panel').getBoundingClientRect().height")
        assert height > 50, figure


def test_higher_latency_stands_higher_on_the_page(browser: Chrome, viewport: Viewport, report: Path) -> None:
    """On the TTFT curve the mark of 32 in flight stands above and right of the mark of 1."""
    with viewport(1240):
        open_page(browser, report)
        first, last = run(
            browser,
            """(() => {
              const marks = [...document.querySelectorAll("#curve-ttft svg.roomy .mark.tail")];
              const box = (mark) => { const b = mark.getBoundingClientRect(); return [b.x, b.y]; };
              return [box(marks[0]), box(marks.at(-1))];
            })()""",
        )
    assert last[0] > first[0]
    assert last[1] < first[1]


@pytest.mark.parametrize("which", ["report", "comparison"])
def test_no_words_of_a_chart_lie_on_others(
    browser: Chrome, viewport: Viewport, which: str, request: pytest.FixtureRequest
) -> None:
    """In every drawing that is shown, at two widths of the page."""
    for width in (390, 1240):
        with viewport(width):
            open_page(browser, request.getfixturevalue(which))
            meeting = run(
                browser,
                """[...document.querySelectorAll("svg.panel")].flatMap((panel) => {
                  if (getComputedStyle(panel).display === "none") return [];
                  const texts = [...panel.querySelectorAll("text")];
                  const words = texts.map((one) => [one.textContent, one.getBoundingClientRect()]);
                  const meets = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
                    && a.top < b.bottom - 2 && b.top < a.bottom - 2;
                  return words.flatMap(([one, a], index) => words.slice(index + 1).filter(([, b]) => meets(a, b))
                    .map(([other]) => `${panel.closest(".chart").id}: ${one} / ${other}`));
                })""",
            )
            assert meeting == []


def test_the_knee_the_bound_and_predicted_are_named_on_the_chart(browser: Chrome, report: Path) -> None:
    """A reader of the picture alone finds the knee, the objective and which line is predicted."""
    open_page(browser, report)
    text = run(browser, "document.querySelector('#curve-ttft').textContent")
    for words in ("knee: 16 in flight", "objective p95 ≤ 250 ms", "predicted", "output tokens per second", "TTFT (ms)"):
        assert words in text


@pytest.mark.parametrize("which", ["report", "hostile_report", "comparison"])
def test_the_console_is_silent_and_the_network_unused(
    browser: Chrome, which: str, request: pytest.FixtureRequest
) -> None:
    """No message of any level, no policy violation, and the one address asked for is the file itself."""
    page: Path = request.getfixturevalue(which)
    open_page(browser, page)
    assert browser.get_log("browser") == []
    assert [address for address in requested(browser) if not address.startswith("data:")] == [page.as_uri()]


def test_the_policy_stops_any_script(browser: Chrome, report: Path) -> None:
    """Were a hostile script to get in, it would not run."""
    open_page(browser, report)
    run(
        browser,
        """(() => {
          const intruder = document.createElement("script");
          intruder.textContent = "window.intruded = true";
          document.body.append(intruder);
        })()""",
    )
    assert run(browser, "window.intruded === undefined")
    assert any("Content Security Policy" in entry["message"] for entry in browser.get_log("browser"))


def test_hostile_text_is_shown_as_text(browser: Chrome, hostile_report: Path) -> None:
    """The heading is the name, character for character; no element was made of it and nothing ran."""
    open_page(browser, hostile_report)
    assert run(browser, "document.querySelector('h1').textContent") == "</script><b>x"
    assert run(browser, "document.querySelectorAll('b, img, iframe, main script').length") == 0
    assert "\\u202eexe" in run(browser, "document.body.innerText")


@pytest.mark.parametrize("which", ["report", "hostile_report", "comparison"])
@pytest.mark.parametrize("width", [320, 390, 820, 1600])
def test_no_width_overflows_sideways(
    browser: Chrome, viewport: Viewport, which: str, width: int, request: pytest.FixtureRequest
) -> None:
    """From a phone to a wide screen the page never scrolls sideways; wide tables scroll in their own frame."""
    with viewport(width):
        open_page(browser, request.getfixturevalue(which))
        assert run(browser, "document.documentElement.scrollWidth") <= width
        widest = run(
            browser, "Math.max(...[...document.querySelectorAll('.chart')].map((c) => c.scrollWidth - c.clientWidth))"
        )
        assert widest <= 0


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_shows_verdicts_without_scrolling(
    browser: Chrome, viewport: Viewport, report: Path, width: int
) -> None:
    """Each objective's name and verdict lie in the frame as it opens, and no verdict is broken."""
    with viewport(width):
        open_page(browser, report)
        shown = run(
            browser,
            """[...document.querySelectorAll("table.objectives tbody tr")].map((row) => {
              const mark = row.cells[1].firstElementChild.getBoundingClientRect();
              return [row.cells[1].innerText, mark.right, mark.height];
            })""",
        )
        assert shown
        for words, right, height in shown:
            assert words.strip() and right <= width and height < 30, (words, right, height)


def test_no_name_stretches_a_row_out_of_sight(browser: Chrome, viewport: Viewport, hostile_report: Path) -> None:
    """10,000 characters and worse in names, reasons and kinds of error: every row still fits half a screen."""
    with viewport(1000):
        open_page(browser, hostile_report)
        tallest = run(browser, "Math.max(...[...document.querySelectorAll('tr')].map((row) => row.offsetHeight))")
        assert tallest <= 450


def test_it_prints_on_paper(browser: Chrome, viewport: Viewport, report: Path) -> None:
    """Printing gives a PDF of a few A4 pages, and the charts keep their screen width."""
    with viewport(1200):
        open_page(browser, report)
        before = run(browser, "document.querySelector('#curve-ttft svg.roomy').getBoundingClientRect().width")
        printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
        pdf = base64.b64decode(printed["data"])
        assert pdf.startswith(b"%PDF-")
        assert 2 <= pdf.count(b"/Type /Page\n") <= 8
        after = run(browser, "document.querySelector('#curve-ttft svg.roomy').getBoundingClientRect().width")
        assert after == before


def test_tables_fit_a_laptop(browser: Chrome, report: Path) -> None:
    """At 1240 pixels no table is cut off at its right: the notes are there, what failed and what was said with it."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 1240, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        browser.get(report.as_uri())
        script = "return [...document.querySelectorAll('.wide')].map(one => one.scrollWidth - one.clientWidth)"
        assert set(browser.execute_script(script)) == {0}
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_tables_tell_everything(browser: Chrome, report: Path) -> None:
    """Verdict, objectives, levels and what failed are there as text."""
    open_page(browser, report)
    text = browser.find_element("tag name", "body").text
    assert "All 5 objectives were met at 8 requests in flight" in text
    assert "3 × throttled" in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_keeps_its_contrast(browser: Chrome, report: Path, scheme: str) -> None:
    """Body text, quiet text, verdict and chart labels have at least 4.5:1 (WCAG AA) against what is behind them."""
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    open_page(browser, report)
    pairs = run(
        browser,
        """(() => {
          const behind = (element) => {
            for (let one = element; one; one = one.parentElement) {
              const colour = getComputedStyle(one).backgroundColor;
              if (!/, 0\\)$/.test(colour) && colour !== "transparent") return colour;
            }
          };
          const texts = ["p", ".quiet", ".verdict .mark", "td", "thead th", ".key dt", ".notice"];
          const found = texts.map((place) => {
            const element = document.querySelector(place);
            return [place, getComputedStyle(element).color, behind(element)];
          });
          const chart = document.querySelector("#curve-ttft");
          found.push(["chart", getComputedStyle(chart.querySelector("svg.panel text")).fill, behind(chart)]);
          return found;
        })()""",
    )
    assert len({ground for _, _, ground in pairs}) > 1
    for place, ink, ground in pairs:
        assert contrast(ink, ground) >= 4.5, (place, ink, ground)
