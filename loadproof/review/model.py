"""What a review is made of. Frozen, and free of git, files and clocks: whoever reads those fills in `Side`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from loadproof import rules
from loadproof.errors import Problem
from loadproof.profiles import Environment, Profile
from loadproof.sessions import label_of
from loadproof.usd import usd_per_month

Severity = Literal["info", "warning", "risk", "break"]
SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "risk", "break")  # the worst last
Finding: TypeAlias = rules.Finding[str, Severity]  # at a field path or a logical id
Action = Literal["add", "update", "replace", "remove"]
SignedBy = Literal["gate", "person", "claimed"]


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a trace says: `figures` by what they are of, in words; `wrong` is what a benchmark cannot send of it.

    `planned` is the profile with the trace's requests in place of its own lengths, None where nothing was fitted;
    `unread` then says why, if the file is no wrong one.
    """

    figures: Mapping[str, str] = field(default_factory=dict)
    wrong: str = ""
    planned: Profile | None = None
    unread: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """One profile at one ref, with what it synthesizes to.

    `file` is relative to the repository. `profile` is None where the checks refuse it, and for the stacks that belong
    to an environment rather than to a profile. `templates` are CloudFormation templates by stack name; empty where the
    side could not be synthesized, `refusal` then says why, unless `problems` do. `places` is where the fields that the
    file or a parent writes stand, (file, line) by field path; empty where nobody looked. `data` are ids of contents, by
    file: what the benchmark reads beside the profile; of an environment, who may sign evidence. `converted`: files that
    git writes otherwise at checkout than they were read, by what (`eol=crlf`); of an environment those of code too.
    `traffic` is what the traces among `data` say, by file; `arrivals` is the one that the workload's arrivals name.
    """

    file: str
    environment: Environment | None
    profile: Profile | None
    templates: Mapping[str, Mapping[str, object]]
    problems: tuple[Problem, ...] = ()
    refusal: str = ""
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    converted: Mapping[str, str] = field(default_factory=dict)
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    arrivals: str = ""

    @property
    def planned(self) -> Profile | None:
        """The profile as a plan reckons with it: with the requests of its trace, where that was read."""
        traffic = self.traffic.get(self.arrivals)
        return self.profile if traffic is None or traffic.planned is None else traffic.planned


@dataclass(frozen=True, slots=True)
class Pair:
    """The same profile of the same environment before and after; None where there is none."""

    environment_name: str
    name: str
    before: Side | None
    after: Side | None


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of a profile: `path` as check writes it (`scaling.policies[0].target`); None where a side has none."""

    path: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """One property of a resource, `path` in CloudFormation's words (`ProductionVariants/0/InstanceType`)."""

    path: str
    before: object
    after: object
    replaces: bool


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """What the deployment does to one resource.

    `cause` says why a resource is replaced or updated that has no such change of its own: the logical id it refers to.
    `expected` marks replacements that are how this type is changed at all (endpoint configurations, models).
    `kept` is True where the old physical resource outlives its removal (deletion policy Retain).
    `possible` marks a replacement that only AWS decides on (conditionally create-only properties).
    """

    stack: str
    logical_id: str
    type: str
    action: Action
    properties: tuple[PropertyChange, ...] = ()
    cause: str = ""
    expected: bool = False
    kept: bool = False
    possible: bool = False


@dataclass(frozen=True, slots=True)
class CostFigure:
    """USD per hour on one side; None without a known price. A month is 730 hours."""

    usd_per_hour: float | None

    @property
    def usd_per_month(self) -> float | None:
        return usd_per_month(self.usd_per_hour)


@dataclass(frozen=True, slots=True)
class CostChange:
    """`at`: the fewest copies, those the workload needs (predicted), the most; None for a side where nothing runs."""

    at: Literal["minimum", "expected", "maximum"]
    before: CostFigure | None
    after: CostFigure | None

    @property
    def delta_usd_per_month(self) -> float | None:
        """After - before; where nothing runs costs nothing. None where a side's price is not known."""
        before = 0.0 if self.before is None else self.before.usd_per_month
        after = 0.0 if self.after is None else self.after.usd_per_month
        return None if before is None or after is None else after - before


@dataclass(frozen=True, slots=True)
class PredictedFigure:
    """An objective as the planner sees it on one side: bound, prediction with its interval, the plan's grade."""

    bound: float | None
    predicted: float | None
    low: float | None
    high: float | None
    expected: Literal["meets", "near", "misses", "unknown"]
    grade: str


@dataclass(frozen=True, slots=True)
class ObjectiveChange:
    """One objective before and after; None where that side does not have it.

    `part` is the class of the traffic that it is of, empty: of all requests; `path` is where the head writes it, else
    the base.
    """

    name: str
    comparison: Literal["<=", ">="]
    before: PredictedFigure | None
    after: PredictedFigure | None
    part: str = ""
    path: str = ""

    @property
    def label(self) -> str:
        """`ttft_p95_ms`, or `ttft_p95_ms of agent`: as a benchmark names what it judges."""
        return label_of(self.name, self.part)


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A stored run, as far as a review needs it: `profile` is the one it measured (None: only its hash is known)."""

    run_id: str
    created_utc: str
    profile_name: str
    environment_name: str | None
    profile_sha256: str
    verdict: str
    measured: Mapping[str, float | None]  # objective, as ObjectiveChange.label names it -> figure
    profile: Mapping[str, object] | None = None
    link: str = ""
    signed_by: SignedBy = "claimed"
    signer: str = ""  # as BASE's signers.yaml names it; empty: claimed
    proves: bool = True  # False: nobody signed it whose word this profile takes, or it measured something else
    elsewhere: tuple[str, ...] = ()  # how what it measured is not what this profile deploys
    gone: bool = False  # True: BASE keeps it, and HEAD does not, or not as it was


@dataclass(frozen=True, slots=True)
class EvidenceState:
    """The newest run of the profile: `current` if its hash is the head's, else `stale` with what changed since.

    `claimed`: there are only runs that prove nothing, since nobody signed them whose word counts, or since they
    measured something else: then `changed_since` says what. `gone` are runs that the change takes away.
    """

    state: Literal["current", "stale", "claimed", "none"]
    run: MeasuredRun | None = None
    changed_since: tuple[str, ...] = ()
    gone: tuple[MeasuredRun, ...] = ()


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One level of a predicted curve: requests in flight, output tokens per second, mean latencies in ms."""

    concurrency: int
    output_tokens_per_s: float
    ttft_ms: float
    tpot_ms: float
    e2e_ms: float


@dataclass(frozen=True, slots=True)
class Curves:
    """Both sides' predicted latency-throughput curves, rising in concurrency; empty for a side without a plan."""

    before: tuple[CurvePoint, ...] = ()
    after: tuple[CurvePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileReview:
    """Everything about one pair.

    `copies_short` is (copies that the workload needs, the most there may be) of what would be deployed, predicted; None
    where these are enough, and where nobody knows.
    """

    pair: Pair
    fields: tuple[FieldChange, ...]
    resources: tuple[ResourceChange, ...]
    findings: tuple[Finding, ...]
    costs: tuple[CostChange, ...]
    objectives: tuple[ObjectiveChange, ...]
    evidence: EvidenceState
    price_source: str = ""
    notes: tuple[str, ...] = ()
    curves: Curves = Curves()
    copies_short: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """A whole review; `unaffected` counts the profiles that neither side's change touches.

    `not_run` are files of code that the change touches, and that nothing was synthesized by: only BASE's was trusted.
    """

    base: str
    head: str
    profiles: tuple[ProfileReview, ...]
    unaffected: int
    not_run: tuple[str, ...] = ()
