"""docs/reference-results.md: the files of a run, key by key, from the code that writes them.

What is written from a dataclass is listed from it. What is put together by hand (the summary's frame, `evidence.json`)
is listed from a run that the product's own code writes and judges here, without any endpoint. The words are in
`reference_result_words`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import orjson
from reference_result_words import HEAD, ROWS, SECTIONS, Section

from benchmarks.evidence import write_evidence
from benchmarks.job import machine_conditions
from benchmarks.objectives import Objective
from benchmarks.plan import RunPlan, planned_in_full, write_plan
from benchmarks.records import RecordFile, RequestRecord
from benchmarks.spec import BenchmarkSpec, PredictedPoint, Prediction, ProfileRef, Target, WorkloadSpec, fixed_tokens
from benchmarks.summary import build_summary

__all__ = ["results_page", "sample", "undescribed_results"]
_OBSERVED: Final = (
    {"kind": "deployed", "at_ns": 0, "image": "tgi:3.3.6", "instance_type": "ml.g6e.2xlarge"},
    {"kind": "copies", "at_ns": 0, "current": 1, "desired": 1},
    {"kind": "copies", "at_ns": 1_000_000_000, "current": 1, "desired": 2},
    {"kind": "copies", "at_ns": 90_000_000_000, "current": 2, "desired": 2},
)
_TYPES: Final[dict[Any, str]] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true, false",
    type(None): "null",
    tuple: "list",
    list: "list",
    Sequence: "list",
}


def results_page() -> str:
    """The whole page."""
    documents = sample()
    return "\n".join([HEAD, *(_section(section, documents) for section in SECTIONS)])


def undescribed_results() -> tuple[set[str], set[str]]:
    """(keys without words, words without a key), as `section.key`: both shall be empty."""
    documents = sample()
    keys = {f"{section.name}.{key}" for section in SECTIONS for key, _ in _keys(section, documents)}
    return keys - ROWS.keys(), ROWS.keys() - keys


def sample() -> dict[str, Any]:
    """The files of a made-up run of two levels, written by the code that writes those of a real one."""
    plan = planned_in_full(_plan())
    summary = build_summary(plan, RecordFile(tuple(_records()), 0), observed=_OBSERVED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_plan(folder, plan)
        write_evidence(folder, plan, summary)
        evidence = orjson.loads((folder / "evidence.json").read_bytes())
        planned = orjson.loads((folder / "plan.json").read_bytes())
    found = orjson.loads(orjson.dumps(summary, option=orjson.OPT_SERIALIZE_NUMPY))
    return {"summary": found, "evidence": evidence, "plan": planned}


def _section(section: Section, documents: Mapping[str, Any]) -> str:
    lines = [f"{'#' * section.depth} {section.title}\n", section.text + "\n"]
    keys = list(_keys(section, documents))
    if keys:
        lines += ["| key | value | is |", "|---|---|---|"]
        lines += [f"| `{key}` | {kind} | {ROWS.get(f'{section.name}.{key}', '')} |" for key, kind in keys]
        lines.append("")
    return "\n".join(lines)


def _keys(section: Section, documents: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(key, what its value may be) of a section, in the order in which the file has them."""
    if section.model is not None:
        kinds = get_type_hints(section.model)
        for field in fields(section.model):
            yield field.name, _kind(kinds[field.name])
    known = {field.name for field in fields(section.model)} if section.model else set()
    found: Any = documents
    for step in section.path:
        found = found[step]
    for key, value in found.items() if section.path else ():
        if key not in known:
            yield key, _kind_of(key, value)


def _kind(annotation: Any) -> str:
    """A dataclass's annotation in the words of JSON."""
    origin = get_origin(annotation)
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in get_args(annotation))
    if origin in (UnionType, Union):
        return " or ".join(dict.fromkeys(_kind(one) for one in get_args(annotation)))
    return _TYPES.get(origin or annotation, "map")


def _kind_of(key: str, value: Any) -> str:
    """What a value of the sample is. What is null in it is text elsewhere, or one of two maps."""
    if value is None:
        return "map or null" if key in ("search", "drain") else "text or null"
    return _TYPES.get(type(value), "map")


def _plan() -> RunPlan:
    target = Target("sagemaker", "loadproof-dev-chat", "tgi", component="loadproof-dev-chat-main", region="us-east-1")
    point = PredictedPoint(1, 30.0, 25.0, 1600.0, 40.0, 0.6, (25.0, 36.0), (21.0, 30.0), (1300.0, 2000.0))
    spec = BenchmarkSpec(
        target=target,
        workload=WorkloadSpec(fixed_tokens(256), fixed_tokens(4)),
        concurrency=(1, 2),
        requests_per_level=8,
        warmup_requests=0,
        objectives=(Objective("ttft_p50_ms", 500.0), Objective("e2e_p95_ms", 2000.0)),
        profile=ProfileRef("chat", "deploy_profiles/dev/chat.yaml", "0" * 64, "dev"),
        usd_per_hour=1.0,
        predicted=Prediction("B", (point,)),
    )
    started = "2026-11-22T10:00:00.000Z"
    return RunPlan("20261122-100000-chat", started, 0, spec, machine_conditions(), (started,))


def _records() -> Iterator[RequestRecord]:
    ms = 1_000_000
    for level, concurrency in enumerate((1, 2)):
        for index in range(8):
            start = (level * 8 + index) * 200 * ms
            tokens = tuple(start + (50 + 25 * token + index) * ms for token in range(4))
            yield RequestRecord(
                phase="measured", session=0, level=level, concurrency=concurrency, index=index, intended_ns=start,
                dispatched_ns=start, sent_ns=start, first_token_ns=tokens[0], last_token_ns=tokens[-1],
                end_ns=tokens[-1] + ms, token_times_ns=tokens, tokens_at=(1,) * 4, planned_input_tokens=256,
                planned_output_tokens=4, input_tokens=256, output_tokens=4, token_source="server", stalls_ns=(),
                outcome="ok",
            )  # fmt: skip
