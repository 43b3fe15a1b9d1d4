"""The shape of a review's document: what `--format json` prints, key by key (schema version 1)."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict  # before Python 3.12 pydantic reads no other

from loadproof.review.model import Action, Severity, SignedBy

State = Literal["added", "changed", "removed", "refused", "unchanged"]


class VerdictDocument(TypedDict):
    """The sentence to read first: `word` and what follows it."""

    worst: Severity | None
    word: str
    text: str


class FieldDocument(TypedDict):
    """A field of the profile; null where a side has none."""

    path: str
    before: object
    after: object


class PropertyDocument(TypedDict):
    """A property of a resource; `replaces`: AWS cannot change it in place."""

    path: str
    before: object
    after: object
    replaces: bool


class ResourceDocument(TypedDict):
    """A resource; see loadproof.review.model.ResourceChange."""

    stack: str
    logical_id: str
    type: str
    action: Action
    properties: list[PropertyDocument]
    cause: str
    expected: bool
    kept: bool


class FindingDocument(TypedDict):
    """A finding with its place: the file and the line of its field, line 1 where it is not written there."""

    code: str
    severity: Severity
    title: str
    subject: str
    message: str
    mend: str
    evidence: str
    doc: str
    file: str
    line: int


class CostFigureDocument(TypedDict):
    """USD of what runs on one side; null without a known price."""

    usd_per_hour: float | None
    usd_per_month: float | None


class CostDocument(TypedDict):
    """USD at one number of copies. A side is null where nothing runs."""

    at: Literal["minimum", "expected", "maximum"]
    before: CostFigureDocument | None
    after: CostFigureDocument | None
    delta_usd_per_month: float | None


class FigureDocument(TypedDict):
    """One side of an objective; all figures but the bound are predicted."""

    bound: float | None
    predicted: float | None
    low: float | None
    high: float | None
    expected: Literal["meets", "near", "misses", "unknown"]
    grade: Literal["A", "B", "C", "D", ""]


class ObjectiveDocument(TypedDict):
    """One objective; a side is null where it is not set. `part`: the class of the traffic that it is of, if any."""

    name: str
    part: NotRequired[str]
    comparison: Literal["<=", ">="]
    before: FigureDocument | None
    after: FigureDocument | None


class RunDocument(TypedDict):
    """A stored run, as far as a review shows it; `measured` is by the objective's name."""

    run_id: str
    created_utc: str
    profile_sha256: str
    verdict: str
    measured: dict[str, float | None]
    link: str
    signed_by: SignedBy
    signer: str


class EvidenceDocument(TypedDict):
    """The newest run of a profile: `current` where it measured what would be deployed."""

    state: Literal["current", "stale", "claimed", "none"]
    changed_since: list[str]
    run: RunDocument | None


class CurvePointDocument(TypedDict):
    """One level of a predicted curve; see loadproof.review.model.CurvePoint."""

    concurrency: int
    output_tokens_per_s: float
    ttft_ms: float
    tpot_ms: float
    e2e_ms: float


class CurvesDocument(TypedDict):
    """Both sides' predicted curves; a side is empty where nothing is predicted."""

    before: list[CurvePointDocument]
    after: list[CurvePointDocument]


# How many findings are of each severity, in the words of loadproof.review.model.Severity; `break` is no Python name.
CountsDocument = TypedDict("CountsDocument", {"break": int, "risk": int, "warning": int, "info": int})


class CopiesShortDocument(TypedDict):
    """Copies that the workload needs within the objectives, predicted, and the fewer that there may be."""

    needed: int
    most: int


class ProfileDocument(TypedDict):
    """Everything about one profile."""

    environment: str
    profile: str
    file: str
    state: State
    severity: Severity | None
    problems: list[str]
    refusal: str
    findings: list[FindingDocument]
    fields: list[FieldDocument]
    resources: list[ResourceDocument]
    costs: list[CostDocument]
    price_source: str
    objectives: list[ObjectiveDocument]
    evidence: EvidenceDocument
    curves: CurvesDocument
    copies_short: CopiesShortDocument | None
    notes: list[str]


class LeftOutDocument(TypedDict):
    """What a review has and its document has not: whole profiles, their and other findings, and rows of the others."""

    profiles: int
    findings: CountsDocument
    rows: int


class Document(TypedDict):
    """A whole review. `left_out`: only where it is too long to be read again, or has findings of unknown rules."""

    schema_version: int
    base: str
    head: str
    verdict: VerdictDocument
    findings: CountsDocument
    unaffected: int
    not_run: list[str]
    profiles: list[ProfileDocument]
    left_out: NotRequired[LeftOutDocument]
