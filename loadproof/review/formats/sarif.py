"""SARIF 2.1.0: findings where code hosts show them, beside the line of the profile; every rule with its help."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from loadproof.pages.sarif import sarif_log
from loadproof.review.model import Severity
from loadproof.review.rules import RULES
from loadproof.review.shapes import Document, FindingDocument, ProfileDocument
from loadproof.review.wording import name
from loadproof.untrusted import with_escapes

LEVELS: Final[dict[Severity, str]] = {"break": "error", "risk": "warning", "warning": "warning", "info": "note"}
MOST_RESULTS: Final = 5_000  # GitHub takes so many of one run


def as_sarif(document: Document) -> str:
    """One run. The worst come first, so that what a host cuts off is the least."""
    positions = {code: at for at, code in enumerate(RULES.by_code)}
    found = [(profile, finding) for profile in document["profiles"] for finding in profile["findings"]]
    order: Sequence[str] = list(LEVELS)
    found.sort(key=lambda row: order.index(row[1]["severity"]))
    results = [_result(profile, finding, positions) for profile, finding in found[:MOST_RESULTS]]
    return sarif_log(RULES, results, levels=LEVELS, mend_word="Safe way", automation_id="loadproof-review/") + "\n"


def _result(profile: ProfileDocument, finding: FindingDocument, positions: dict[str, int]) -> dict[str, object]:
    where = f"{name(profile)} {finding['subject']}".strip()
    result: dict[str, object] = {
        "ruleId": finding["code"],
        "level": LEVELS[finding["severity"]],
        "message": {"text": _text(f"{where}: {finding['message']}. Safe way: {finding['mend']}.")},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(finding["file"])},
                    "region": {"startLine": finding["line"]},
                },
                "logicalLocations": [{"fullyQualifiedName": with_escapes(where)}],
            }
        ],
        # GitHub tracks by this name alone; `:1` says that it is the first of its kind on the line.
        "partialFingerprints": {"primaryLocationLineHash": f"{fingerprint(profile, finding)}:1"},
        "properties": {"severity": finding["severity"]},
    }
    if finding["code"] in positions:
        result["ruleIndex"] = positions[finding["code"]]
    return result


def fingerprint(profile: ProfileDocument, finding: FindingDocument) -> str:
    """Of rule, profile and subject alone: neither a moved line nor another figure makes it a new finding."""
    parts = (finding["code"], profile["environment"], profile["profile"], finding["subject"])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _text(message: str) -> str:
    """Without links (SARIF 2.1.0 §3.11.6: `[text](target)`), and with what cannot be seen spelled out."""
    return with_escapes(message).replace("](", "] (")


def _uri(file: str) -> str:
    """A path of the repository as a relative reference: a colon in its first part would make it a scheme.

    Bytes of a file name that are not UTF-8 come as low surrogates and go as these bytes; other surrogates as they are.
    """
    try:
        return quote(file.encode("utf-8", "surrogateescape"), safe="/") or "."
    except UnicodeEncodeError:
        return quote(file.encode("utf-8", "surrogatepass"), safe="/")
