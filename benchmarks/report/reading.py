"""What the report reads: `summary.json` (docs/decisions/0001), typed where the page depends on it.

Every figure may be null or missing, for a run that was interrupted still deserves its page; a wrong type is an
`InputError` that names the place. Fields this page does not know are ignored, so that writers may add some.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loadproof.errors import InputError

SCHEMA_VERSION = 1


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Percentiles(_Part):
    """One latency at its statistics, in milliseconds. None is "no data"."""

    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None
    max: float | None = None


class PlannedLevel(_Part):
    """The level's place among those of the run."""

    level: int | None = None
    concurrency: int | None = None
    requests_per_s: float | None = None

    @property
    def load(self) -> float | None:
        """In flight, or requests per second."""
        return self.requests_per_s if self.concurrency is None else self.concurrency


class SteadyState(_Part):
    """`reached` None: nothing is known about it."""

    reached: bool | None = None
    growing: bool = False
    excluded_requests: int = 0


class Phases(_Part):
    """Where the time of a level's requests went, in milliseconds; `baseline` is where prefill is taken from."""

    baseline: str | None = None
    queue_ms: Percentiles = Percentiles()
    prefill_ms: Percentiles = Percentiles()
    decode_ms: Percentiles = Percentiles()


class CopyCount(_Part):
    at_s: float
    current: int
    desired: int


class ScaleOut(_Part):
    before: int
    after: int
    started_s: float
    seconds: float | None = None
    by: str = "observed"
    after_load_s: float | None = None


class Activity(_Part):
    """One scaling activity of Application Auto Scaling; nanoseconds since the run's zero."""

    start_ns: int
    end_ns: int | None = None
    status: str = ""
    description: str = ""
    cause: str | None = None


class Scaling(_Part):
    """What was observed of the copies while load ran; seconds count from the run's zero."""

    copies: list[CopyCount] = Field(default_factory=list)
    scale_outs: list[ScaleOut] = Field(default_factory=list)
    resolution_s: float | None = None
    clock_speed: float = 1.0
    activities: list[Activity] = Field(default_factory=list)
    problems: list[str] = Field(default_factory=list)


class Level(_Part):
    """One concurrency of the sweep, measured."""

    concurrency: int
    requests: int | None = None
    errors: int | None = None
    errors_by_kind: dict[str, int] = Field(default_factory=dict)
    error_examples: dict[str, str] = Field(default_factory=dict)
    unfinished: int | None = None
    duration_s: float | None = None
    ttft_ms: Percentiles = Percentiles()
    itl_ms: Percentiles = Percentiles()
    tpot_ms: Percentiles = Percentiles()
    e2e_ms: Percentiles = Percentiles()
    lag_ms: Percentiles = Percentiles()
    output_tokens_per_s: float | None = None
    input_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    goodput_per_s: float | None = None
    cost_per_million_output_tokens_usd: float | None = None
    cost_per_million_tokens_usd: float | None = None
    cost_per_thousand_requests_usd: float | None = None
    phases: Phases = Phases()
    histograms: dict[str, dict[str, Any]] = Field(default_factory=dict)
    valid: bool = True
    invalid_reasons: list[str] = Field(default_factory=list)
    never_full: str | None = None  # why it was not as concurrent as it is called
    token_source: str | None = None
    asked_output_tokens: float | None = None
    answered_output_tokens: float | None = None
    wrong_counts: int | None = None  # answers whose server counted tokens that cannot be
    load: str | None = None  # an open loop's, in words; `concurrency` is then the mean in flight
    planned: PlannedLevel = PlannedLevel()
    steady_state: SteadyState = SteadyState()


class PredictedLevel(_Part):
    """One level, as the planner expects it, or of an open loop (`load`) the twin; ranges are (low, high)."""

    concurrency: int
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    output_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    ttft_range_ms: tuple[float, float] | None = None
    tpot_range_ms: tuple[float, float] | None = None
    e2e_range_ms: tuple[float, float] | None = None
    load: str | None = None
    error_rate: float | None = None


