"""What the browser tests of every page ask: words that lie on one another, contrast, samples of other folders."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

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
