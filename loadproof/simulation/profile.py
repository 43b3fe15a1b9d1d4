"""A whole profile in virtual time: its workload against its copies, scaling policies and limits. All is *predicted*."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from math import ceil
from typing import Final

from loadproof.capacity import Deployment, deployment_of, memory_fit, weight_bytes
from loadproof.capacity.workload import mean_tokens
from loadproof.errors import InputError
from loadproof.profiles.schema import Component, Profile, ScheduledScaling
from loadproof.profiles.schema import StepScaling as StepPolicy
from loadproof.profiles.schema import TargetTracking as TrackingPolicy
from loadproof.profiles.settings import components_of
from loadproof.simulation.closed_loop import fresh_copies
from loadproof.simulation.elastic import CopyCount, ElasticCopies, Machines, StartUp
from loadproof.simulation.fleet import Routing, simulate_fleet
from loadproof.simulation.results import Result, SimulatedRequest, SimulationSummary, summarise
from loadproof.simulation.scaling import Autoscaler, BoundsChange, Metric, Policy, StepScaling, TargetTracking, WakeUp
from loadproof.simulation.schedules import changes_of
from loadproof.simulation.scheduling import Scheduler
from loadproof.simulation.sizes import request_sizes
from loadproof.simulation.traffic import ClosedLoop, OpenLoop, Process, arrival_times_ms, ramped_times_ms
from loadproof.simulation.windows import Window, Windows

# SageMaker's own limits on one invocation.
WHOLE_ANSWER_LIMIT_S: Final = 60.0
STREAM_LIMIT_S: Final = 480.0

# How long a copy takes to come up. No published table tells these apart: orders of magnitude whose sum from zero for
# an 8B model, alarm included, is about the 9.4 minutes that a third party measured. Give your own where you know them.
INSTANCE_START_S: Final = 240.0
IMAGE_PULL_S: Final = 120.0
WEIGHTS_GIB_PER_S: Final = 0.5
SERVER_START_S: Final = 60.0

MONDAY: Final = datetime(2026, 1, 5, tzinfo=UTC)
MOST_WINDOWS: Final = 60
TELL_EVERY: Final = 20_000
_OPEN: Final[dict[str, Process]] = {"constant": "constant", "poisson": "poisson", "gamma": "gamma"}
_PER_COPY: Final[dict[str, Metric]] = {
    "concurrent_requests_per_copy": "concurrent_requests_per_copy",
    "concurrent_requests_per_model": "concurrent_requests_per_copy",
    "invocations_per_copy": "invocations_per_copy",
    "invocations_per_instance": "invocations_per_copy",
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is sent: when, of which sizes, and in words."""

    load: ClosedLoop | OpenLoop
    sizes: Iterable[tuple[int, int]]
    words: str


@dataclass(frozen=True, slots=True)
class ProfileSimulation:
    """What a profile's endpoint would do under its traffic: *predicted*, every figure.

    `history` has a row for each change of copies or instances; `cost_usd` is on-demand for the instances' hours (None:
    no known price). `limit_s` is when clients give up.
    """

    profile_name: str
    traffic: str
    minutes: float
    summary: SimulationSummary
    windows: tuple[Window, ...]
    history: tuple[CopyCount, ...]
    instance_hours: float
    cost_usd: float | None
    limit_s: float
    start_up: StartUp
    notes: tuple[str, ...]


def traffic_of(
    profile: Profile,
    *,
    concurrency: int | None = None,
    requests_per_s: float | None = None,
    process: Process | None = None,
    burstiness: float | None = None,
    from_requests_per_s: float | None = None,
    ramp_minutes: float | None = None,
    seed: int = 0,
) -> Traffic:
    """The workload's own traffic, or the same requests at another load.

    A rate makes it open: by `process`, else the workload's own, else Poisson. `from_requests_per_s` ramps up (or down)
    to the rate over `ramp_minutes`. A closed workload without a rate keeps the objectives' concurrency in flight.
    Raises InputError for a load that means nothing.
    """
    arrivals = profile.workload.arrivals
    sizes = request_sizes(profile.workload, seed)
    if concurrency is not None and requests_per_s is not None:
        raise InputError("expected a concurrency or a rate, found both; leave one out")
    if concurrency is not None or (requests_per_s is None and arrivals.process == "closed"):
        if any(value is not None for value in (process, burstiness, from_requests_per_s, ramp_minutes)):
            raise InputError("arrivals and ramps need a rate, and the load is a number in flight; give a rate")
        clients = concurrency or profile.objectives.at_concurrency
        return Traffic(ClosedLoop(clients), sizes, f"{clients} in flight")
    if requests_per_s is None and arrivals.process == "trace":
        raise InputError(
            "workload.arrivals: a trace has no rate; replay it (`loadproof simulate --trace`) or give a rate"
        )
    rate = requests_per_s if requests_per_s is not None else arrivals.requests_per_s
    if rate is None:
        raise InputError(f"workload.arrivals: {arrivals.process} needs requests_per_s")
    if process is None:
        process = _OPEN.get(arrivals.process, "poisson")
    if process != "gamma":
        if burstiness is not None:
            raise InputError(f"burstiness has no use with {process} arrivals; make them gamma, or leave it out")
    elif burstiness is None:
        burstiness = arrivals.burstiness
    if requests_per_s is None and from_requests_per_s is None:  # the workload's own ramp
        from_requests_per_s, duration_s = arrivals.from_requests_per_s, profile.benchmark.duration_s
        if from_requests_per_s is not None and ramp_minutes is None and duration_s is not None:
            ramp_minutes = duration_s / 60
    if from_requests_per_s is None and ramp_minutes is None:
        times = arrival_times_ms(process, rate, burstiness=burstiness, seed=seed)
        return Traffic(OpenLoop(times), sizes, f"{process}, {rate:g} requests/s")
    start, ramp = from_requests_per_s or 0.0, ramp_minutes if ramp_minutes is not None else 10.0
    times = ramped_times_ms(process, start, rate, ramp * 60, burstiness=burstiness, seed=seed)
    return Traffic(OpenLoop(times), sizes, f"{process}, {start:g} to {rate:g} requests/s in {ramp:g} min")


