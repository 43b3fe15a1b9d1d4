"""A review's document that somebody else left behind, read as a stranger's: checked, bounded, and without his links.

What is kept is data: names, figures, findings by their codes. Titles, links and the word of the verdict are made here
again, so that whatever a document says, it says it in the words of this program and leads nowhere of its own.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from loadproof.errors import InputError
from loadproof.review.document import DOCS_PAGE, SCHEMA_VERSION, counts_of
from loadproof.review.model import SEVERITIES, Severity
from loadproof.review.shapes import Document
from loadproof.review.verdict import TITLES, word_of
from loadproof.untrusted import with_escapes

MOST_BYTES: Final = 8 * 2**20
MOST_DEPTH: Final = 40
MOST_ITEMS: Final = 20_000  # of one list or map
LONGEST_TEXT: Final = 20_000  # characters
MOST_PROBLEMS: Final = 5
LONGEST_PLACE: Final = 200  # characters
_CODE: Final = re.compile(r"L[PRS][0-9]{3}")
_LINE: Final = range(1, 1_000_000)


def read_document(data: bytes, *, docs: str = DOCS_PAGE) -> Document:
    """The document, with `docs` as the page of findings. Raises InputError for whatever no review writes."""
    if len(data) > MOST_BYTES:
        raise InputError(f"review: {len(data):,} bytes, at most {MOST_BYTES:,} are read")
    try:
        loaded = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"review: no JSON: {error}") from None
    _bounded(loaded)
    try:
        document = _SHAPE.validate_python(loaded, strict=True)
    except ValidationError as error:
        told = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors(include_url=False)]
        # Keys are the stranger's, and may be long or hold line ends.
        words = [f"review: {with_escapes(place[:LONGEST_PLACE])}: {message}" for place, message in told[:MOST_PROBLEMS]]
        raise InputError("\n".join(words)) from None
    if document["schema_version"] != SCHEMA_VERSION:
        raise InputError(f"review: schema_version {document['schema_version']}, expected {SCHEMA_VERSION}")
    return _in_our_words(document, docs)


_SHAPE: Final = TypeAdapter(with_config(ConfigDict(extra="forbid", allow_inf_nan=False))(Document))


def _bounded(value: object, depth: int = 0) -> None:
    if depth > MOST_DEPTH:
        raise InputError(f"review: nested deeper than {MOST_DEPTH}")
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise InputError(f"review: a text of {len(value):,} characters, at most {LONGEST_TEXT:,} are read")
    if isinstance(value, dict | list) and len(value) > MOST_ITEMS:
        raise InputError(f"review: {len(value):,} items in one place, at most {MOST_ITEMS:,} are read")
    if isinstance(value, dict):
        for key, one in value.items():
            _bounded(key, depth + 1)
            _bounded(one, depth + 1)
    elif isinstance(value, list):
        for one in value:
            _bounded(one, depth + 1)


def _in_our_words(document: Document, docs: str) -> Document:
    severities = [finding["severity"] for profile in document["profiles"] for finding in profile["findings"]]
    for profile in document["profiles"]:
        profile["file"] = _inside(profile["file"])
        profile["severity"] = _worst([finding["severity"] for finding in profile["findings"]])
        for finding in profile["findings"]:
            if not _CODE.fullmatch(finding["code"]) or finding["line"] not in _LINE:
                raise InputError(f"review: finding {finding['code'][:40]!r} at line {finding['line']} is of no review")
            finding["title"] = TITLES.get(finding["code"], finding["code"])
            finding["doc"] = f"{docs}#{finding['code'].lower()}"
            finding["file"] = _inside(finding["file"])
        if profile["evidence"]["run"] is not None:
            # Who signed it was looked up by the stranger, too.
            profile["evidence"]["run"] |= {"link": "", "signed_by": "claimed", "signer": ""}
    worst = _worst(severities)
    document["verdict"] = {
        "worst": worst,
        "word": word_of(worst, changed=any(one["state"] != "unchanged" for one in document["profiles"])),
        "text": document["verdict"]["text"],
    }
    document["findings"] = counts_of(severities)
    return document


def _worst(severities: list[Severity]) -> Severity | None:
    return max(severities, key=SEVERITIES.index, default=None)


def _inside(file: str) -> str:
    """A path within the repository; a review names no other."""
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or "\\" in file or "\0" in file:
        raise InputError(f"review: {file[:80]!r} is no path within a repository")
    return file
