"""Workload, benchmark and objectives: can this be measured, and would it mean anything (LP250-LP269)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from math import ceil, log
from typing import Final

from loadproof.loads import Load, problems_of
from loadproof.profiles.checks.facts import longest_request_limit, most_tokens
from loadproof.profiles.checks.rule import Found, Subject, reading, rule
from loadproof.profiles.checks.scheduling import is_zone, schedule_problem
from loadproof.profiles.names import BENCHMARK
from loadproof.profiles.schema import Objectives, TokenDistribution

_PERCENTILE: Final = re.compile(r"(ttft|itl|tpot|e2e)_p(\d\d)_ms\Z")
_NEEDS_STREAM: Final = ("ttft", "itl", "tpot")
_ARRIVALS_MENDS: Final = {
    "burstiness": "delete it, or write process: gamma",
    "trace": "delete it, or write process: trace",
}
_SIDES: Final = ("input_tokens", "output_tokens")


@rule(
    "LP250",
    "Distribution that cannot be drawn from",
    reason="A mean, a spread and bounds must be there where the distribution needs them, and agree.",
    mend="fixed: mean; normal and lognormal: mean and stddev; uniform: min and max; empirical: values.",
)
def distributions(subject: Subject) -> Iterator[Found]:
    workload = subject.profile.workload
    for side in _SIDES:
        tokens = getattr(workload, side)
        if isinstance(tokens, TokenDistribution):
            for name, message, mend in _distribution_problems(tokens):
                yield Found(("workload", side, *([name] if name else [])), message, mend)


def _distribution_problems(tokens: TokenDistribution) -> Iterator[tuple[str, str, str]]:
    kind = tokens.distribution
    needed = {"fixed": ("mean",), "uniform": ("max",), "empirical": ("values",)}
    for name in needed.get(kind, ("mean", "stddev")):
        if not getattr(tokens, name):
            yield "", f"{kind} needs `{name}`", f"add `{name}:`"
    useless = {"fixed": ("stddev", "max"), "uniform": ("mean", "stddev"), "empirical": ("mean", "stddev", "min", "max")}
    for name in (*useless.get(kind, ()), *(() if kind == "empirical" else ("values",))):
        if name in tokens.model_fields_set and getattr(tokens, name) not in (None, ()):
            yield name, f"`{name}` has no use with {kind}", "delete it"
    if tokens.max is not None and tokens.min > tokens.max:
        yield "min", f"min {tokens.min} is above max {tokens.max}", f"lower it to at most {tokens.max}"
    elif tokens.mean is not None and kind != "uniform":
        below = tokens.mean < tokens.min
        if below or (tokens.max is not None and tokens.mean > tokens.max):
            bound = f"below min {tokens.min}" if below else f"above max {tokens.max}"
            yield "mean", f"mean {tokens.mean:g} is {bound}", "put it between min and max"


@rule(
    "LP251",
    "Arrivals that lack their rate",
    reason="Open arrivals follow a rate; a closed loop follows benchmark.concurrency and has none.",
    mend="Give requests_per_s with constant, poisson and gamma, burstiness with gamma only, trace with trace.",
)
def arrivals(subject: Subject) -> Iterator[Found]:
    arrivals, benchmark = subject.profile.workload.arrivals, subject.profile.benchmark
    path, process = ("workload", "arrivals"), arrivals.process
    by_rate = process not in ("closed", "trace")
    if by_rate and arrivals.requests_per_s is None:
        yield Found(path, f"{process} needs `requests_per_s`", "add `requests_per_s:`")
    if process == "gamma" and arrivals.burstiness is None:
        yield Found(path, "gamma needs `burstiness`", "add `burstiness:`, 1 for Poisson")
    if process == "trace" and arrivals.trace is None:
        yield Found(path, "trace needs the file of its timestamps", "add `trace:`, a CSV or JSONL file")
    if by_rate and arrivals.from_requests_per_s is not None and benchmark.duration_s is None:
        yield Found((*path, "from_requests_per_s"), "a ramp needs its time", "add `benchmark.duration_s:`")
    useless = {"requests_per_s": by_rate, "from_requests_per_s": by_rate, "burstiness": process == "gamma"}
    for name, has_use in (*useless.items(), ("trace", process == "trace")):
        if getattr(arrivals, name) is not None and not has_use:
            mend = _ARRIVALS_MENDS.get(name, "delete it, or write process: poisson")
            yield Found((*path, name), f"`{name}` has no use with {process}", mend)


@rule(
    "LP252",
    "Requests longer than the server admits",
    reason="Such a request is refused, and the benchmark measures errors.",
    mend="Shorten the workload (give distributions a max), or raise the server's limit.",
)
def request_too_long(subject: Subject) -> Iterator[Found]:
    workload = subject.profile.workload
    prompt, answer = most_tokens(workload.input_tokens), most_tokens(workload.output_tokens)
    for side, most in zip(_SIDES, (prompt, answer), strict=True):
        tokens = getattr(workload, side)
        if most is None and isinstance(tokens, TokenDistribution) and tokens.distribution in ("normal", "lognormal"):
            yield Found(
                ("workload", side), "a tail without end: some requests will be refused", "add `max:`", "warning"
            )
    if not subject.components or prompt is None:
        return
    main = subject.components[0]
    prompt_limit = getattr(main.component.container.settings, "max_input_tokens", None)
    if prompt_limit is not None and prompt > prompt_limit:
        found = f"prompts of up to {prompt} tokens exceed max_input_tokens {prompt_limit}"
        yield Found(("workload", "input_tokens"), found, f"shorten them to {prompt_limit}, or raise the setting")
    limit = longest_request_limit(main)
    if limit is not None and answer is not None and prompt + answer > limit[1]:
        found = f"{prompt} prompt and {answer} answer tokens exceed {limit[1]} ({limit[0]})"
        yield Found(("workload", "output_tokens"), found, "shorten the requests, or raise the limit")


@rule(
    "LP253",
    "Shared prefix longer than the prompt",
    reason="The prefix is part of the prompt.",
    mend="Lower shared_prefix_tokens below the shortest prompt.",
)
def shared_prefix(subject: Subject) -> Iterator[Found]:
    workload = subject.profile.workload
    tokens = workload.input_tokens
    shortest = tokens if isinstance(tokens, int) else int(tokens.mean or tokens.min)
    if workload.shared_prefix_tokens > shortest:
        found = f"{workload.shared_prefix_tokens} shared tokens exceed prompts of {shortest}"
        yield Found(("workload", "shared_prefix_tokens"), found, f"lower it to at most {shortest}")


@rule(
    "LP254",
    "Workload whose parts do not go together",
    reason="What has no effect is a misunderstanding: the benchmark would send something else than was meant.",
    mend="Delete the part that has no use, or add the one it needs.",
)
def workload_parts(subject: Subject) -> Iterator[Found]:
    workload = subject.profile.workload
    if workload.think_time_s and workload.turns == 1:
        found = "a think time goes between the turns of a conversation"
        yield Found(("workload", "think_time_s"), found, "write `turns: 2` or more, or delete it")
    if workload.dataset is not None and workload.shared_prefix_tokens:
        found = "a shared prefix goes with made prompts, not with a dataset"
        yield Found(("workload", "shared_prefix_tokens"), found, "delete one of them")


@rule(
    "LP255",
    "Phase that cannot be driven",
    reason="A phase is one load: so many in flight, or a rate, or a trace, with something that ends it.",
    mend="Give each phase what its process needs, and nothing that belongs to another.",
)
def phases(subject: Subject) -> Iterator[Found]:
    for number, phase in enumerate(subject.profile.benchmark.phases):
        for problem in problems_of(Load(**{name: getattr(phase, name) for name in type(phase).model_fields})):
            found, mend = problem.split("; ")
            yield Found(("benchmark", "phases", number), found, mend)


@rule(
    "LP256",
    "Schedule that EventBridge refuses",
    reason="Its cron has six fields (with a year), one of the two day fields must be `?`, and zones have names.",
    mend="Write cron(minutes hours day-of-month month day-of-week year) or rate(7 days), and a zone like "
    "Europe/Berlin.",
)
def schedule_form(subject: Subject) -> Iterator[Found]:
    benchmark = subject.profile.benchmark
    wrong = schedule_problem(benchmark.schedule) if benchmark.schedule else None
    if wrong:
        yield Found(("benchmark", "schedule"), *wrong)
    if not is_zone(benchmark.timezone):
        yield Found(("benchmark", "timezone"), "not the name of a time zone", "write it like Europe/Berlin, or UTC")


@rule(
    "LP257",
    "Benchmark that cannot wake its endpoint",
    reason="A gate's or a schedule's benchmark wakes an endpoint at zero by a request that is refused; where only "
    "waiting messages wake it, the benchmark ends INVALID, and a gate with rollback turns the deployment back.",
    mend="Set scaling.to_zero.wake_on_failed_invocation to true, or leave gate and schedule out.",
    severity="warning",
)
def cannot_wake(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    zero = profile.scaling.to_zero if profile.scaling is not None else None
    unattended = [name for name in ("gate", "schedule") if getattr(profile.benchmark, name) not in ("none", None)]
    if unattended and zero is not None and zero.wake_on_backlog and not zero.wake_on_failed_invocation:
        found = "its benchmark cannot wake an endpoint that only waiting messages wake"
        mend = "write scaling.to_zero.wake_on_failed_invocation: true, or delete this"
        yield from (Found(("benchmark", name), found, mend) for name in unattended)


@rule(
    "LP260",
    "No objective",
    reason="Without a bound there is nothing to prove: the verdict is NOT JUDGED.",
    mend="Add a bound, such as ttft_p95_ms.",
)
def no_objective(subject: Subject) -> Iterator[Found]:
    objectives = subject.profile.objectives
    if not any(value is not None for name, value in _bounds(objectives)):
        yield Found(("objectives",), "no bound is given", "add one, such as `ttft_p95_ms: 500`")


@rule(
    "LP261",
    "Objective at a level that is not measured",
    reason="The verdict reads the level of at_concurrency; another level is another answer.",
    mend="Add the level to benchmark.concurrency, or change at_concurrency.",
)
def level_not_measured(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    at, levels = profile.objectives.at_concurrency, profile.benchmark.concurrency
    closed = profile.workload.arrivals.process == "closed" and not profile.benchmark.phases
    if closed and at not in levels:
        found = f"{at} is not among the benchmark's levels {', '.join(map(str, levels))}"
        yield Found(("objectives", "at_concurrency"), found, f"add {at} to benchmark.concurrency, or use one of them")


@rule(
    "LP262",
    "Levels out of order",
    reason="A sweep climbs: the knee is where throughput stops growing from one level to the next.",
    mend="Write each level once, ascending.",
)
def levels_ascend(subject: Subject) -> Iterator[Found]:
    levels = subject.profile.benchmark.concurrency
    for at, (left, right) in enumerate(pairwise(levels), start=1):
        if right <= left:
            path = ("benchmark", "concurrency", at)
            yield Found(path, f"{right} follows {left}", "write each level once, ascending")


@rule(
    "LP263",
    "Too few requests for the figure",
    reason="A level of 32 with 16 requests is never reached. A p95 needs 72: an endpoint that misses its bound still "
    "keeps 71 of 71 within it once in 38 times. (A closed loop sends what its objectives need by itself.)",
    mend="Raise requests_per_level, or use a lower percentile.",
)
def too_few_requests(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    requests, path = profile.benchmark.requests_per_level, ("benchmark", "requests_per_level")
    highest = max(profile.benchmark.concurrency)
    by_time = profile.benchmark.duration_s is not None or profile.benchmark.phases
    if by_time or profile.workload.arrivals.process == "trace":
        return
    if profile.workload.arrivals.process == "closed":
        if requests < highest:
            yield Found(path, f"{requests} requests never keep {highest} in flight", f"write at least {highest}")
        return
    percentiles = [(int(match.group(2)), name) for name, match in _percentiles(profile.objectives)]
    if percentiles:
        percent, name = max(percentiles)
        needed = ceil(log(0.025) / log(percent / 100))  # p^n ≤ 2.5%: loadproof.bench.measure.intervals
        if requests < needed:
            found = f"{requests} requests cannot show {name}"
            yield Found(path, found, f"write at least {needed}, or bound a lower percentile", "warning")


@rule(
    "LP264",
    "Objective that is not measured without streaming",
    reason="Without a stream there is no first token and no gap between tokens to time.",
    mend="Stream, or bound e2e instead.",
)
def needs_streaming(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    if profile.workload.streaming:
        return
    for name, match in _percentiles(profile.objectives):
        if match.group(1) in _NEEDS_STREAM:
            found = "not measurable without streaming"
            yield Found(("objectives", name), found, "write workload.streaming: true, or bound e2e instead")


@rule(
    "LP265",
    "Percentiles the wrong way round",
    reason="A p50 bound above the p95 bound can never be the one that fails.",
    mend="Let bounds grow with the percentile.",
    severity="warning",
)
def percentiles_ascend(subject: Subject) -> Iterator[Found]:
    objectives = subject.profile.objectives
    for metric in ("ttft", "itl", "tpot", "e2e"):
        given = [
            (name, getattr(objectives, name)) for name, match in _percentiles(objectives) if match.group(1) == metric
        ]
        for (low, low_ms), (high, high_ms) in pairwise(given):
            if low_ms > high_ms:
                found = f"{low} {low_ms:g} is above {high} {high_ms:g}"
                yield Found(("objectives", low), found, f"lower it to at most {high_ms:g}")


@rule(
    "LP266",
    "Requests are given up before the objective",
    reason="A request that times out is an error, so the bound could never be missed by latency.",
    mend="Raise benchmark.request_timeout_s above the bound.",
)
def timeout_before_objective(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    timeout_s = profile.benchmark.request_timeout_s
    for name, match in _percentiles(profile.objectives):
        bound_ms = getattr(profile.objectives, name)
        if match.group(1) in ("ttft", "e2e") and bound_ms >= timeout_s * 1000:
            found = f"{bound_ms:g} ms is not below the request time-out of {timeout_s:g} s"
            yield Found(("objectives", name), found, "raise benchmark.request_timeout_s, or lower the bound")


@rule(
    "LP267",
    "Level above what the servers admit",
    reason="Past their admission limit servers answer 429, and the level measures refusals.",
    mend="Raise max_concurrent_requests, or lower the level.",
    severity="warning",
)
def above_admission(subject: Subject) -> Iterator[Found]:
    if not subject.components:
        return
    main = subject.components[0].component
    admitted = getattr(main.container.settings, "max_concurrent_requests", None)
    highest = max(subject.profile.benchmark.concurrency)
    copies = max(1, main.copies.min)
    if admitted is not None and highest > admitted * copies:
        admit = "1 copy admits" if copies == 1 else f"{copies} copies admit"
        found = f"level {highest} is above the {admitted * copies} requests that {admit}"
        yield Found(("benchmark", "concurrency"), found, "raise max_concurrent_requests, or lower the level")


@rule(
    "LP268",
    "Gate or schedule without a benchmark in the cloud",
    reason="A deployment's gate and a schedule start the environment's benchmark stack, which runs the image that "
    "environment.yaml names.",
    mend="Name the image under `benchmark:` in environment.yaml, or leave gate and schedule out.",
)
def no_benchmark_stack(subject: Subject) -> Iterator[Found]:
    if subject.environment is None:
        return
    benchmark = subject.profile.benchmark
    if subject.environment.benchmark is not None:
        if subject.profile.name == BENCHMARK:
            yield Found(("name",), f"`{BENCHMARK}` is the name of the environment's own benchmark stack", "rename it")
        return
    mend = "add `benchmark:` with an image to environment.yaml, or delete this"
    if benchmark.gate != "none":
        found = f"gate {benchmark.gate} needs a benchmark in the cloud, and the environment has none"
        yield Found(("benchmark", "gate"), found, mend)
    if benchmark.schedule is not None:
        found = "a schedule needs a benchmark in the cloud, and the environment has none"
        yield Found(("benchmark", "schedule"), found, mend)


reading(
    "LP269",
    "Benchmark longer than a deployment waits",
    reason="CloudFormation waits an hour for a gate with rollback; what is left of it for the benchmark itself is 48 "
    "minutes. The benchmark's own length is the planner's: `loadproof check` and `cdk synth` say it.",
    mend="Fewer or shorter levels, or gate: alarm, for which no deployment waits.",
)


def _bounds(objectives: Objectives) -> Iterator[tuple[str, object]]:
    for name in type(objectives).model_fields:
        if name != "at_concurrency":
            yield name, getattr(objectives, name)


def _percentiles(objectives: Objectives) -> Iterator[tuple[str, re.Match[str]]]:
    """The latency bounds that are given, in the schema's order."""
    for name, value in _bounds(objectives):
        match = _PERCENTILE.match(name)
        if match and value is not None:
            yield name, match
