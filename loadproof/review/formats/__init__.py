"""A review's document as JSON, Markdown, text, SARIF or HTML. The same document gives the same bytes."""

from __future__ import annotations

from typing import Final, Literal, get_args

from loadproof.review.bounds import written
from loadproof.review.formats.html import as_html
from loadproof.review.formats.markdown import as_markdown
from loadproof.review.formats.sarif import as_sarif
from loadproof.review.formats.text import as_text
from loadproof.review.shapes import Document

Format = Literal["markdown", "json", "sarif", "text", "html"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)


def formatted(
    document: Document, form: Format, *, width: int = 100, coloured: bool = False, ascii_only: bool = False
) -> str:
    """The whole text, ending in a newline. `width` (columns), `coloured` and `ascii_only` are for `text` alone."""
    if form == "json":
        return as_json(document)
    if form == "markdown":
        return as_markdown(document)
    if form == "sarif":
        return as_sarif(document)
    if form == "html":
        return as_html(document)
    return as_text(document, width=width, coloured=coloured, ascii_only=ascii_only)


def as_json(document: Document) -> str:
    """The document itself, cut to what `--from` reads; keys are described in docs/review.md."""
    return written(document)


__all__ = ["FORMATS", "Format", "as_json", "formatted"]
