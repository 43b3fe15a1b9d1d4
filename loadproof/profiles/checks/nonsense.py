"""Values that are well formed and mean nothing, most of which cost money (LP284-LP288)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.profiles.checks.rule import Found, Placed, Subject, component_rule, rule
from loadproof.profiles.schema import TargetTracking

LEAST_MS: Final = {"ttft": 1.0, "e2e": 1.0, "itl": 0.1, "tpot": 0.1}
LEAST_TARGET: Final = 0.1
LEAST_MEMORY_MIB: Final = 1024
LEAST_LEVEL_S: Final = 1.0
DATASETS: Final = (".jsonl", ".json")


@rule(
    "LP284",
    "Latency bound that no endpoint meets",
    reason="A request's way to SageMaker and back takes a millisecond by itself, and no accelerator makes 10,000 "
    "tokens a second for one answer. The benchmark would run, be paid for, and miss.",
    mend="Write milliseconds: at least 1 for TTFT and E2E, 0.1 for ITL and TPOT.",
)
def impossible_latency(subject: Subject) -> Iterator[Found]:
    for name, bound in subject.profile.objectives.model_dump(exclude_none=True).items():
        least = LEAST_MS.get(name.partition("_")[0])
        if least is not None and name.endswith("_ms") and bound < least:
            found = f"{bound:g} ms is less than any endpoint takes"
            yield Found(("objectives", name), found, f"write milliseconds, at least {least:g}")


@component_rule(
    "LP285",
    "Target that adds copies for nothing",
    reason="Target tracking adds copies until the metric is at its target: near zero, one request brings the most "
    "copies there may be.",
    mend="Write what one copy is to carry, or auto.",
)
def target_near_zero(placed: Placed) -> Iterator[Found]:
    scaling = placed.component.scaling
    for at, policy in enumerate(scaling.policies if scaling is not None else ()):
        if isinstance(policy, TargetTracking) and policy.target != "auto" and policy.target < LEAST_TARGET:
            found = f"{policy.target:g} {policy.metric} would bring every copy for one request"
            yield Found(placed.at("scaling", "policies", at, "target"), found, "write what a copy is to carry, or auto")


@component_rule(
    "LP286",
    "Reserved memory that counts for nothing",
    reason="SageMaker places copies by what they reserve: with less than a server alone takes, more copies land on an "
    "instance than its memory holds.",
    mend="Reserve what server and loading take: 1024 at least, several GiB for a large model.",
)
def too_little_reserved(placed: Placed) -> Iterator[Found]:
    memory_mib = placed.component.copies.memory_mib_per_copy
    if memory_mib < LEAST_MEMORY_MIB:
        found = f"{memory_mib} MiB is less than Python and CUDA take before the first weight"
        yield Found(placed.at("copies", "memory_mib_per_copy"), found, "write MiB, at least 1024", "warning")


@rule(
    "LP287",
    "Level too short to measure",
    reason="Within less than a second few requests end, or none: what is measured is the start.",
    mend="Let a level and a request last a second at least.",
)
def too_short(subject: Subject) -> Iterator[Found]:
    benchmark = subject.profile.benchmark
    lengths = [
        (("benchmark", "duration_s"), benchmark.duration_s),
        (("benchmark", "request_timeout_s"), benchmark.request_timeout_s),
        *((("benchmark", "phases", at, "duration_s"), one.duration_s) for at, one in enumerate(benchmark.phases)),
    ]
    for place, seconds in lengths:
        if seconds is not None and seconds < LEAST_LEVEL_S:
            yield Found(place, f"{seconds:g} s is too short for a measurement", "write seconds, at least 1")


@rule(
    "LP288",
    "Text that names no such file",
    reason="The benchmark would end where it begins, on the file that it cannot read.",
    mend="Name a file of prompts (.jsonl, .json), or the model's tokenizer.json, beside the profile.",
)
def no_such_kind_of_file(subject: Subject) -> Iterator[Found]:
    workload = subject.profile.workload
    if workload.dataset is not None and not workload.dataset.endswith(DATASETS):
        found = f"`{workload.dataset}` is no file of prompts ({', '.join(DATASETS)})"
        yield Found(("workload", "dataset"), found, "name a file beside the profile")
    if workload.tokenizer is not None and not workload.tokenizer.endswith(".json"):
        found = f"`{workload.tokenizer}` is no tokenizer.json"
        yield Found(("workload", "tokenizer"), found, "copy the model's tokenizer.json beside the profile and name it")
