"""What `loadproof check` prints: text for people, JSON for programs, SARIF 2.1.0 for code review."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final, TextIO
from urllib.parse import quote

from loadproof.errors import Problem, Severity
from loadproof.pages.sarif import sarif_log
from loadproof.pages.wording import counted
from loadproof.profiles import Checked, profile_hash
from loadproof.profiles.checks import RULES

SCHEMA_VERSION: Final = 1
DOCS_PAGE: Final = "docs/checks.md"
_LEVELS: Final[Mapping[Severity, str]] = {"error": "error", "warning": "warning"}  # of SARIF
_MOST_LINES: Final = 200  # of text: past them nobody reads, and the count says enough
_RED, _YELLOW, _GREEN, _BOLD, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """All files checked, and their problems: each once, in file order, also when several children share a parent."""

    checked: tuple[Checked, ...]
    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, checked: Sequence[Checked]) -> CheckedFiles:
        unique = dict.fromkeys(problem for one in checked for problem in one.problems)
        return cls(tuple(checked), tuple(unique))

    @property
    def suppressed(self) -> int:
        """Problems counted, but past what one file may list."""
        return sum(one.suppressed for one in self.checked)

    @property
    def errors(self) -> int:
        return sum(problem.severity == "error" for problem in self.problems) + self.suppressed

    @property
    def warnings(self) -> int:
        return sum(problem.severity == "warning" for problem in self.problems)


def wants_colour(stream: TextIO) -> bool:
    """Colours only on a terminal that does not refuse them (https://no-color.org)."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def as_text(outcome: CheckedFiles, *, coloured: bool) -> str:
    """One line a problem, then one line that sums up."""
    lines = [_line(problem, coloured) for problem in outcome.problems[:_MOST_LINES]]
    more = len(outcome.problems) - len(lines) + outcome.suppressed
    if more:
        lines.append(f"... and {more} more; mend these first")
    return "\n".join([*lines, _summary(outcome, coloured)])


def as_json(outcome: CheckedFiles) -> str:
    """`{schema_version, ok, errors, warnings, suppressed, files[], problems[]}`; documented in docs/checks.md."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "ok": outcome.errors == 0,
        "errors": outcome.errors,
        "warnings": outcome.warnings,
        "suppressed": outcome.suppressed,
        "files": [_file(checked) for checked in outcome.checked],
        "problems": [_problem(problem) for problem in outcome.problems],
    }
    return json.dumps(document, indent=2)


def as_sarif(outcome: CheckedFiles) -> str:
    """SARIF 2.1.0 with every rule's help, as code hosts show it beside the line."""
    positions = {code: at for at, code in enumerate(RULES.by_code)}
    results = [_sarif_result(problem, positions) for problem in outcome.problems]
    return sarif_log(RULES, results, levels=_LEVELS, mend_word="Fix")


def _line(problem: Problem, coloured: bool) -> str:
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(problem))
    if not coloured:
        return text
    colour = _RED if problem.severity == "error" else _YELLOW
    return text.replace(f" {problem.code}", f" {colour}{problem.code}{_PLAIN}", 1)


def _summary(outcome: CheckedFiles, coloured: bool) -> str:
    files = counted(len(outcome.checked), "file")
    if not outcome.errors and not outcome.warnings:
        said = f"{files} checked: all well"
    else:
        said = f"{files} checked: {counted(outcome.errors, 'error')}, {counted(outcome.warnings, 'warning')}"
    if not coloured:
        return said
    return f"{_BOLD}{_RED if outcome.errors else _YELLOW if outcome.warnings else _GREEN}{said}{_PLAIN}"


def _file(checked: Checked) -> dict[str, object]:
    profile = checked.profile
    return {
        "file": str(checked.file),
        "kind": "environment" if checked.is_environment else "profile",
        "ok": checked.ok,
        "name": profile.name if profile else None,
        "sha256": profile_hash(profile) if profile else None,
        "suppressed": checked.suppressed,
    }


def _problem(problem: Problem) -> dict[str, object]:
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "code": problem.code,
        "severity": problem.severity,
        "path": problem.path,
        "message": problem.message,
        "mend": problem.mend,
        "doc": f"{DOCS_PAGE}#{problem.code.lower()}",
    }


def _sarif_result(problem: Problem, positions: dict[str, int]) -> dict[str, object]:
    subject = f"{problem.path}: " if problem.path else ""
    return {
        "ruleId": problem.code,
        "ruleIndex": positions[problem.code],
        "level": problem.severity,
        "message": {"text": f"{subject}{problem.message}; {problem.mend}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(problem.file)},
                    "region": {"startLine": problem.line, "startColumn": problem.column},
                }
            }
        ],
    }


def _uri(file: str) -> str:
    path = PurePath(file)
    if path.is_absolute():
        return Path(file).as_uri()
    return quote(path.as_posix().encode("utf-8", "surrogateescape"))
