"""The page of a plan in a real browser: no word lies on another, no width overflows, light, dark and paper."""

from __future__ import annotations

import base64
from pathlib import Path
from types import ModuleType

import pytest
from page_checks import SIZES, Viewport, asked, check_words_keep_clear, contrast, preferring, samples_of
from selenium.webdriver import Chrome

from loadproof.advice.page import page_of

pytestmark = pytest.mark.browser

ORDINARY = (
    "prod/llama-2-7b",
    "prod/llama-3-1-8b",
    "prod/qwen3-32b",
    "dev/llama-3-1-8b",
    "dev/qwen3-32b",
    "local-vllm/tiny-llama",
)
PAGES = (*ORDINARY, "not fitting", "unpriced", "many levels", "hostile")


@pytest.fixture(scope="module")
def samples() -> ModuleType:
    """The plans that the page's own tests use."""
    return samples_of("cli/plan_page_samples.py")


@pytest.fixture(scope="module")
def pages(samples: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every page as a file, by name; all with the made-up alternatives."""
    plans = {name: samples.plan_of(name) for name in ORDINARY}
    plans |= {"not fitting": samples.not_fitting(), "unpriced": samples.unpriced()}
    plans |= {"many levels": samples.many_levels(), "hostile": samples.hostile()}
    folder, files = tmp_path_factory.mktemp("plans"), {}
    for number, (name, plan) in enumerate(plans.items()):
        files[name] = folder / f"{number}.html"
        files[name].write_text(page_of(plan, samples.alternatives()), encoding="utf-8")
    return files


@pytest.mark.parametrize("name", PAGES)
def test_words_keep_clear_and_no_width_overflows(
    browser: Chrome, viewport: Viewport, pages: dict[str, Path], name: str
) -> None:
    """From a phone to a wide screen no text of a picture lies on another or leaves it, and nothing scrolls sideways."""
    check_words_keep_clear(browser, viewport, pages[name], (400, 820, 1240))


@pytest.mark.parametrize("width", [320, 400, 1240])
def test_each_picture_shows_one_size_in_readable_letters(
    browser: Chrome, viewport: Viewport, pages: dict[str, Path], width: int
) -> None:
    """Of the sizes drawn one is shown, and its 12 px letters are between 9 and 16 px on the screen."""
    with viewport(width):
        browser.get(pages["prod/llama-2-7b"].as_uri())
        shown = asked(browser, SIZES)
    assert [name for name, *_ in shown][:1] == ["curve-ttft"]
    assert len(shown) == 7
    for name, count, letters_px in shown:
        assert count == 1, name
        assert 9 <= letters_px <= 16, name


def test_a_wide_table_fits_a_laptop(browser: Chrome, viewport: Viewport, pages: dict[str, Path]) -> None:
    """At 1240 pixels no table is cut off at its right."""
    with viewport(1240):
        browser.get(pages["prod/llama-2-7b"].as_uri())
        script = "return [...document.querySelectorAll('.wide')].map(one => one.scrollWidth - one.clientWidth)"
        assert set(asked(browser, script)) == {0}


def test_hostile_text_stretches_nothing(browser: Chrome, viewport: Viewport, pages: dict[str, Path]) -> None:
    """The heading is the name, character for character, and 10,000 letters fit the page."""
    with viewport(400):
        browser.get(pages["hostile"].as_uri())
        assert asked(browser, "return document.querySelector('h1').textContent") == "</script><b>x"
        assert asked(browser, "return document.documentElement.scrollWidth") <= 400


def test_it_prints_on_a_few_a4_pages(browser: Chrome, pages: dict[str, Path]) -> None:
    """A PDF of A4 pages: 595 by 842 points."""
    browser.get(pages["prod/llama-2-7b"].as_uri())
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    pdf = base64.b64decode(printed["data"])
    assert 2 <= pdf.count(b"/Type /Page\n") <= 7
    assert b"/MediaBox [0 0 594.95996 841.91998]" in pdf


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_on_pictures_keep_their_contrast(
    browser: Chrome, viewport: Viewport, pages: dict[str, Path], scheme: str
) -> None:
    """Chart words against the page, and words on bars against the ground drawn round their letters: 4.5:1 (WCAG AA)."""
    with preferring(browser, scheme), viewport(1240):
        browser.get(pages["prod/llama-2-7b"].as_uri())
        ground = asked(browser, "return getComputedStyle(document.documentElement).backgroundColor")
        ink = asked(browser, "return getComputedStyle(document.querySelector('#curve-ttft .panel text')).fill")
        fill, halo = asked(
            browser,
            """const style = getComputedStyle(document.querySelector('#memory .panel .on'));
            return [style.fill, style.stroke];""",
        )
    assert contrast(ink, ground) >= 4.5
    assert contrast(fill, halo) >= 4.5
