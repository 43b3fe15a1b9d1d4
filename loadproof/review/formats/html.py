"""The review as one self-contained page: verdict, table, each profile with its curves. No script, no network."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

from jinja2 import Environment
from markupsafe import Markup

from loadproof.catalog import price_addresses
from loadproof.pages.brief import brief_in_html
from loadproof.pages.figures import swatch
from loadproof.pages.style import house_style
from loadproof.pages.templates import page_environment
from loadproof.pages.wording import SHORT, TITLES, code_in_html, linked, on_a_bar, visible
from loadproof.review import wording
from loadproof.review.brief import brief_of
from loadproof.review.formats.pictures import pictures, series_of
from loadproof.review.shapes import Document, FigureDocument

OPEN_UP_TO: Final = 6  # profiles: with more, only those with something to look at are unfolded
# The class that gives a severity its colour; the classes are those that all pages share.
_CSS: Final = {"break": "fail", "risk": "fail", "warning": "inconclusive", "info": "info", None: "pass"}
_OUTLOOK_CSS: Final = {"meets": "pass", "near": "inconclusive", "unknown": "inconclusive", "misses": "fail"}
_LINK: Final = re.compile(r"https://[\w./?#=&%:~+-]+")


def as_html(document: Document) -> str:
    """The page. Untrusted text is escaped, and its control characters are spelled out."""
    page = (
        _environment()
        .get_template("page.html.j2")
        .render(
            document=document,
            brief=brief_in_html(brief_of(document)),
            wording=wording,
            synthesized=wording.synthesized(document),
            css=_CSS,
            outlook_css=_OUTLOOK_CSS,
            titles=TITLES,
            short=SHORT,
            pictures=pictures,
            series_of=series_of,
            swatch=swatch,
            place=place,
            is_link=_LINK.fullmatch,
            opened=lambda profile: len(document["profiles"]) <= OPEN_UP_TO or bool(profile["findings"]),
            style=Markup(f"{house_style()}\n{_text('page.css')}"),
        )
    )
    return page if page.endswith("\n") else page + "\n"


@cache
def _environment() -> Environment:
    return page_environment("loadproof.review.formats", visible=visible, said=code_in_html, sourced=_sourced)


def _sourced(text: str, longest: int) -> Markup:
    return linked(text, price_addresses(), longest)


def place(figure: FigureDocument | None) -> dict[str, float] | None:
    """Where bound, prediction and range stand on a bar of 0..100; None without a figure."""
    if figure is None:
        return None
    marks = {name: value for name in ("bound", "predicted", "low", "high") if (value := figure[name]) is not None}
    return on_a_bar(**marks) if len(marks) == 4 else None


def _text(name: str) -> str:
    return (files("loadproof.review.formats") / name).read_text(encoding="utf-8")
