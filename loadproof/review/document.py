"""The one document that every format shows: plain JSON values, worst first, the same bytes for the same review."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePosixPath
from typing import Any, Final

from loadproof.review.model import (
    SEVERITIES,
    CostChange,
    CostFigure,
    EvidenceState,
    Finding,
    ObjectiveChange,
    ProfileReview,
    Review,
    Severity,
    Side,
)
from loadproof.review.shapes import (
    CopiesShortDocument,
    CostDocument,
    CostFigureDocument,
    CountsDocument,
    Document,
    EvidenceDocument,
    FindingDocument,
    LeftOutDocument,
    ObjectiveDocument,
    ProfileDocument,
    State,
)
from loadproof.review.verdict import TITLES, verdict_of

SCHEMA_VERSION: Final = 1
DOCS_PAGE: Final = "docs/review-findings.md"
_ENVIRONMENT: Final = "environment.yaml"


def document(review: Review, *, docs: str = DOCS_PAGE) -> Document:
    """What every format shows. `docs` is the page of findings: a path, or an https address that links lead to."""
    ordered = sorted(review.profiles, key=lambda one: (-rank(worst_of(one)), one.pair.environment_name, one.pair.name))
    found = [finding.severity for one in review.profiles for finding in one.findings]
    profiles = [_profile(one, docs) for one in ordered]
    return {
        "schema_version": SCHEMA_VERSION,
        "base": review.base,
        "head": review.head,
        "verdict": verdict_of(profiles),
        "findings": counts_of(found),
        "unaffected": review.unaffected,
        "not_run": list(review.not_run),
        "profiles": profiles,
    }


def state_of(one: ProfileReview) -> State:
    """What happened to the profile. Refused: its head has problems that stop synthesis, or cannot be synthesized."""
    before, after = one.pair.before, one.pair.after
    if after is None:
        return "removed"
    if after.refusal or any(problem.severity == "error" for problem in after.problems):
        return "refused"
    if before is None:
        return "added"
    return "changed" if one.fields or one.resources or one.findings else "unchanged"


def worst_of(one: ProfileReview) -> Severity | None:
    """The gravest severity among a profile's findings; None without any."""
    return max((finding.severity for finding in one.findings), key=SEVERITIES.index, default=None)


def counts_of(severities: Sequence[Severity]) -> CountsDocument:
    """How many findings are of each severity, the worst first."""
    return {
        "break": severities.count("break"),
        "risk": severities.count("risk"),
        "warning": severities.count("warning"),
        "info": severities.count("info"),
    }


def nothing_left_out() -> LeftOutDocument:
    return {"profiles": 0, "findings": counts_of([]), "rows": 0}


def rank(severity: Severity | None) -> int:
    """The graver, the higher; -1 for none."""
    return -1 if severity is None else SEVERITIES.index(severity)


def _profile(one: ProfileReview, docs: str) -> ProfileDocument:
    pair = one.pair
    shown = pair.after or pair.before
    findings = sorted(one.findings, key=lambda found: (-rank(found.severity), found.code, found.place))
    return {
        "environment": pair.environment_name,
        "profile": pair.name,
        "file": shown.file if shown else "",
        "state": state_of(one),
        "severity": worst_of(one),
        "problems": [str(problem) for problem in pair.after.problems] if pair.after else [],
        "refusal": pair.after.refusal if pair.after else "",
        "findings": [_finding(found, shown, docs) for found in findings],
        "fields": [plain(row) for row in one.fields],
        "resources": [plain(row, leave_out=("possible",)) for row in one.resources],
        "costs": [_cost(row) for row in one.costs],
        "price_source": one.price_source,
        "objectives": [_objective(row) for row in one.objectives],
        "evidence": _evidence(one.evidence),
        "curves": plain(one.curves),
        "copies_short": _copies_short(one),
        "notes": list(one.notes),
    }


def _copies_short(one: ProfileReview) -> CopiesShortDocument | None:
    if one.copies_short is None:
        return None
    needed, most = one.copies_short
    return {"needed": needed, "most": most}


def _finding(found: Finding, side: Side | None, docs: str) -> FindingDocument:
    file, line = place_of(found.place, side)
    return {
        "code": found.code,
        "severity": found.severity,
        "title": TITLES.get(found.code, found.code),
        "subject": found.place,
        "message": found.message,
        "mend": found.mend,
        "evidence": found.evidence,
        "doc": f"{docs}#{found.code.lower()}",
        "file": file,
        "line": line,
    }


def place_of(subject: str, side: Side | None) -> tuple[str, int]:
    """(file, line) of the field, of the first below it, or of the part that would hold it; else the file's start."""
    if side is None:
        return "", 1
    if subject.startswith(f"{_ENVIRONMENT}: "):
        return str(PurePosixPath(side.file).parent / _ENVIRONMENT), 1
    part = subject
    while part:
        below = (f"{part}.", f"{part}[")
        found = [place for path, place in side.places.items() if path == part or path.startswith(below)]
        if found:
            own = [place for place in found if place[0] == side.file]
            return min(own or found, key=lambda place: place[1])
        cut = max(part.rfind("."), part.rfind("["))
        part = part[:cut] if cut > 0 else ""
    return side.file, 1


def _objective(row: ObjectiveChange) -> ObjectiveDocument:
    """`part` only of a class's: what a review of none says, an older Loadproof reads."""
    found: ObjectiveDocument = {
        "name": row.name,
        "comparison": row.comparison,
        "before": plain(row.before),
        "after": plain(row.after),
    }
    return {**found, "part": row.part} if row.part else found


def _cost(row: CostChange) -> CostDocument:
    def side(figure: CostFigure | None) -> CostFigureDocument | None:
        if figure is None:
            return None
        return {"usd_per_hour": plain(figure.usd_per_hour), "usd_per_month": plain(figure.usd_per_month)}

    return {
        "at": row.at,
        "before": side(row.before),
        "after": side(row.after),
        "delta_usd_per_month": plain(row.delta_usd_per_month),
    }


def _evidence(evidence: EvidenceState) -> EvidenceDocument:
    run = evidence.run
    return {
        "state": evidence.state,
        "changed_since": list(evidence.changed_since),
        "run": None
        if run is None
        else {
            "run_id": run.run_id,
            "created_utc": run.created_utc,
            "profile_sha256": run.profile_sha256,
            "verdict": run.verdict,
            "measured": plain(run.measured),
            "link": run.link,
            "signed_by": run.signed_by,
            "signer": run.signer,
        },
    }


def plain(value: object, leave_out: Collection[str] = ()) -> Any:
    """JSON's own kinds: a dataclass by its fields in their order, maps sorted by key, tuples as lists, what is not a
    number null, anything else as its text."""
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value) if one.name not in leave_out}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    return [plain(item) for item in value] if isinstance(value, list | tuple) else str(value)