class Predicted(_Part):
    grade: str | None = None
    levels: list[PredictedLevel] = Field(default_factory=list)


class Knee(_Part):
    concurrency: int
    rule: str | None = None
    reason: str | None = None
    reached: bool = True


class Objective(_Part):
    """A bound, what was observed at the judged concurrency, and the observation's confidence interval.

    `low` or `high` None: the requests are too few for that end.
    """

    name: str
    comparison: str = "<="
    bound: float
    observed: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    verdict: Literal["PASS", "FAIL", "INCONCLUSIVE"]
    requests: int | None = None
    more_requests: int | None = None
    doubt: str | None = None  # why no number of requests settles it


class Probe(_Part):
    """One measurement of a search, and whether its load met."""

    value: float
    met: bool


class Search(_Part):
    """What chose the levels; its lines are told as everywhere (`search_lines`)."""

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str
    probes: list[Probe] = Field(default_factory=list)

    def votes(self, load: float | None) -> tuple[int, int]:
        """How many measurements of a load met, and how many there were."""
        cast = [probe.met for probe in self.probes if probe.value == load]
        return sum(cast), len(cast)


class Verdict(_Part):
    outcome: Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID"]
    at_concurrency: int | None = None
    at_load: str | None = None
    at_level: int | None = None
    reasons: list[str] = Field(default_factory=list)


class Target(_Part):
    model_config = ConfigDict(extra="allow", frozen=True)
    endpoint: str | None = None


class ProfileReference(_Part):
    model_config = ConfigDict(extra="allow", frozen=True)
    name: str


class Summary(_Part):
    """The whole of `summary.json`."""

    schema_version: int
    run_id: str
    created_utc: str | None = None
    loadproof_version: str | None = None
    target: Target = Target()
    profile: ProfileReference | None = None
    workload: dict[str, Any] = Field(default_factory=dict)
    conditions: dict[str, Any] = Field(default_factory=dict)
    levels: list[Level] = Field(default_factory=list)
    knee: Knee | None = None
    predicted: Predicted | None = None
    objectives: list[Objective] = Field(default_factory=list)
    verdict: Verdict
    search: Search | None = None
    scaling: Scaling | None = None
    deployed: dict[str, Any] | None = None

    @property
    def knee_concurrency(self) -> int | None:
        """Where the knee is; None when there is none within the levels tried."""
        return self.knee.concurrency if self.knee and self.knee.reached else None

    def prediction_of(self, level: Level) -> PredictedLevel | None:
        """What was expected of a level: of an open loop at its rate, whatever was in flight."""
        found = self.predicted.levels if self.predicted else []
        place = level.load or level.concurrency
        return next((point for point in found if (point.load or point.concurrency) == place), None)


def read_summary(run_folder: Path) -> Summary:
    """Read `summary.json`, levels sorted by concurrency.

    Raises InputError if the file is missing, is not JSON, has another schema version or a field of a wrong type.
    """
    path = run_folder / "summary.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if (run_folder / "plan.json").exists():
            raise InputError(
                f"{path}: not found: the run was cut off; finish it with loadproof bench --resume {run_folder}"
            ) from None
        raise InputError(f"{path}: not found; give the folder of a run (it holds summary.json)") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give the folder of a run") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); run the benchmark again") from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version: expected {SCHEMA_VERSION}, found {json.dumps(version)[:40]}; "
            "render the run with the Loadproof that wrote it"
        )
    try:
        summary = Summary.model_validate(content)
    except ValidationError as error:
        raise InputError("\n".join(_sentences(path, error))) from None
    levels = sorted(summary.levels, key=lambda level: level.concurrency)
    return summary.model_copy(update={"levels": levels})


def _sentences(path: Path, error: ValidationError) -> list[str]:
    return [
        f"{path}: {'.'.join(str(step) for step in found['loc'])}: {found['msg']}, "
        f"found {json.dumps(found['input'], default=str)[:80]}; run the benchmark again"
        for found in error.errors(include_url=False)
    ]
