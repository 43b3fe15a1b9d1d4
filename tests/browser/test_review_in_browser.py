"""A review in a real browser: its page at any width, light, dark and on paper; its comment as GitHub would show it."""

from __future__ import annotations

import base64
from pathlib import Path
from types import ModuleType

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from page_checks import SIZES, Viewport, asked, check_words_keep_clear, contrast, preferring, samples_of
from selenium.webdriver import Chrome

from loadproof.review.document import document
from loadproof.review.formats.html import as_html
from loadproof.review.formats.markdown import as_markdown

pytestmark = pytest.mark.browser

NAMES = ("ordinary", "only_good", "hostile", "empty")
COMMENT_PX = 884  # the width that GitHub gives a comment on a wide screen
COMMENT_STYLE = f"""
body {{ margin: 0; font: 14px/1.5 sans-serif; }} main {{ width: {COMMENT_PX}px; }}
table {{ display: block; width: max-content; max-width: 100%; overflow: auto; border-collapse: collapse; }}
th, td {{ padding: 6px 13px; border: 1px solid #d1d9e0; }} code {{ padding: .2em .4em; font-size: 85%; }}
"""


@pytest.fixture(scope="module")
def samples() -> ModuleType:
    """The reviews that the formats' own tests use."""
    return samples_of("review/review_samples.py")


@pytest.fixture(scope="module")
def pages(samples: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every page as a file, and the comments as GitHub's renderer makes them."""
    folder = tmp_path_factory.mktemp("reviews")
    files = {}
    for name in NAMES:
        shown = document(getattr(samples, name)())
        files[name] = folder / f"{name}.html"
        files[name].write_text(as_html(shown), encoding="utf-8")
        comment = cmarkgfm.github_flavored_markdown_to_html(as_markdown(shown), Options.CMARK_OPT_UNSAFE)
        files[f"comment {name}"] = folder / f"{name}-comment.html"
        head = f"<!doctype html><meta charset=utf-8><title>comment</title><style>{COMMENT_STYLE}</style>"
        files[f"comment {name}"].write_text(f"{head}<main>{comment}</main>", encoding="utf-8")
    return files


def requests_of(browser: Chrome) -> list[str]:
    """Addresses that were asked for since the log was read last, those of files apart."""
    lines = [entry["message"] for entry in browser.get_log("performance")]
    return [line for line in lines if '"Network.requestWillBeSent"' in line and "file://" not in line]


@pytest.mark.parametrize("name", NAMES)
def test_words_keep_clear_and_no_width_overflows(
    browser: Chrome, viewport: Viewport, pages: dict[str, Path], name: str
) -> None:
    """From a phone to a wide screen no text of a picture lies on another or leaves it, and nothing scrolls sideways."""
    check_words_keep_clear(browser, viewport, pages[name], (390, 820, 1280))


def test_the_verdict_and_the_table_are_seen_without_scrolling(
    browser: Chrome, viewport: Viewport, pages: dict[str, Path]
) -> None:
    """Ten seconds: at 1280 by 900 both stand on the first screen."""
    with viewport(1280):
        browser.get(pages["ordinary"].as_uri())
        bottoms = asked(
            browser,
            "return ['.verdict', '.overview'].map(one => document.querySelector(one).getBoundingClientRect().bottom)",
        )
    assert bottoms[0] < bottoms[1] < 900


def test_a_profile_of_the_table_leads_to_its_details(browser: Chrome, pages: dict[str, Path]) -> None:
    """A link within the page, to the section of that name."""
    browser.get(pages["ordinary"].as_uri())
    script = """return [...document.querySelectorAll('.overview tbody a')].filter(link => link.hash)
      .map(link => [link, document.querySelector(link.hash).querySelector('h2')].map(one => one.textContent.trim()))"""
    found = asked(browser, script)
    assert [link for link, _ in found] == ["prod/chat", "staging/chat", "dev/rerank", "prod/summaries"]
    assert all(heading.startswith(link) for link, heading in found)


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_each_picture_shows_one_size_in_readable_letters(
    browser: Chrome, viewport: Viewport, pages: dict[str, Path], width: int
) -> None:
    """Of the sizes drawn one is shown, and its 12 px letters are between 9 and 16 px on the screen."""
    with viewport(width):
        browser.get(pages["ordinary"].as_uri())
        shown = asked(browser, SIZES)
    assert len(shown) == 9  # three profiles with a prediction, three latencies
    assert all(count == 1 and 9 <= letters_px <= 16 for _, count, letters_px in shown)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_keep_their_contrast(browser: Chrome, viewport: Viewport, pages: dict[str, Path], scheme: str) -> None:
    """Severities, quiet words and words on pictures against the page: 4.5:1 (WCAG AA)."""
    with preferring(browser, scheme), viewport(1280):
        browser.get(pages["ordinary"].as_uri())
        ground = asked(browser, "return getComputedStyle(document.documentElement).backgroundColor")
        inks = asked(
            browser,
            """return ['.overview .mark.fail', '.overview .mark.info', '.finding dt', 'text.before', '.state']
            .map(one => getComputedStyle(document.querySelector(one)))
            .map((style, at) => at === 3 ? style.fill : style.color)""",
        )
    assert [contrast(ink, ground) >= 4.5 for ink in inks] == [True] * 5


def test_folded_details_are_printed(browser: Chrome, pages: dict[str, Path]) -> None:
    """Paper has nothing to click on: with every fold closed the print is as long as with all open."""
    lengths = []
    for is_open in (True, False):
        browser.get(pages["ordinary"].as_uri())
        asked(browser, f"document.querySelectorAll('details').forEach(one => one.open = {str(is_open).lower()})")
        printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
        lengths.append(base64.b64decode(printed["data"]).count(b"/Type /Page\n"))
    assert lengths[0] == lengths[1]
    assert 2 <= lengths[0] <= 8


@pytest.mark.parametrize("name", ["hostile", "comment hostile"])
def test_nothing_hostile_runs_or_is_fetched(browser: Chrome, pages: dict[str, Path], name: str) -> None:
    """No dialog opens, no element with a script or an image arises, no request leaves."""
    requests_of(browser)
    browser.get(pages[name].as_uri())
    script = "return document.querySelectorAll('script, img, iframe, object, [onerror], a[href^=http], h2 a').length"
    assert asked(browser, script) == 0
    assert requests_of(browser) == []


def test_a_comment_fits_the_column_of_a_pull_request(
    browser: Chrome, viewport: Viewport, pages: dict[str, Path]
) -> None:
    """Its first table scrolls in no direction, and everything below it is folded."""
    with viewport(1280):
        browser.get(pages["comment ordinary"].as_uri())
        table, folded = asked(
            browser,
            """const table = document.querySelector('table');
            return [table.scrollWidth - table.clientWidth,
                    [...document.querySelectorAll('details')].filter(one => !one.open).length]""",
        )
        height = asked(browser, "return document.documentElement.scrollHeight")
    assert table <= 0
    assert folded == 4
    assert height <= 900
