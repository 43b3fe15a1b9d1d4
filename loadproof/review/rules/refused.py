"""What the checks (LP) and the rules over templates (LS) newly refuse, by the finding of the review that reports it.

A trap that a profile walks into is most often stopped by a check before anything is synthesized. It is reported under
the review's own number all the same, so that a reader finds one page for it whichever way it came.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.errors import Problem
from loadproof.review.rules.change import Change
from loadproof.review.rules.rule import Found
from loadproof.templates import Finding as TemplateFinding

REFUSED: Final = "LR060"  # problems without a finding of their own
_REPORTED_BY: Final = {
    "LP207": "LR021",
    "LP206": "LR021",
    "LP210": "LR021",
    "LP227": "LR015",
    "LP229": "LR016",
    "LP240": "LR030",
    "LP242": "LR030",
    "LP243": "LR030",
    "LP244": "LR030",
    "LP245": "LR030",
    "LP304": "LR025",
    "LP311": "LR025",
    "LP313": "LR020",
    "LP324": "LR020",
    "LP327": "LR023",
    "LP328": "LR022",
    "LP329": "LR023",
    "LP319": "LR023",
    "LP401": "LR044",
    "LP402": "LR045",
    "LP403": "LR046",
    "LP404": "LR041",
    "LP406": "LR044",
    "LP226": "LR060",
}
_REVISION_CODES: Final = ("LP102", "LP104")
# A warning that a rule over both sides tells better where there are templates.
_REPORTED_BY_TEMPLATES: Final = ("LP404",)


def reported_by(problem: Problem) -> str:
    """The number under which the review tells a problem."""
    if problem.code in _REVISION_CODES and problem.path.endswith("source.revision"):
        return "LR045"
    return _REPORTED_BY.get(problem.code, REFUSED)


def new_problems(change: Change, code: str) -> Iterator[Found]:
    """Problems that the head has and the base had not, of this number; errors stop the deployment."""
    for problem in change.fresh_problems():
        if reported_by(problem) != code or (problem.code in _REPORTED_BY_TEMPLATES and change.after.synthesized):
            continue
        yield Found(
            problem.path,
            problem.message,
            problem.mend,
            "break" if problem.severity == "error" else "warning",
            f"{problem.file}:{problem.line}:{problem.column} {problem.code}",
        )


def refused(change: Change, code: str) -> Iterator[Found]:
    """The same where the profile is refused; where it is good, the templates are looked at instead."""
    if not change.after.synthesized:
        yield from new_problems(change, code)


def new_template_findings(change: Change, *codes: str) -> Iterator[TemplateFinding]:
    """Findings of the rules over templates that the head has and the base had not."""
    if not change.has_after:
        return
    known = {(stack, one.code, one.place, one.message) for stack, one in change.before.template_findings}
    for stack, one in change.after.template_findings:
        if one.code in codes and (stack, one.code, one.place, one.message) not in known:
            yield one


def stops(finding: TemplateFinding, change: Change) -> bool:
    """True for what `cdk synth` of the profile refuses. Templates of others pass through no synthesis of ours."""
    return finding.stops and change.after.profile is not None


def open_finding(change: Change, *codes: str) -> TemplateFinding | None:
    """The first finding of these rules that is new and stops synthesis."""
    return next((one for one in new_template_findings(change, *codes) if stops(one, change)), None)
