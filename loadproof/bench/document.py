"""The run document: `summary.json`, what a run folder amounts to. One type for who writes it and for all who read it.

Nothing measured is None, never 0. A field without a default is in every summary that was ever written; one with a
default came later, so that old runs are read, too. Keys that a newer version added are ignored; a later
`schema_version` is refused. Version 2 has verdicts that 1 had no word for: NOT JUDGED, and objectives that
are INVALID. Each field's words are in `docs/summary.schema.json` and docs/reference-results.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from loadproof.bench.judge.judgement import Judgement
from loadproof.bench.judge.verdict import Verdict
from loadproof.bench.measure.histogram import HistogramRow
from loadproof.bench.measure.metrics import LevelMetrics
from loadproof.bench.measure.phases import Phases
from loadproof.bench.measure.scaling import Deployed, Scaling
from loadproof.bench.measure.steady import Drain, SteadyState
from loadproof.bench.plain import read_plain
from loadproof.bench.plan import ABSENT, map_of
from loadproof.bench.search.levels import SearchResult
from loadproof.bench.spec import Kind, PredictedPoint, Prediction, ProfileBrief
from loadproof.errors import InputError
from loadproof.knee import Knee
from loadproof.wire.payloads import Protocol

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

SCHEMA_VERSION: Final = 2
SCHEMA_VERSIONS: Final = (1, 2)
FILE_NAME = "summary.json"
MOST_SAID = 5  # problems of one file


@dataclass(frozen=True, slots=True)
class RunTarget:
    """Where requests went, as in the plan."""

    kind: Kind
    """SageMaker's runtime, an HTTP server, or Bedrock"""
    endpoint: str
    """endpoint name, URL, or model id"""
    component: str | None
    """inference component"""
    endpoint_url: str | None
    """other than AWS's own, as for a local cloud"""
    region: str | None
    """AWS region"""
    protocol: Protocol
    """how payloads look"""
    streaming: bool
    """token by token"""


@dataclass(frozen=True, slots=True)
class RunWorkload:
    """What was asked, in short."""

    input_tokens: int
    """mean of what was asked for"""
    output_tokens: int
    """mean of what was asked for"""
    seed: int
    """of lengths, texts and arrivals"""
    input_distribution: str | None = None
    """its shape"""
    output_distribution: str | None = None
    """its shape"""
    shared_prefix_tokens: int | None = None
    """common beginning"""
    name: str | None = None
    """of a named workload"""
    unique_prompts: bool | None = None
    """no two begin alike"""
    turns: int | None = None
    """of a conversation"""
    think_time_s: float | None = None
    """between turns"""
    sessions: tuple[str, ...] | None = None
    """a line a class, in words; null: single requests of one kind"""
    answer_length: str | None = None
    """whether shorter answers are held against the model"""
    dataset: str | None = None
    """file of recorded prompts"""
    dataset_sha256: str | None = None
    """its hash"""
    prompt_tokens_counted_by: str | None = None
    """a tokenizer, or words"""
    images: str | None = None
    """in words"""
    requests_per_level: int | None = None
    """as in the plan"""
    warmup_requests: int | None = None
    """as in the plan"""
    request_timeout_s: float | None = None
    """as in the plan"""


