"""Every bad profile and the exact lines it gives. `REWRITE_SNAPSHOTS=1 pytest ...` rewrites them: read each one."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from types import NoneType

import pytest
from profiles_samples import BAD

from loadproof.cli.check.formats import CheckedFiles, as_text
from loadproof.profiles import check_file
from loadproof.profiles.checks import RULES

CASES = sorted([*BAD.glob("LP*.yaml"), *(file for file in BAD.glob("LP*") if file.is_dir())])
# Too large for a file of the repository, the absence of a file, and the planner's word.
ELSEWHERE = {"LP001", "LP012", "LP269"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_bad_profile_gives_exactly_these_lines(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole output of `loadproof check` equals the `.expected` file beside the profile."""
    monkeypatch.chdir(BAD)
    files = [case] if case.is_file() else sorted(case.rglob("*.yaml"))
    checked = [check_file(file.relative_to(BAD)) for file in files]
    said = as_text(CheckedFiles.of(checked), coloured=False) + "\n"
    expected = case.with_suffix(".expected")
    if os.environ.get("REWRITE_SNAPSHOTS"):
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")
    assert f" {case.stem} " in said


def test_a_warning_that_may_be_an_error_declares_it() -> None:
    """`errors_of` asks only rules that do."""
    said = {
        code for case in CASES for code in re.findall(r" (LP\d{3}) [^(]", case.with_suffix(".expected").read_text())
    }
    for rule in RULES:
        gives = rule.code in said or (rule.takes is not NoneType and '"error"' in inspect.getsource(rule.function))
        assert not gives or "error" in (rule.severity, *rule.also), rule.code


def test_every_code_has_a_bad_profile() -> None:
    """No rule is without a file that shows it firing."""
    assert {rule.code for rule in RULES} - ELSEWHERE == {case.stem for case in CASES}


def test_only_what_no_rule_finds_goes_without_a_bad_profile() -> None:
    """The exceptions are codes of reading and planning; a rule that runs over profiles always has its file."""
    assert {rule.takes for rule in RULES if rule.code in ELSEWHERE} == {NoneType}


def test_a_line_says_place_code_field_found_and_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line begins `file:line:column CODE` and ends with how to mend it, after a semicolon."""
    monkeypatch.chdir(BAD)
    for case in BAD.glob("LP*.yaml"):
        for problem in check_file(case.relative_to(BAD)).problems:
            place, code, *_ = str(problem).split(" ")
            assert place == f"{problem.file}:{problem.line}:{problem.column}"
            assert code == problem.code
            assert problem.mend and "; " + problem.mend in str(problem)
            assert "\n" not in str(problem)