def simulate_profile(
    profile: Profile,
    *,
    minutes: float = 60.0,
    traffic: Traffic | None = None,
    start_up: StartUp | None = None,
    starts_at: datetime = MONDAY,
    seed: int = 0,
    tell: Callable[[int, float], None] | None = None,
) -> ProfileSimulation:
    """`minutes` of traffic against the profile's own model, and what is in flight then to its end.

    Copies begin at `copies.min`, all started. `tell` is called every 20,000 requests with how many there were and the
    minute in which the last one was sent. Raises InputError where there is nothing to simulate (backend bedrock),
    the model does not fit, or the duration is not above 0.
    """
    if not 0 < minutes <= 7 * 1440:
        raise InputError(f"minutes: expected above 0, at most a week ({7 * 1440}), found {minutes:g}")
    deployment = deployment_of(profile)
    if memory_fit(deployment).fits == "no":
        raise InputError(f"{profile.name}: the model does not fit its accelerators; see `loadproof plan`")
    component = components_of(profile)[0]
    traffic = traffic or traffic_of(profile, seed=seed)
    start_up = start_up or start_up_of(deployment)
    notes = _left_out(profile)
    tokens = _request_tokens(profile, traffic)
    copies = _elastic(profile, component, deployment, tokens, start_up, starts_at, minutes, notes)
    windows = Windows(minutes * 60_000, min(MOST_WINDOWS, max(1, ceil(minutes))))
    limit_s = _limit_s(profile)
    results = simulate_fleet(
        copies,
        _until(traffic.load, minutes * 60_000),
        traffic.sizes,
        routing=_routing(profile, notes),
        seed=seed,
        give_up_after_ms=limit_s * 1000,
        until_ms=minutes * 60_000,
    )
    watched = windows.watch(results if tell is None else _telling(results, tell))
    summary = summarise(watched, _meets(profile, notes))
    windows.add_copies(copies.history)
    hours = copies.instance_hours(max(minutes * 60_000, copies.history[-1].at_ms))
    price = deployment.instance.usd_per_hour
    return ProfileSimulation(
        profile_name=profile.name,
        traffic=traffic.words,
        minutes=minutes,
        summary=summary,
        windows=tuple(windows.rows),
        history=tuple(copies.history),
        instance_hours=hours,
        cost_usd=None if price is None else price * hours,
        limit_s=limit_s,
        start_up=start_up,
        notes=tuple(notes),
    )


def _telling(results: Iterator[Result], tell: Callable[[int, float], None]) -> Iterator[Result]:
    for count, result in enumerate(results, 1):
        if count % TELL_EVERY == 0:
            tell(count, result.sent_ms / 60_000)
        yield result


def start_up_of(deployment: Deployment) -> StartUp:
    """New instance = machine + image; any copy = weights / rate + server. The constants are estimates."""
    weights_gib = weight_bytes(deployment) / (1 << 30)
    return StartUp(instance_s=INSTANCE_START_S + IMAGE_PULL_S, copy_s=weights_gib / WEIGHTS_GIB_PER_S + SERVER_START_S)