@dataclass(frozen=True, slots=True)
class Imported:
    """Of a run that another program sent."""

    files: tuple[str, ...]
    """what was read"""
    measured: str | None
    """day of the measurement"""
    note: str
    """what is not known of it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What may explain a difference. Of machine and program only what is known is there."""

    loadproof: str | None = field(default=None, metadata=ABSENT)
    """version"""
    python: str | None = field(default=None, metadata=ABSENT)
    """version"""
    platform: str | None = field(default=None, metadata=ABSENT)
    """operating system and machine of the client"""
    cpu_count: int | None = field(default=None, metadata=ABSENT)
    """cores of the client"""
    event_loop: str | None = field(default=None, metadata=ABSENT)
    """`uvloop` or `asyncio`"""
    hosts: Mapping[str, str] | None = field(default=None, metadata=ABSENT)
    """of a run from several machines: what each sent, in words"""
    imported: Imported | None = field(default=None, metadata=ABSENT)
    """where another program's files come from"""
    model: str | None = field(default=None, metadata=ABSENT)
    """as those files name it"""
    server: str | None = field(default=None, metadata=ABSENT)
    """as those files name it"""
    instance_type: str | None = field(default=None, metadata=ABSENT)
    """as those files name it"""
    instance_count: int | None = field(default=None, metadata=ABSENT)
    """as those files say"""
    local_cloud: bool = False
    """true: not AWS"""
    backend: Literal["twin", "http"] | None = None
    """what answers behind a local cloud: `twin` means that every latency is simulated"""
    sessions: int = 1
    """starts of the program on this run"""
    torn_lines: int = 0
    """of requests.jsonl: cut off by a crash"""
    interrupted: bool = False
    """by Ctrl-C"""
    usd_per_hour: float | None = None
    """that costs are computed from"""
    price: str | None = field(default=None, metadata=ABSENT)
    """where that price is from, and when it was seen"""
    max_error_rate: float | None = field(default=None, metadata=ABSENT)
    """share of requests that may fail; only where no objective bounds it"""
    rules: Mapping[str, str] = field(default_factory=dict)
    """how percentiles, intervals, latency, gaps, answers and validity are reckoned, in words"""


@dataclass(frozen=True, slots=True)
class Planned:
    """The level in the plan: its index, and of its load what is said."""

    level: int | None = None
    """index"""
    process: str | None = field(default=None, metadata=ABSENT)
    """closed loop, or the arrivals of an open one"""
    concurrency: int | None = field(default=None, metadata=ABSENT)
    """requests in flight, of a closed loop"""
    ramp_s: float | None = field(default=None, metadata=ABSENT)
    """over how long its slots are opened"""
    requests_per_s: float | None = field(default=None, metadata=ABSENT)
    """the rate of an open loop"""
    from_requests_per_s: float | None = field(default=None, metadata=ABSENT)
    """the rate that a ramp starts from"""
    speed: float | None = field(default=None, metadata=ABSENT)
    """how many times as fast a trace was played"""
    burstiness: float | None = field(default=None, metadata=ABSENT)
    """shape of gamma arrivals; 1 is Poisson"""
    trace: str | None = field(default=None, metadata=ABSENT)
    """file of recorded traffic"""
    requests: int | None = field(default=None, metadata=ABSENT)
    """ends the level"""
    duration_s: float | None = field(default=None, metadata=ABSENT)
    """ends the level, whichever comes first"""

    @property
    def load(self) -> float | None:
        """In flight, or requests per second."""
        return self.requests_per_s if self.concurrency is None else self.concurrency


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What was sent before the level and counts in no figure."""

    requests: int
    """ended or not"""
    errors: int
    """of these"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level(LevelMetrics):
    """The figures of one level."""

    valid: bool
    """it was the load asked for: offered, and nothing of it lost"""
    invalid_reasons: tuple[str, ...]
    """why not"""
    never_full: str | None = None
    """why a closed loop cannot be as concurrent as it is called, or null"""
    planned: Planned = field(default_factory=Planned)
    """index and load of the plan"""
    warm_up: WarmUp | None = None
    """before the level"""
    steady_state: SteadyState = field(default_factory=SteadyState)
    """the part after the start-up"""
    phases: Phases = field(default_factory=Phases)
    """queue, prefill, decode"""
    histograms: Mapping[str, HistogramRow] = field(default_factory=dict)
    """latencies as buckets"""
    drain: Drain | None = None
    """what was cut off at the end, or null"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What the folder amounts to."""

    schema_version: Literal[1, 2]
    """2; 1 in older runs"""
    run_id: str
    """the folder's name"""
    created_utc: str
    """when the run was started first"""
    loadproof_version: str
    """that sent it"""
    target: RunTarget
    """where requests went"""
    profile: ProfileBrief | None
    """as in the plan, or null"""
    workload: RunWorkload
    """what was asked"""
    conditions: Conditions
    """machine, versions, rules"""
    levels: tuple[Level, ...]
    """a level that nothing was recorded of is absent"""
    deployed: Deployed | None = None
    """image and instance type, or null"""
    scaling: Scaling | None = None
    """copies and scale-outs, or null"""
    search: SearchResult | None = None
    """what a sweep or `--find-max` found, or null"""
    knee: Knee | None
    """where latency starts to be paid for little throughput, or null"""
    predicted: Prediction | None
    """as in the plan, or null; never measured"""
    objectives: tuple[Judgement, ...]
    """each judged"""
    verdict: Verdict
    """the outcome and why"""

    @property
    def name(self) -> str:
        """The profile's, else the endpoint's."""
        return (self.profile.name if self.profile else self.target.endpoint) or self.run_id

    @property
    def place(self) -> str:
        """The load that the objectives must hold at."""
        return self.verdict.at_load or f"{self.verdict.at_concurrency} in flight"

    @property
    def on_twin(self) -> bool:
        """The local cloud's twin answered: every figure is predicted. Old runs had no other backend to name."""
        return self.conditions.local_cloud and self.conditions.backend in (None, "twin")

    @property
    def knee_concurrency(self) -> int | None:
        """Where the knee is; None when there is none within the levels tried."""
        return self.knee.concurrency if self.knee and self.knee.reached else None

    def is_judged(self, level: Level) -> bool:
        """A search may measure one load several times: then only one of its levels is judged."""
        if self.verdict.at_level is not None and level.planned.level is not None:
            return level.planned.level == self.verdict.at_level
        return level.concurrency == self.verdict.at_concurrency

    def prediction_of(self, level: Level) -> PredictedPoint | None:
        """What was expected of a level: of an open loop at its rate, whatever was in flight."""
        found = self.predicted.levels if self.predicted else ()
        place = level.load or level.concurrency
        return next((point for point in found if (point.load or point.concurrency) == place), None)

    def by_concurrency(self) -> Summary:
        """With its levels in that order."""
        return replace(self, levels=tuple(sorted(self.levels, key=lambda level: level.concurrency)))


