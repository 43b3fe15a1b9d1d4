"""The style sheet that every page begins with: light, dark and paper, and the palette of its pictures."""

from __future__ import annotations

from importlib.resources import files

from loadproof.pages import looks


def house_style() -> str:
    """CSS; a page adds its own after it."""
    names = ("BLUE", "ORANGE", "TEAL", "PINK", "GREY")
    palette = "".join(f"--{name.lower()}: {getattr(looks, name)}; " for name in names)
    return f":root {{ {palette}}}\n{(files('loadproof.pages') / 'page.css').read_text(encoding='utf-8')}"
