"""What `loadproof preflight` prints: text for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from loadproof.preflight.inspection import Preflight
from loadproof.preflight.rules import SEVERITIES, Finding
from loadproof.untrusted import with_escapes
from loadproof.wire.documents import Document

SCHEMA_VERSION: Final = 1
DOCS_PAGE: Final = "docs/preflight-findings.md"


def as_text(outcome: Preflight) -> str:
    """Four lines a finding, the worst first, then one line that sums up."""
    lines = [line for finding in outcome.findings for line in _lines(finding)]
    return "\n".join([*lines, _summary(outcome)])


def as_json(outcome: Preflight) -> str:
    """`{schema_version, ok, environment, ..., findings[]}`; documented in docs/preflight.md."""
    environment = outcome.deployments.environment
    document = {
        "schema_version": SCHEMA_VERSION,
        "ok": not outcome.findings,
        "environment": outcome.deployments.environment_name,
        "account": environment.account,
        "region": environment.region,
        "profiles": [profile.name for profile in outcome.deployments.profiles],
        "counts": {severity: outcome.count(severity) for severity in reversed(SEVERITIES)},
        "answered": outcome.looked_at,
        "took_s": round(outcome.took_s, 3),
        "findings": [_row(finding) for finding in outcome.findings],
    }
    return json.dumps(document, indent=2)


def _lines(finding: Finding) -> Iterator[str]:
    yield with_escapes(f"{finding.severity:<8} {finding.code} {finding.place}")
    for word, value in (("found", finding.message), ("needed", finding.needed), ("mend", finding.mend)):
        yield with_escapes(f"  {word:<7}{value}")


def _row(finding: Finding) -> Document:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "place": finding.place,
        "found": finding.message,
        "needed": finding.needed,
        "mend": finding.mend,
        "doc": f"{DOCS_PAGE}#{finding.code.lower()}",
    }


def _summary(outcome: Preflight) -> str:
    deployments = outcome.deployments
    environment = deployments.environment
    where = f"{deployments.environment_name} (account {environment.account}, {environment.region})"
    counts = [(outcome.count(severity), severity) for severity in reversed(SEVERITIES)]
    said = ", ".join(f"{count} {_plural(severity, count)}" for count, severity in counts if count)
    return f"{where}: {said or 'all well'}; {outcome.looked_at} questions answered in {outcome.took_s:.1f} s"


def _plural(word: str, count: int) -> str:
    return word if count == 1 or word == "unknown" else f"{word}s"