def read_summary(folder: Path) -> Summary:
    """Raises InputError: no summary, not JSON, of another schema version, a key missing or of a wrong type."""
    path = folder / FILE_NAME
    try:
        content = json.loads(read_plain(path).decode())
    except FileNotFoundError:
        if (folder / "plan.json").exists():
            raise InputError(
                f"{path}: not found: the run was cut off; finish it with loadproof bench --resume {folder}"
            ) from None
        raise InputError(f"{path}: not found; give the folder of a run (it holds summary.json)") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give the folder of a run") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); run the benchmark again") from None
    return summary_of(content, str(path))


def summary_of(content: object, where: str) -> Summary:
    """The summary in parsed JSON. Raises InputError as `read_summary` does, naming `where`."""
    found = content if isinstance(content, dict) else {}
    version = found.get("schema_version")
    if version not in SCHEMA_VERSIONS:
        wrote = f" ({str(found['loadproof_version'])[:40]})" if "loadproof_version" in found else ""
        raise InputError(
            f"{where}: schema_version: expected {' or '.join(map(str, SCHEMA_VERSIONS))}, "
            f"found {json.dumps(version)[:40]}; "
            f"render the run with the Loadproof that wrote it{wrote}, or a later one"
        )
    from pydantic import ValidationError  # noqa: PLC0415  who writes a summary needs no pydantic

    try:
        return _reader().validate_python([content])[0]
    except ValidationError as error:
        raise InputError("\n".join(_sentences(where, error))) from None


def as_json(part: object) -> dict[str, object]:
    """A document or a part of it as parsed JSON, as its file has it."""
    # Not orjson: what others wrote may hold text that is no Unicode.
    row: dict[str, object] = json.loads(json.dumps(part, default=map_of))
    return row


@cache
def _reader() -> TypeAdapter[list[Summary]]:
    from pydantic import ConfigDict, TypeAdapter  # noqa: PLC0415  who writes a summary needs no pydantic

    # A list, because pydantic hands a configuration down to dataclasses only from what holds them.
    return TypeAdapter(list[Summary], config=ConfigDict(extra="ignore", allow_inf_nan=False))


def _sentences(where: str, error: ValidationError) -> list[str]:
    said = [
        f"{where}: {'.'.join(str(step) for step in found['loc'][1:])}: {found['msg']}, "
        f"found {json.dumps(found['input'], default=str)[:80]}; run the benchmark again"
        for found in error.errors(include_url=False)
    ]
    return said if len(said) <= MOST_SAID else [*said[:MOST_SAID], f"{where}: {len(said) - MOST_SAID} more like these"]
