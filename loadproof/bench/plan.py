"""`plan.json`: what a run set out to do, written before the first request and enough to resume or to judge the run."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

import orjson

from loadproof.bench.plain import read_plain
from loadproof.bench.spec import BenchmarkSpec, WorkloadSpec
from loadproof.bench.workload.arrivals import schedule_of
from loadproof.bench.workload.drawn_sessions import DrawnSessions
from loadproof.bench.workload.files import digests_of
from loadproof.errors import InputError
from loadproof.loads import Load
from loadproof.pages.file import write_whole

SCHEMA_VERSION = 1
FILE_NAME = "plan.json"


@dataclass(frozen=True, slots=True)
class PlannedLevel:
    """One level as it is sent."""

    load: Load
    """the load"""
    requests: int | None
    """how many; null: as many as its time allows"""
    schedule_sha256: str | None = None
    """hash of an open loop's due times: the same seed gives the same schedule everywhere"""
    ended_utc: str | None = None
    """null: not ended yet"""
    confirms: bool = False
    """of `--find-max`: sent afresh to confirm its load"""


def planned_level(load: Load, workload: WorkloadSpec, level: int) -> PlannedLevel:
    """Plan one level. Raises InputError for a load that nothing would be sent of.

    An open loop's due times are those of whole conversations; a recorded one may have fewer turns than are planned.
    """
    if not load.is_open:
        return PlannedLevel(load, load.requests)
    schedule = schedule_of(load, workload.seed, level, workload.mixture.requests)
    sessions = DrawnSessions(workload)
    requests = sum(sessions.steps(level, one) for one in range(len(schedule.due_ns)))
    return PlannedLevel(load, requests, schedule.sha256)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run. Times in records count from `zero_unix_ns`; each start of the program on this run is a session."""

    run_id: str
    """the folder's name: time and profile"""
    created_utc: str
    """when the run was started first"""
    zero_unix_ns: int
    """the moment from which all `_ns` count, in Unix time"""
    spec: BenchmarkSpec
    """everything that was decided"""
    conditions: dict[str, Any]
    """machine and versions"""
    sessions_utc: tuple[str, ...]
    """each start of the program on this run: the first and every `--resume`"""
    levels: tuple[PlannedLevel, ...] = ()
    """every level planned so far; those of a search are added one by one"""

    @property
    def loads(self) -> tuple[Load, ...]:
        """Of every level, planned or known from the spec."""
        return tuple(level.load for level in self.levels) or self.spec.fixed_loads

    @property
    def session(self) -> int:
        return len(self.sessions_utc) - 1

    def with_level(self, level: PlannedLevel) -> RunPlan:
        return replace(self, levels=(*self.levels, level))

    def with_end(self, index: int, now_unix_ns: int) -> RunPlan:
        ended = replace(self.levels[index], ended_utc=utc_text(now_unix_ns))
        return replace(self, levels=(*self.levels[:index], ended, *self.levels[index + 1 :]))

    def resumed(self, now_unix_ns: int) -> RunPlan:
        return replace(self, sessions_utc=(*self.sessions_utc, utc_text(now_unix_ns)))


def utc_text(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def planned_in_full(plan: RunPlan) -> RunPlan:
    """The plan with every level that is known ahead; nothing is sent before this holds. Raises InputError."""
    if plan.levels or plan.spec.search is not None:
        return plan
    workload = plan.spec.workload
    levels = (planned_level(load, workload, level) for level, load in enumerate(plan.spec.fixed_loads))
    return replace(plan, levels=tuple(levels))


def new_plan(spec: BenchmarkSpec, run_id: str, now_unix_ns: int, conditions: dict[str, object]) -> RunPlan:
    """A run that begins now, planned in full, its prompts unlike any other run's. Raises InputError."""
    now_utc = utc_text(now_unix_ns)
    spec = replace(spec, workload=replace(spec.workload, salt=run_id), files=digests_of(spec))
    return planned_in_full(RunPlan(run_id, now_utc, now_unix_ns, spec, conditions, (now_utc,)))


def run_id_of(unix_ns: int, name: str) -> str:
    """`20261121-101500-chat`: sortable, and says what it was."""
    safe = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name).strip("-")
    return f"{datetime.fromtimestamp(unix_ns / 1e9, UTC):%Y%m%d-%H%M%S}-{safe[:60] or 'run'}"


def write_plan(folder: Path, plan: RunPlan) -> None:
    write_json(
        folder / FILE_NAME,
        {
            "schema_version": SCHEMA_VERSION,
            "run_id": plan.run_id,
            "created_utc": plan.created_utc,
            "zero_unix_ns": plan.zero_unix_ns,
            "sessions_utc": plan.sessions_utc,
            "conditions": plan.conditions,
            "spec": plan.spec.to_json(),
            "levels": plan.levels,
        },
    )


def read_document(path: Path, missing: str, mend: str, versions: tuple[int, ...] = (SCHEMA_VERSION,)) -> dict[str, Any]:
    """The object in a JSON file of one of these schema versions. Raises InputError: `missing` takes the
    reason why it cannot be read."""
    try:
        row = orjson.loads(read_plain(path))
    except OSError as error:
        raise InputError(f"{path}: {missing.format(error.strerror)}") from None
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON ({error}); {mend}") from None
    if not isinstance(row, dict) or row.get("schema_version") not in versions:
        raise InputError(
            f"{path}: expected schema_version {' or '.join(map(str, versions))}; use the Loadproof that wrote it"
        )
    return row


def read_plan(folder: Path) -> RunPlan:
    """Raises InputError when the folder holds no plan this version understands."""
    path = folder / FILE_NAME
    missing = "not a run folder ({}); give the folder of an earlier run"
    row = read_document(path, missing, "the plan of a run is written once, restore it or start again")
    try:
        plan: RunPlan = _part_of(RunPlan, {name: value for name, value in row.items() if name != "schema_version"})
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: damaged ({error}); restore it or start a new run") from None
    return plan


def _part_of(kind: object, value: Any) -> Any:
    """What `map_of` made a map of, by its type: a dataclass with its parts, a tuple of such, or the value itself.

    Raises TypeError, AttributeError or KeyError for a key that is missing, or of another dataclass.
    """
    if get_origin(kind) is tuple:
        return tuple(_part_of(get_args(kind)[0], one) for one in value)
    if isinstance(kind, type) and is_dataclass(kind):
        types = get_type_hints(kind)
        return kind(**{name: _part_of(types[name], one) for name, one in value.items()})
    if isinstance(kind, UnionType):
        return None if value is None else _part_of(get_args(kind)[0], value)
    return value


def model_of(plan: RunPlan) -> str | None:
    """The id of the model that was asked, as the profile has it; on Bedrock, without a profile, the target's."""
    profile, target = plan.spec.profile, plan.spec.target
    model = profile.document.get("model") if profile and profile.document else None
    if isinstance(model, dict) and isinstance(model.get("id"), str):
        return str(model["id"])
    return target.endpoint if target.kind == "bedrock" else None


ABSENT: Final = {"absent": True}  # metadata of a field whose key is left out where it is None


def map_of(part: Any) -> dict[str, object]:
    """A dataclass as the map that files have of it: its fields in their order."""
    values = ((field, getattr(part, field.name)) for field in fields(part))
    return {field.name: value for field, value in values if value is not None or not field.metadata}


def write_json(path: Path, document: object) -> None:
    """Whole or not at all: a reader never sees half a file, not even after a crash."""
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_DATACLASS
    write_whole(orjson.dumps(document, default=map_of, option=option), path, survives_power_loss=True)
