"""What the browser tests of every page ask: words that lie on one another, contrast, samples of other folders."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from selenium.webdriver import Chrome

Viewport = Callable[[int], AbstractContextManager[None]]

TESTS = Path(__file__).parent

# Words of one picture that lie on one another, by the boxes the browser gives them: at most a hair may touch.
OVERLAPS = """
  const found = [];
  for (const picture of document.querySelectorAll("svg.panel")) {
    if (!picture.getClientRects().length) continue;
    const words = [...picture.querySelectorAll("text")].map((word) => [word.textContent, word.getBBox()]);
    const room = picture.viewBox.baseVal;
    words.forEach(([text, box], index) => {
      if (box.x < -1 || box.y < -1 || box.x + box.width > room.width + 1 || box.y + box.height > room.height + 1)
        found.push(["outside", picture.closest(".chart").id, text]);
      for (const [other, its] of words.slice(index + 1)) {
        const wide = Math.min(box.x + box.width, its.x + its.width) - Math.max(box.x, its.x);
        const high = Math.min(box.y + box.height, its.y + its.height) - Math.max(box.y, its.y);
        if (wide > 1 && high > 2) found.push(["overlap", picture.closest(".chart").id, text, other]);
      }
    });
  }
  return found;
"""
# Of each chart its id, how many of its sizes are shown, and how large its letters of 12 px are on the screen.
SIZES = """
  return [...document.querySelectorAll(".chart")].map((chart) => {
    const seen = [...chart.querySelectorAll("svg.panel")].filter((svg) => svg.getClientRects().length);
    const scale = seen[0].getBoundingClientRect().width / seen[0].viewBox.baseVal.width;
    return [chart.id, seen.length, 12 * scale];
  });
"""


def asked(browser: Chrome, script: str) -> Any:
    return browser.execute_script(script)


def check_words_keep_clear(browser: Chrome, viewport: Viewport, page: Path, widths: tuple[int, ...]) -> None:
    """No text of a picture lies on another or leaves it, nothing scrolls sideways, the console stays empty."""
    for width in widths:
        with viewport(width):
            browser.get_log("browser")
            browser.get(page.as_uri())
            assert asked(browser, OVERLAPS) == [], width
            assert asked(browser, "return document.documentElement.scrollWidth") <= width
            assert browser.get_log("browser") == []


@contextmanager
def preferring(browser: Chrome, scheme: str) -> Iterator[None]:
    """A reader who wants pages `light` or `dark`."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def samples_of(place: str) -> ModuleType:
    """A module of another folder of tests, by its path below it: no such folder is on the import path here."""
    file = TESTS / place
    spec = importlib.util.spec_from_file_location(f"{file.stem}_for_browser", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio: (L1 + 0.05) / (L2 + 0.05), L the relative luminance of `rgb(r, g, b)`."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
