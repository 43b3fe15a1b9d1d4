"""Values that are well formed and mean nothing, most of which cost money (LP285-LP288, LP342-LP348; more in slips)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from loadproof.families import FAMILIES
from loadproof.profiles.checks.facts import instances_for, known_instances, least_answer_s, mean_tokens
from loadproof.profiles.checks.objectives import MOST_REQUESTS_PER_S
from loadproof.profiles.checks.proving import answer_time_s, slowest_answer_s
from loadproof.profiles.checks.rule import Found, Placed, Subject, component_rule, rule
from loadproof.profiles.schema import (
    Component,
    Endpoint,
    SimpleScaling,
    StepScaling,
    TargetTracking,
    Workload,
    WorkloadClass,
)
from loadproof.profiles.tree import Path

LEAST_TARGET: Final = 0.1
ONE_AT_ONCE, FEW_AT_ONCE = 2, 4  # requests of a copy
LEAST_MEMORY_MIB: Final = 1024
LEAST_CPUS: Final = 1
LEAST_LEVEL_S, SHORT_LEVEL_S = 1.0, 5.0
MOST_TARGET: Final = 2_000
MOST_LEVEL_S: Final = (
    777_600  # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProcessingStoppingCondition.html
)
MOST_WAIT_S: Final = 86_400
LONG_THINKING_S: Final = 1_800  # a pause after which visits to a page are counted as another one
MOST_WARMUP: Final = 10_000
MANY_WARMUP, MANY_BATCHES = 100, 10  # requests, and for each in flight: batches, of which some warm a server
SLACK: Final = 4  # times the copies: an update takes twice, and nobody counts further
SPARE: Final = 2  # instances for a copy, while an update brings its successor
LEAST_TOKEN_BYTES: Final = 3
MOST_ATTEMPTS: Final = 25
LEAST_SILENCE_S: Final = 5
LEASE_S: Final = 60  # the default
FAR_TOO_MANY: Final = 10  # times what there can be use for
MOST_COPIES: Final = 10_000  # more accelerators than any one account is given
OVERFED: Final = 4  # requests for each that servers admit
# Model ids whose config.json names a language model alone (...ForCausalLM): they read text.
TEXT_ONLY: Final = re.compile(
    r"meta-llama/((Meta-)?Llama-(2|3|3\.1|3\.3)-\d+b.*|Llama-3\.2-[13]B.*)|TinyLlama/.*|Qwen/(Qwen2|Qwen2\.5|Qwen3)-[\d.]+B.*"
    r"|mistralai/(Mistral-7B|Mixtral|Mistral-Nemo|Mistral-Large).*|deepseek-ai/DeepSeek-(V2|V3|R1).*|openai/gpt-oss-.*"
    r"|tiiuae/falcon-\d+b.*|microsoft/(phi-[1-4]|Phi-3(\.5)?-mini).*|google/(gemma-2?-?[279]+b|gemma-3-(1b|270m)).*",
    re.IGNORECASE,
)
DATASETS: Final = (".jsonl", ".json")


_WHOLE: Final = ("concurrent_requests_per_copy", "backlog_per_copy")  # one is worked on by one copy


@component_rule(
    "LP285",
    "Target that adds copies for nothing",
    reason="Target tracking adds copies until the metric is at its target, and a step policy as long as its alarm is "
    "above the threshold: near zero, one request brings the most copies there may be. A server answers a batch in "
    "hardly more time than one request, since a step reads its weights once: a copy for each request, or for a tenth "
    "of what one copy is proven to carry, is paid for and idle.",
    mend="Write what one copy is to carry, or auto.",
)
def target_near_zero(placed: Placed) -> Iterator[Found]:
    scaling = placed.component.scaling
    for at, policy in enumerate(scaling.policies if scaling is not None else ()):
        step = policy.as_step() if isinstance(policy, SimpleScaling) else policy
        if isinstance(step, StepScaling) and step.comparison == "above" and step.threshold < LEAST_TARGET:
            found = f"above {step.threshold:g} {step.metric} is every load but none"
            mend = "write what is too much for a copy"
            yield Found(placed.at("scaling", "policies", at, "threshold"), found, mend, "warning")
        if not isinstance(policy, TargetTracking) or policy.target == "auto":
            continue
        place, mend = placed.at("scaling", "policies", at, "target"), "write what a copy is to carry, or auto"
        if policy.target < (1 if policy.metric in _WHOLE else LEAST_TARGET):
            found = f"{policy.target:g} {policy.metric} would bring every copy for one request"
            yield Found(place, found, mend)
        elif placed.is_main and policy.target < _fewest(placed, policy.metric):
            found = f"{policy.target:g} {policy.metric}, where one copy is proven to carry {_proven(placed):g} at once"
            yield Found(place, found, mend, "warning")


def _proven(placed: Placed) -> float:
    """Requests in flight on one copy at which the objectives must hold."""
    endpoint, copies = placed.endpoint, placed.component.copies
    least = endpoint.min_instances if endpoint.hosting == "plain_variant" else copies.min
    return placed.profile.objectives.at_concurrency / max(1, least)


def _fewest(placed: Placed, metric: str) -> float:
    """Below this a target leaves nearly all of a copy idle: one request of four or more; a tenth of the answers a
    minute that a copy makes within its bounds."""
    if metric == "concurrent_requests_per_copy":
        return ONE_AT_ONCE if _proven(placed) >= FEW_AT_ONCE else 0.0
    slowest_s = slowest_answer_s(placed.profile)
    if not metric.startswith("invocations_per_") or not slowest_s:
        return 0.0
    return _proven(placed) / slowest_s * 60 / FAR_TOO_MANY


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
    cpus = placed.component.copies.cpus_per_copy
    if cpus is not None and cpus < LEAST_CPUS:
        found = f"{cpus:g} of a CPU for a server whose HTTP front, tokenizer and scheduler each keep one busy"
        yield Found(
            placed.at("copies", "cpus_per_copy"), found, "write at least 1, some for each accelerator", "warning"
        )


@rule(
    "LP287",
    "Level too short to measure",
    reason="Within less than a second few requests end, or none: what is measured is the start.",
    mend="Let a level and a request last a second at least.",
)
def too_short(subject: Subject) -> Iterator[Found]:
    benchmark = subject.profile.benchmark
    levels: list[tuple[Path, float | None]] = [(("benchmark", "duration_s"), benchmark.duration_s)]
    ramps: list[tuple[Path, float | None]] = []  # each leads to the next level, and may be short
    for at, one in enumerate(benchmark.phases):
        is_ramp = one.from_requests_per_s is not None or one.ramp_s is not None
        (ramps if is_ramp else levels).append((("benchmark", "phases", at, "duration_s"), one.duration_s))
    for at, one in enumerate(benchmark.phases):
        if one.ramp_s is not None and one.duration_s is not None and one.ramp_s > one.duration_s:
            found = f"a ramp of {one.ramp_s:g} s in a phase of {one.duration_s:g} s never gets to its level"
            yield Found(("benchmark", "phases", at, "ramp_s"), found, "write a part of duration_s", "warning")
    for place, seconds in *levels, *ramps, (("benchmark", "request_timeout_s"), benchmark.request_timeout_s):
        if seconds is not None and seconds < LEAST_LEVEL_S:
            yield Found(place, f"{seconds:g} s is too short for a measurement", "write seconds, at least 1")
    bounds_ms = subject.profile.objectives.bounds.items()
    answer_s = max((bound_ms for name, bound_ms in bounds_ms if name.startswith("e2e_")), default=0.0) / 1000
    answer_s = answer_s or answer_time_s(subject) or 0.0
    for place, seconds in levels:
        if seconds is not None and LEAST_LEVEL_S <= seconds < max(SHORT_LEVEL_S, answer_s):
            late = f"before an answer of {answer_s:.3g} s, which is within its bounds"
            found = f"{seconds:g} s end {late if seconds < answer_s else 'where a level has hardly begun'}"
            yield Found(place, found, "write the time of many answers", "warning")


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


@component_rule(
    "LP342",
    "Target that adds no copy",
    reason="Servers refuse what is above their admission limit, so a copy never carries that many requests, nor "
    "answers more of them a minute than so many of a millisecond each, or of the time in which their tokens read "
    "the weights: the metric stays below its target, and no copy "
    "comes however long the queue is.",
    mend="Write what one copy is to carry, or auto.",
)
def target_out_of_reach(placed: Placed) -> Iterator[Found]:
    scaling, component = placed.component.scaling, placed.component
    most = min(MOST_TARGET, _admitted(component) or MOST_TARGET)
    each_s = least_answer_s(placed) if placed.is_main else None
    for at, policy in enumerate(scaling.policies if scaling is not None else ()):
        name = "target" if isinstance(policy, TargetTracking) else "threshold"
        wanted, metric = getattr(policy, name, None), str(getattr(policy, "metric", ""))
        if not isinstance(wanted, int | float):
            continue
        if metric.startswith("concurrent_requests_per_") and wanted > most:
            found = f"{wanted:g} {metric} is above the {most:,} that a copy admits"
            yield Found(placed.at("scaling", "policies", at, name), found, "write what a copy is to carry, or auto")
        elif metric.startswith("invocations_per_") and wanted > most * MOST_REQUESTS_PER_S * 60:
            found = f"{wanted:,.6g} {metric} a minute are more than {most:,} at once can be given"
            yield Found(placed.at("scaling", "policies", at, name), found, "write what a copy is to carry, or auto")
        elif metric.startswith("invocations_per_") and each_s and wanted > most / each_s * 60:
            found = f"{wanted:,.6g} {metric} a minute: {most:,} at once, {each_s:.3g} s each, make less"
            place = placed.at("scaling", "policies", at, name)
            yield Found(place, found, "write what a copy is to carry, or auto", "warning")


@rule(
    "LP343",
    "Longer than anybody waits",
    reason="The longest job that SageMaker runs lasts nine days, and a cooldown or a pause of more than a day "
    "outlasts the traffic that it is about.",
    mend="Write seconds: at most 777,600 for all levels, 86,400 for a cooldown, a drain, a pause or a think time.",
)
def too_long(subject: Subject) -> Iterator[Found]:
    benchmark, workload = subject.profile.benchmark, subject.profile.workload
    lengths: list[tuple[Path, float | None, float]] = [
        (("benchmark", "duration_s"), benchmark.duration_s, MOST_LEVEL_S),
        (("benchmark", "drain_s"), benchmark.drain_s, MOST_WAIT_S),
    ]
    lengths += [
        (("benchmark", "phases", at, "duration_s"), one.duration_s, MOST_LEVEL_S)
        for at, one in enumerate(benchmark.phases)
    ]
    pauses: list[tuple[Path, float | None]] = []
    parts: list[tuple[Path, Workload | WorkloadClass]] = [((), workload)]
    parts += [(("classes", at), one) for at, one in enumerate(workload.classes)]
    for path, part in parts:
        pauses.append((("workload", *path, "think_time_s"), part.think_time_s))
        for at, step in enumerate(part.steps or ()):
            here = ("workload", *path, "steps", at)
            pauses.append(((*here, "pause_s"), step.pause_s))
            lengths.append(((*here, "pause_stddev_s"), step.pause_stddev_s, MOST_WAIT_S))
    lengths += [(place, seconds, MOST_WAIT_S) for place, seconds in pauses]
    for placed in subject.components:
        for at, policy in enumerate(placed.component.scaling.policies if placed.component.scaling else ()):
            for name in ("scale_out_cooldown_s", "scale_in_cooldown_s", "cooldown_s"):
                place = placed.at("scaling", "policies", at, name)
                found = getattr(policy, name, None)
                lengths.append((place, None if found == "auto" else found, MOST_WAIT_S))
        if placed.to_zero is not None and placed.to_zero.wake_cooldown_s != "auto":
            place = placed.at("scaling", "to_zero", "wake_cooldown_s")
            lengths.append((place, placed.to_zero.wake_cooldown_s, MOST_WAIT_S))
    phases = [one.duration_s for one in benchmark.phases] or [benchmark.duration_s] * len(benchmark.concurrency)
    levels_s = [seconds or 0.0 for seconds in phases]
    if max(levels_s) <= MOST_LEVEL_S < sum(levels_s):
        found = f"{len(levels_s)} levels one after another take {sum(levels_s) / 86_400:,.0f} days"
        yield Found(
            ("benchmark", "phases" if benchmark.phases else "duration_s"), found, "shorten them, or drive fewer"
        )
    for place, seconds, most in lengths:
        if seconds is not None and seconds > most:
            yield Found(place, f"{seconds:,.6g} s is {seconds / 86_400:,.0f} days", f"write at most {most:,} seconds")
    for place, seconds in pauses:
        if seconds is not None and LONG_THINKING_S < seconds <= MOST_WAIT_S:
            what = "turns" if place[-1] == "think_time_s" else "steps"
            found = (
                f"{seconds / 3600:,.1f} hours between two {what}: a benchmark waits them, and no cache outlasts them"
            )
            yield Found(place, found, "write seconds: some tens", "warning")
    drain_s, timeout_s = benchmark.drain_s, benchmark.request_timeout_s
    if drain_s is not None and FAR_TOO_MANY * timeout_s < drain_s <= MOST_WAIT_S:
        found = f"{drain_s:,.6g} s for requests that are given up after {timeout_s:g} s each"
        yield Found(("benchmark", "drain_s"), found, "write at most request_timeout_s, or leave it out", "warning")


@rule(
    "LP344",
    "More warm-up than measurement",
    reason="What warms up is sent, paid for and thrown away; a server is warm after some batches.",
    mend="Write a few for each request in flight: more than a hundred, and than ten for each, warm nothing more.",
)
def too_much_warm_up(subject: Subject) -> Iterator[Found]:
    requests = subject.profile.benchmark.warmup_requests
    if requests > MOST_WARMUP:
        found = f"{requests:,} requests would be sent and thrown away"
        yield Found(("benchmark", "warmup_requests"), found, "write some tens of requests")
    benchmark = subject.profile.benchmark
    widest = max((one.concurrency or 1 for one in benchmark.phases), default=max(benchmark.concurrency))
    if max(MANY_WARMUP, MANY_BATCHES * widest) < requests <= MOST_WARMUP:
        found = f"{requests:,} requests are sent and thrown away, with at most {widest:,} in flight"
        yield Found(("benchmark", "warmup_requests"), found, f"write about {4 * widest:,}", "warning")


@rule(
    "LP364",
    "Buffer that does not go with its messages",
    reason="A token of text is three to four bytes, in whatever language; a message that fails each time is "
    "paid for by every attempt before it is put aside, and with one attempt a single broken stream or 5xx buries it. "
    "Longer prompts beside it silence a stream for seconds, and what is cut is generated and paid for again. After a "
    "crash a message waits for its lease: one above an answer's longest time is a wait for nobody.",
    mend="Let a message hold the longest prompt several times over, try a handful of times, keep idle_timeout_s at 5 "
    "or more and lease_s at a minute.",
    severity="warning",
)
def buffer_beside_messages(subject: Subject) -> Iterator[Found]:
    mean = mean_tokens(subject.profile.workload.first_prompts)
    if subject.buffer.max_message_bytes < LEAST_TOKEN_BYTES * mean:
        found = f"{subject.buffer.max_message_bytes:,} bytes hold no prompt of {mean:,.0f} tokens"
        yield Found(("buffer", "max_message_bytes"), found, "raise it, or leave it out")
    if subject.buffer.max_attempts > MOST_ATTEMPTS:
        found = f"{subject.buffer.max_attempts} attempts at a message that fails each time"
        yield Found(("buffer", "max_attempts"), found, "write some: 3 to 10")
    elif subject.buffer.max_attempts == 1:
        yield Found(("buffer", "max_attempts"), "one failure of the model buries a message", "write some: 3 to 10")
    if subject.buffer.idle_timeout_s < LEAST_SILENCE_S:
        found = f"a silence of {subject.buffer.idle_timeout_s} s, which a prompt beside it makes, ends an answer"
        yield Found(("buffer", "idle_timeout_s"), found, f"write at least {LEAST_SILENCE_S}, or leave it out")
    lease_s, longest_s = subject.buffer.lease_s, subject.buffer.invocation_timeout_s
    if lease_s > max(longest_s, LEASE_S):
        found = f"a killed consumer's messages wait {lease_s} s, and no answer takes more than {longest_s}"
        yield Found(("buffer", "lease_s"), found, f"write at most {max(longest_s, LEASE_S)}, or leave it out")


@rule(
    "LP347",
    "Pictures for a model that reads text",
    reason="Its config.json names a language model alone: every request with a picture is refused.",
    mend="Delete workload.images, or name a model that sees.",
)
def no_eyes(subject: Subject) -> Iterator[Found]:
    model_id = subject.components[0].component.model.id if subject.components else ""
    if subject.profile.workload.images is not None and TEXT_ONLY.fullmatch(model_id):
        yield Found(("workload", "images"), f"{model_id} reads text", "delete it, or name a model that sees")


@rule(
    "LP348",
    "More than there can be use for",
    reason="A copy needs at most one instance, and one more while an update replaces it; servers admit so many "
    "requests and refuse the rest; no step adds more copies than there may be. What is above is never used, or only "
    "refused, and costs are told for all of it.",
    mend="Lower endpoint.max_instances to twice the most copies, buffer.max_concurrency to what the copies admit, and "
    "copies.max to what may be paid for.",
    severity="warning",
)
def too_many(subject: Subject) -> Iterator[Found]:
    endpoint, parts = subject.profile.endpoint, subject.components
    copies = sum(placed.component.copies.max for placed in parts)
    on_components = endpoint is not None and endpoint.hosting == "inference_components"  # else instances are copies
    if endpoint is not None and on_components and parts:
        yield from _instances_beyond(subject, endpoint, copies)
    later = endpoint.async_inference if endpoint is not None else None
    batch, at_once = _batch(parts), later.max_concurrent_invocations_per_instance if later is not None else None
    if batch is not None and at_once is not None and at_once > FAR_TOO_MANY * batch:
        found = f"{at_once:,} requests at once to a server whose batch holds {batch:,}"
        setting = "max_concurrent_invocations_per_instance"
        yield Found(("endpoint", "async_inference", setting), found, f"write {batch:,}")
    for placed in parts:
        if placed.component.copies.max > MOST_COPIES:
            found = f"{placed.component.copies.max:,} copies"
            yield Found(placed.at("copies", "max"), found, f"write how many may be paid for, at most {MOST_COPIES:,}")
        for at, policy in enumerate(placed.component.scaling.policies if placed.component.scaling else ()):
            for step, one in enumerate(policy.steps if isinstance(policy, StepScaling) else ()):
                if on_components and abs(one.add_copies) > placed.component.copies.max:
                    place = placed.at("scaling", "policies", at, "steps", step, "add_copies")
                    found = f"{one.add_copies:,} copies at once, of {placed.component.copies.max:,} at most"
                    yield Found(place, found, "write how many come at once")
    buffer = subject.profile.buffer
    if buffer is None or not buffer.enabled or not parts or buffer.max_concurrency == "auto":
        return
    admitted, proven = _admitted(parts[0].component), subject.profile.objectives.at_concurrency
    sent = buffer.max_concurrency * buffer.batch_size
    most = endpoint.max_instances if endpoint is not None and endpoint.hosting == "plain_variant" else copies
    if admitted is None and sent > FAR_TOO_MANY * proven * most:
        found = f"{sent:,} requests at once to {most:,} copies; the objectives are proven at {proven:,} in all"
        yield Found(("buffer", "max_concurrency"), found, "lower it, or write auto")
    if admitted is not None and sent > OVERFED * admitted * parts[0].component.copies.max:
        found = f"{sent:,} requests at once, and the most copies admit {admitted * parts[0].component.copies.max:,}"
        yield Found(("buffer", "max_concurrency"), found, "lower it, or write auto")


def _batch(parts: tuple[Placed, ...]) -> int | None:
    """Sequences that the only model's server runs at once, where the profile says so."""
    container = parts[0].component.container if len(parts) == 1 else None
    return getattr(container.settings, FAMILIES[container.family].sequences_setting or "", None) if container else None


def _instances_beyond(subject: Subject, endpoint: Endpoint, copies: int) -> Iterator[Found]:
    needed = (
        max((instances_for(subject.components, one, "max") for _, one in known_instances(endpoint)), default=0)
        or copies
    )
    if endpoint.max_instances > SLACK * max(needed, endpoint.min_instances):
        found = f"{endpoint.max_instances:,} instances for at most {copies:,} copies, which {needed:,} hold"
        yield Found(("endpoint", "max_instances"), found, f"write at most {SPARE * needed:,}")
    if endpoint.min_instances > SPARE * copies:
        found = f"{endpoint.min_instances:,} instances at the least, for at most {copies:,} copies"
        yield Found(("endpoint", "min_instances"), found, f"write at most {copies:,}")


def _admitted(component: Component) -> int | None:
    """Requests that a copy's server takes in, where the profile says so."""
    return getattr(component.container.settings, "max_concurrent_requests", None)
