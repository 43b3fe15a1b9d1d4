"""SARIF 2.1.0: findings where code hosts show them, beside the line of the profile; every rule with its help."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from urllib.parse import quote

from loadproof.foreign import spelled
from loadproof.review.model import Severity
from loadproof.review.rules import RULES
from loadproof.review.rules.rule import Rule
from loadproof.review.shapes import Document, FindingDocument, ProfileDocument

LEVELS: Final[dict[Severity, str]] = {"break": "error", "risk": "warning", "warning": "warning", "info": "note"}
_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS: Final = 5_000  # GitHub takes so many of one run


def as_sarif(document: Document) -> str:
    """One run. The worst come first, so that what a host cuts off is the least."""
    positions = {rule.code: at for at, rule in enumerate(RULES)}
    found = [(profile, finding) for profile in document["profiles"] for finding in profile["findings"]]
    order: Sequence[str] = list(LEVELS)
    found.sort(key=lambda row: order.index(row[1]["severity"]))
    run = {
        "tool": {
            "driver": {"name": "Loadproof", "semanticVersion": _version(), "rules": [_rule(rule) for rule in RULES]}
        },
        "automationDetails": {"id": "loadproof-review/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True}],
        "results": [_result(profile, finding, positions) for profile, finding in found[:MOST_RESULTS]],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.title.replace("-", " ").split() if word.isalnum()),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.reason},
        "help": {"text": f"{rule.reason} {rule.fix}", "markdown": f"{rule.reason}\n\n**Safe way:** {rule.fix}"},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }


def _result(profile: ProfileDocument, finding: FindingDocument, positions: dict[str, int]) -> dict[str, Any]:
    where = f"{profile['environment']}/{profile['profile']} {finding['subject']}".strip()
    result: dict[str, Any] = {
        "ruleId": finding["code"],
        "level": LEVELS[finding["severity"]],
        "message": {"text": _text(f"{where}: {finding['message']}. Safe way: {finding['mend']}.")},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(finding["file"])},
                    "region": {"startLine": finding["line"]},
                },
                "logicalLocations": [{"fullyQualifiedName": spelled(where)}],
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
    return spelled(message).replace("](", "] (")


def _uri(file: str) -> str:
    """A path of the repository as a relative reference: a colon in its first part would make it a scheme.

    Bytes of a file name that are not UTF-8 come as low surrogates and go as these bytes; other surrogates as they are.
    """
    try:
        return quote(file.encode("utf-8", "surrogateescape"), safe="/") or "."
    except UnicodeEncodeError:
        return quote(file.encode("utf-8", "surrogatepass"), safe="/")


def _version() -> str:
    try:
        return version("loadproof")
    except PackageNotFoundError:
        return "0.0.0"
