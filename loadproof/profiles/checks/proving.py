"""Benchmark and objectives: can this be measured, and would it mean anything (LP255-LP269)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Final

from loadproof.loads import Load, problems_of
from loadproof.profiles.checks.facts import least_answer_s
from loadproof.profiles.checks.rule import Found, Subject, reading, rule
from loadproof.profiles.checks.scheduling import is_zone, schedule_problem
from loadproof.profiles.judging import latencies_of, requests_to_settle
from loadproof.profiles.mixture import counts_of
from loadproof.profiles.names import BENCHMARK
from loadproof.profiles.promises import promises_of
from loadproof.profiles.schema import Arrivals, Objectives, Phase, Profile
from loadproof.sizing import fewest_requests

CLEARLY: Final = 2  # times: what bounds allow together is slower than nearly every answer
_NEEDS_STREAM: Final = ("ttft", "itl", "tpot")


@rule(
    "LP255",
    "Phase that cannot be driven",
    reason="A phase is one load: so many in flight, or a rate, or a trace, with something that ends it.",
    mend="Give each phase what its process needs, and nothing that belongs to another.",
)
def phases(subject: Subject) -> Iterator[Found]:
    if subject.profile.benchmark.rate is not None:
        yield Found(("benchmark", "rate"), "both `rate` and `phases` are given", "delete one of them")
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
    "waiting messages wake it, the benchmark ends INVALID, and a gate with rollback rolls the deployment back.",
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
    benchmark, needed = profile.benchmark, requests_to_settle(profile)
    ranks = {one.name: rank for one, _, rank in latencies_of(profile) if not one.part}
    if needed is None:
        return
    own = benchmark.requests_at_objectives
    fewest = fewest_requests(max(ranks.values()))
    if own is not None and own < fewest:
        found = f"no {own} requests settle {_named(ranks)}"
        yield Found(
            ("benchmark", "requests_at_objectives"),
            found,
            f"write at least {fewest}, or delete it: then {needed} go out",
        )
    place, sent = sent_where_judged(profile)
    if sent is not None and sent < needed:
        found = f"about {sent:,.0f} requests leave {_named(ranks)} open in most runs, unless far from the bound"
        yield Found(place, found, f"send {needed:,}, which settle what holds by 5% in 4 of 5 runs")


def _named(percentiles: Collection[str]) -> str:
    first, *others = percentiles
    return f"{first} and {len(others)} more" if others else first


def sent_where_judged(profile: Profile) -> tuple[tuple[str | int, ...], float | None]:
    """(Where it is written, how many requests) of an open or timed level; None where that is not known, or enough."""
    benchmark, arrivals = profile.benchmark, profile.workload.arrivals
    if benchmark.phases:
        number, phase = _judged_phase(profile)
        if phase.process == "trace":
            return ("benchmark", "phases", number), None
        return ("benchmark", "phases", number), _sent(phase, phase.requests, phase.duration_s)
    if arrivals.process in ("closed", "trace"):
        return (), None
    timed = benchmark.duration_s is not None
    place = ("benchmark", "duration_s" if timed else "requests_per_level")
    return place, _sent(arrivals, None if timed else benchmark.requests_per_level, benchmark.duration_s)


def _judged_phase(profile: Profile) -> tuple[int, Phase]:
    """The last closed phase of at_concurrency, else the highest: its place and itself."""
    phases = list(enumerate(profile.benchmark.phases))
    at = profile.objectives.at_concurrency
    named = [one for one in phases if one[1].process == "closed" and one[1].concurrency == at]
    return named[-1] if named else max(phases, key=lambda one: _height(*one))


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
    "LP259",
    "Objectives judged at another load than they name",
    reason="Without a closed level of at_concurrency the highest level is judged. An open one keeps rate times answer "
    "time in flight (Little's law): where even answers as slow as their bounds allow make fewer than at_concurrency, "
    "what passes is a lighter load than the one that is promised, planned and reviewed.",
    mend="Raise the rate, add a closed level of at_concurrency, or lower at_concurrency to what is driven.",
    severity="warning",
)
def judged_elsewhere(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    at, load = profile.objectives.at_concurrency, _judged_load(profile)
    place, mend = ("objectives", "at_concurrency"), "add a closed level of it, or write what is driven"
    if isinstance(load, Phase) and load.process == "closed" and load.concurrency not in (None, at):
        yield Found(place, f"judged is the level of {load.concurrency} in flight, and none is of {at}", mend)
    slowest_s = slowest_answer_s(profile)
    if load is None or load.requests_per_s is None or slowest_s is None:
        return
    in_flight = load.requests_per_s * slowest_s
    if in_flight < at:
        found = (
            f"{load.requests_per_s:g} requests a second within the bounds ({slowest_s:.3g} s an answer) keep "
            f"{in_flight:.3g} in flight, not {at}"
        )
        yield Found(place, found, f"raise the rate to {at / slowest_s:.3g}, {mend}")


def _judged_load(profile: Profile) -> Phase | Arrivals | None:
    """None for plain closed levels, which LP261 looks at, and for shapes of a day, whose busiest hour is judged."""
    arrivals = profile.workload.arrivals
    if profile.benchmark.phases:
        return _judged_phase(profile)[1]
    return None if arrivals.hours or arrivals.days else arrivals


def slowest_answer_s(profile: Profile) -> float | None:
    """Seconds of an answer that just meets the loosest bounds; None where they do not say, or more than answers is in
    flight: sessions that pause, or of several kinds."""
    bounds, workload = profile.objectives.bounds, profile.workload
    if workload.turns > 1 or workload.steps or workload.classes:
        return None
    loosest = {
        kind: max((bound for name, bound in bounds.items() if name.startswith(kind)), default=None)
        for kind in ("e2e_", "ttft_", "tpot_")
    }
    if loosest["e2e_"] is not None:
        return loosest["e2e_"] / 1000
    if loosest["ttft_"] is None or loosest["tpot_"] is None:
        return None
    return (loosest["ttft_"] + (counts_of(workload.output_tokens).mean - 1) * loosest["tpot_"]) / 1000


@rule(
    "LP260",
    "No objective",
    reason="Without a bound there is nothing to prove: the verdict is NOT JUDGED.",
    mend="Add a bound, such as ttft_p95_ms.",
)
def no_objective(subject: Subject) -> Iterator[Found]:
    objectives = subject.profile.objectives
    if not any(value is not None for _, value in _bounds(objectives)) and not promises_of(subject.profile):
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
    for one, metric, _ in latencies_of(profile):
        if metric in _NEEDS_STREAM:
            found = "not measurable without streaming"
            yield Found(one.place, found, "write workload.streaming: true, or bound e2e instead")


@rule(
    "LP265",
    "Percentiles the wrong way round",
    reason="A p50 bound above the p95 bound can never be the one that fails.",
    mend="Let bounds grow with the percentile.",
    severity="warning",
)
def percentiles_ascend(subject: Subject) -> Iterator[Found]:
    for (low, metric, _), (high, other, _) in pairwise(latencies_of(subject.profile)):
        if (low.part, metric) == (high.part, other) and low.bound > high.bound:
            found = f"{low.name} {low.bound:g} is above {high.name} {high.bound:g}"
            yield Found(low.place, found, f"lower it to at most {high.bound:g}")


@rule(
    "LP266",
    "Requests are given up before the objective",
    reason="A request that times out is an error, so the bound could never be missed by latency. Nor is there an "
    "answer where the time-out is less than half of what bounds on its first token and on each further one allow "
    "together, or less than its tokens take to read the weights, once each.",
    mend="Raise benchmark.request_timeout_s above the bound.",
)
def timeout_before_objective(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    timeout_s, needed_s = profile.benchmark.request_timeout_s, answer_time_s(subject)
    late = [one for one, metric, _ in latencies_of(profile) if metric in ("ttft", "e2e")]
    late = [one for one in late if one.bound >= timeout_s * 1000]
    for one in late:
        found = f"{one.bound:g} ms is not below the request time-out of {timeout_s:g} s"
        yield Found(one.place, found, "raise benchmark.request_timeout_s, or lower the bound")
    if not late and needed_s is not None and 1 <= timeout_s < needed_s:  # less is LP287's
        found = f"{timeout_s:g} s end before an answer, which takes {needed_s:.3g} s"
        yield Found(("benchmark", "request_timeout_s"), found, "write a minute or more, or leave it out", "warning")


def answer_time_s(subject: Subject) -> float | None:
    """Less than this no whole answer takes, or only one far within its bounds; None where nothing says."""
    allowed_s, least_s = slowest_answer_s(subject.profile), least_answer_s(subject.main)
    return max((allowed_s or 0.0) / CLEARLY, least_s or 0.0) or None


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


@rule(
    "LP363",
    "Word about a gate that there is none of",
    reason="Without a gate no deployment runs a benchmark: what one that proved nothing does is never asked, and where "
    "only the gate's runs count nothing can prove the profile.",
    mend="Write gate: rollback or gate: alarm, or delete it.",
    severity="warning",
)
def no_gate(subject: Subject) -> Iterator[Found]:
    benchmark = subject.profile.benchmark
    if benchmark.gate != "none":
        return
    if benchmark.evidence_from == "gate" and benchmark.schedule is None:
        found = "only the gate's runs count, and there is no gate"
        yield Found(("benchmark", "evidence_from"), found, "write gate: rollback, or evidence_from: any")
    if "gate_unproven" in benchmark.model_fields_set:
        yield Found(("benchmark", "gate_unproven"), "there is no gate", "write gate: rollback, or delete it")


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
