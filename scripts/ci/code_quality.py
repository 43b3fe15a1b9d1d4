"""`code_quality.py review.sarif > gl-code-quality-report.json`: a review's findings as GitLab shows them in a diff.

GitLab reads no SARIF of this kind, but its Code Quality report: a JSON list with, of each finding, description,
check_name, fingerprint, severity and location (a path as it is, not as an address).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

SEVERITIES: Final = {"break": "blocker", "risk": "critical", "warning": "major", "info": "info"}


def issues(sarif: dict[str, Any]) -> list[dict[str, Any]]:
    return [_issue(result) for run in sarif["runs"] for result in run["results"]]


def _issue(result: dict[str, Any]) -> dict[str, Any]:
    place = result["locations"][0]["physicalLocation"]
    return {
        "description": result["message"]["text"],
        "check_name": result["ruleId"],
        "fingerprint": result["partialFingerprints"]["primaryLocationLineHash"],
        "severity": SEVERITIES[result["properties"]["severity"]],
        "location": {
            "path": unquote(place["artifactLocation"]["uri"]),
            "lines": {"begin": place["region"]["startLine"]},
        },
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {Path(sys.argv[0]).name} review.sarif")
    json.dump(issues(json.loads(Path(sys.argv[1]).read_bytes())), sys.stdout, indent=1)
    print()