def _elastic(
    profile: Profile,
    component: Component,
    deployment: Deployment,
    request_tokens: float,
    start_up: StartUp,
    starts_at: datetime,
    minutes: float,
    notes: list[str],
) -> ElasticCopies:
    endpoint, scaling, counts = profile.endpoint, component.scaling, component.copies
    assert endpoint is not None  # deployment_of refused a profile without one
    plain = endpoint.hosting == "plain_variant"
    fewest, most = (endpoint.min_instances, endpoint.max_instances) if plain else (counts.min, counts.max)
    policies: list[Policy] = []
    schedule: list[BoundsChange] = []
    for policy in scaling.policies if scaling else ():
        if isinstance(policy, ScheduledScaling):
            schedule += changes_of(policy, starts_at, ceil(minutes))
        else:
            policies += _policy(policy, notes)
    if scaling and scaling.to_zero and scaling.to_zero.wake_on_failed_invocation:
        policies.append(WakeUp(scaling.to_zero.wake_cooldown_s))
    if scaling and scaling.to_zero and scaling.to_zero.wake_on_backlog:
        notes.append("no copy wakes for waiting messages")
    autoscaler = Autoscaler(
        policies,
        min_copies=fewest,
        max_copies=most if scaling else fewest,
        schedule=sorted(schedule, key=lambda change: change.at_ms),
    )
    shared = profile.workload.shared_prefix_tokens
    cached = shared if getattr(component.container.settings, "enable_prefix_caching", None) is True else 0

    def make_copy() -> Scheduler:
        one = replace(deployment, copies=1)
        return fresh_copies(one, shared_prefix_tokens=cached, request_tokens=request_tokens)[0]

    per_instance = 1 if plain else deployment.copies_per_instance
    return ElasticCopies(
        autoscaler,
        make_copy,
        start_up,
        Machines(per_instance, endpoint.min_instances, endpoint.max_instances),
    )


def _request_tokens(profile: Profile, traffic: Traffic) -> float:
    """Prompt plus answer: a trace's mean, else the workload's."""
    if isinstance(traffic.sizes, Sequence) and traffic.sizes:
        return sum(map(sum, traffic.sizes)) / len(traffic.sizes)
    return mean_tokens(profile.workload.input_tokens) + mean_tokens(profile.workload.output_tokens)


def _left_out(profile: Profile) -> list[str]:
    notes = []
    if profile.components:
        names = ", ".join(component.name for component in profile.components)
        notes.append(f"further components on the endpoint are not simulated: {names}")
    if profile.endpoint and len(profile.endpoint.instance_pools) > 1:
        notes.append("all copies run on the first instance pool")
    if profile.workload.turns > 1 or profile.workload.images:
        notes.append("turns of a conversation are requests of their own, sent without waiting, and images cost nothing")
    if profile.workload.dataset:
        notes.append("the dataset is not read: requests are of input_tokens and output_tokens")
    if profile.buffer and profile.buffer.enabled:
        notes.append("requests go to the endpoint itself: the buffer is not simulated")
    return notes


def _policy(policy: TrackingPolicy | StepPolicy, notes: list[str]) -> Iterator[Policy]:
    metric = _PER_COPY.get(policy.metric)
    if metric is None:
        notes.append(f"a policy on {policy.metric} is left out")
    elif isinstance(policy, StepPolicy):
        yield StepScaling(
            metric,
            policy.threshold,
            tuple((step.at, step.add_copies) for step in policy.steps),
            policy.comparison == "above",
            policy.evaluation_periods,
            policy.period_s,
            policy.cooldown_s,
        )
    elif policy.target == "auto":
        notes.append("a policy with target auto is left out: give it a number")
    else:
        yield TargetTracking(
            metric, policy.target, policy.scale_out_cooldown_s, policy.scale_in_cooldown_s, policy.scale_in
        )


def _routing(profile: Profile, notes: list[str]) -> Routing:
    strategy = profile.endpoint.routing.strategy if profile.endpoint else "random"
    if strategy == "prefix_aware":
        notes.append("prefix-aware routing is simulated as least outstanding requests")
    return "random" if strategy == "random" else "least_outstanding"


def _limit_s(profile: Profile) -> float:
    limit_s = STREAM_LIMIT_S if profile.workload.streaming else WHOLE_ANSWER_LIMIT_S
    return min(limit_s, float(profile.benchmark.request_timeout_s))


def _until(load: ClosedLoop | OpenLoop, end_ms: float) -> ClosedLoop | OpenLoop:
    if isinstance(load, ClosedLoop):
        return load
    return OpenLoop(takewhile(lambda at_ms: at_ms < end_ms, load.times_ms))


def _meets(profile: Profile, notes: list[str]) -> Callable[[SimulatedRequest], bool]:
    """Whether a request is inside every latency bound, each taken as a bound on itself (goodput, as benchmarks say)."""
    bounds: dict[str, float] = {}
    for name, bound in profile.objectives:
        metric = name.partition("_")[0]
        if bound is None or metric not in ("ttft", "itl", "tpot", "e2e"):
            continue
        if metric == "itl":
            notes.append(f"{name} is not part of goodput: the twin yields no gaps")
            continue
        bounds[metric] = min(bounds.get(metric, float("inf")), bound)
    ttft, tpot, e2e = (bounds.get(metric, float("inf")) for metric in ("ttft", "tpot", "e2e"))

    def meets(request: SimulatedRequest) -> bool:
        return request.ttft_ms <= ttft and request.e2e_ms <= e2e and (request.tpot_ms or 0.0) <= tpot

    return meets
