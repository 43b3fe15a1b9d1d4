"""Workload, benchmark and objectives: can this be measured, and would it mean anything (LP250-LP269)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Final

from loadproof.loads import Load, problems_of
from loadproof.profiles.checks.facts import longest_request_limit, most_tokens
from loadproof.profiles.checks.rule import Found, Subject, reading, rule
from loadproof.profiles.checks.scheduling import is_zone, schedule_problem
from loadproof.profiles.judging import percentiles_of, requests_to_settle
from loadproof.profiles.names import BENCHMARK
from loadproof.profiles.schema import Arrivals, Objectives, Phase, Profile, TokenDistribution
from loadproof.sizing import fewest_requests

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
    "LP258",
    "Benchmark that cannot settle its objectives",
    reason="A p95 needs 72 requests: an endpoint that misses its bound keeps 71 of 71 within it once in 38 times. "
    "Objectives that hold by 5% need more, the more of them there are, or most runs end INCONCLUSIVE. (A closed loop "
    "sends what its objectives need by itself, unless requests_at_objectives says otherwise.)",
    mend="Send more where the objectives are judged, or bound lower percentiles.",
    severity="warning",
)
def cannot_settle(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    benchmark, percentiles = profile.benchmark, percentiles_of(profile.objectives)
    needed = requests_to_settle(profile.objectives)
    if needed is None:
        return
    own = benchmark.requests_at_objectives
    fewest = fewest_requests(max(rank for _, rank in percentiles.values()))
    if own is not None and own < fewest:
        found = f"no {own} requests settle {_named(percentiles)}"
        yield Found(
            ("benchmark", "requests_at_objectives"),
            found,
            f"write at least {fewest}, or delete it: then {needed} go out",
        )
    place, sent = _sent_where_judged(profile)
    if sent is not None and sent < needed:
        found = f"about {sent:,.0f} requests leave {_named(percentiles)} open in most runs, unless far from the bound"
        yield Found(place, found, f"send {needed:,}, which settle what holds by 5% in 4 of 5 runs")


def _named(percentiles: Collection[str]) -> str:
    first, *others = percentiles
    return f"{first} and {len(others)} more" if others else first


def _sent_where_judged(profile: Profile) -> tuple[tuple[str | int, ...], float | None]:
    """(Where it is written, how many requests) of an open or timed level; None where that is not known, or enough."""
    benchmark, arrivals = profile.benchmark, profile.workload.arrivals
    if benchmark.phases:
        at = profile.objectives.at_concurrency
        order = enumerate(benchmark.phases)
        named = [one for one in order if one[1].process == "closed" and one[1].concurrency == at]
        number, phase = named[-1] if named else max(enumerate(benchmark.phases), key=lambda one: _height(*one))
        if phase.process == "trace":
            return ("benchmark", "phases", number), None
        return ("benchmark", "phases", number), _sent(phase, phase.requests, phase.duration_s)
    if arrivals.process in ("closed", "trace"):
        return (), None
    timed = benchmark.duration_s is not None
    place = ("benchmark", "duration_s" if timed else "requests_per_level")
    return place, _sent(arrivals, None if timed else benchmark.requests_per_level, benchmark.duration_s)


def _height(number: int, phase: Phase) -> tuple[bool, float, int]:
    """Judged is the highest open level, or else the highest."""
    return phase.process != "closed", phase.requests_per_s or phase.concurrency or 0, number


def _sent(load: Phase | Arrivals, requests: int | None, duration_s: float | None) -> float | None:
    """What ends first counts. How many requests a closed loop makes in its time, only a planner can tell."""
    if load.requests_per_s is None or duration_s is None:
        return requests
    first = load.requests_per_s if load.from_requests_per_s is None else load.from_requests_per_s
    in_time = (first + load.requests_per_s) / 2 * duration_s
    return in_time if requests is None else min(requests, in_time)


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
    "Level that is never full",
    reason="A level of 32 with 16 requests is never reached.",
    mend="Raise requests_per_level, or lower the level.",
)
def never_full(subject: Subject) -> Iterator[Found]:
    benchmark = subject.profile.benchmark
    if benchmark.duration_s is not None or benchmark.phases or subject.profile.workload.arrivals.process != "closed":
        return
    requests, highest = benchmark.requests_per_level, max(benchmark.concurrency)
    if requests < highest:
        found = f"{requests} requests never keep {highest} in flight"
        yield Found(("benchmark", "requests_per_level"), found, f"write at least {highest}")


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
    for name, (metric, _) in percentiles_of(profile.objectives).items():
        if metric in _NEEDS_STREAM:
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
            (name, getattr(objectives, name)) for name, (of, _) in percentiles_of(objectives).items() if of == metric
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
    for name, (metric, _) in percentiles_of(profile.objectives).items():
        bound_ms = getattr(profile.objectives, name)
        if metric in ("ttft", "e2e") and bound_ms >= timeout_s * 1000:
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
