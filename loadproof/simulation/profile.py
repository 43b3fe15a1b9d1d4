"""A whole profile in virtual time: its workload against its copies, scaling policies and limits. All is *predicted*."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil, inf
from typing import Final

from loadproof.capacity import deployment_of, memory_fit
from loadproof.capacity.cost import price_place
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.plan import image_note
from loadproof.capacity.start_up import StartUp, start_up_of
from loadproof.capacity.workload import planned_deployment, planned_workload
from loadproof.errors import InputError
from loadproof.profiles.mixture import planned_mixture_of
from loadproof.profiles.promises import promises_of
from loadproof.profiles.schema import Profile
from loadproof.profiles.settings import components_of
from loadproof.sessions import SessionClass
from loadproof.simulation.elastic import CopyCount
from loadproof.simulation.fleet import simulate_fleet
from loadproof.simulation.prefixes import RoutingCounts
from loadproof.simulation.profile_copies import copies_of
from loadproof.simulation.profile_traffic import MONDAY, Traffic, traffic_of, until
from loadproof.simulation.results import Latencies, Result, SimulatedRequest, SimulationSummary, summarise
from loadproof.simulation.routing import Prefixes, Routing
from loadproof.simulation.windows import Window, Windows

# SageMaker's own limits on one invocation.
WHOLE_ANSWER_LIMIT_S: Final = 60.0
STREAM_LIMIT_S: Final = 480.0

MOST_WINDOWS: Final = 60
TELL_EVERY: Final = 20_000


@dataclass(frozen=True, slots=True)
class ProfileSimulation:
    """What a profile's endpoint would do under its traffic: *predicted*, every figure.

    `history` has a row for each change of copies or instances; `cost_usd` is on-demand for the instances' hours (None:
    no known price), `price` where and when one cost that. `limit_s` is when clients give up. `routed` is of requests
    whose prompts' blocks are known.
    """

    profile_name: str
    traffic: str
    minutes: float
    summary: SimulationSummary
    windows: tuple[Window, ...]
    history: tuple[CopyCount, ...]
    instance_hours: float
    cost_usd: float | None
    price: str
    limit_s: float
    start_up: StartUp
    notes: tuple[str, ...]
    routing: Routing
    routed: RoutingCounts
    parts: tuple[Part, ...]
    sessions: tuple[str, ...]
    """what is sent, in words; empty where it is single requests of one kind, or recorded"""


@dataclass(frozen=True, slots=True)
class Part:
    """What was served of one class of the traffic; `bounds` are its own."""

    name: str
    ttft: Latencies
    tpot: Latencies
    e2e: Latencies
    bounds: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, one: SessionClass) -> Part:
        return cls(one.name, Latencies(), Latencies(), Latencies(), one.bounds)

    def at(self, bound: str) -> float | None:
        """In ms, by an objective's name; None where nothing was served."""
        metric, percentile, _ = bound.split("_")
        found: Latencies = getattr(self, metric)
        return found.percentile_ms(float(percentile.removeprefix("p")))

    def watch(self, result: SimulatedRequest) -> None:
        self.ttft.add(result.ttft_ms)
        self.e2e.add(result.e2e_ms)
        if (tpot_ms := result.tpot_ms) is not None:
            self.tpot.add(tpot_ms)


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
    the model does not fit or the duration is not above 0.
    """
    deployment = _deployed(profile, minutes)
    mixture, recorded = planned_mixture_of(profile), traffic is not None and isinstance(traffic.sizes, Sequence)
    traffic = traffic or traffic_of(profile, starts_at=starts_at, seed=seed)
    start_up = start_up or start_up_of(deployment)
    notes = _left_out(profile)
    first = components_of(profile)[0]
    copies = copies_of(profile, first, deployment, traffic, start_up, starts_at, minutes, notes)
    windows = Windows(minutes * 60_000, min(MOST_WINDOWS, max(1, ceil(minutes))))
    limit_s = _limit_s(profile)
    routing, prefixes = traffic.routing or routing_of(profile), _prefixes(profile, traffic)
    results = simulate_fleet(
        copies,
        until(traffic.load, minutes * 60_000),
        traffic.sizes,
        routing=routing,
        prefixes=prefixes,
        seed=seed,
        give_up_after_ms=limit_s * 1000,
        until_ms=minutes * 60_000,
    )
    parts = [] if recorded else list(map(Part.of, mixture.classes))  # whose a recorded request is, nobody wrote
    watched = windows.watch(results if tell is None else _telling(results, tell))
    summary = summarise(_by_part(watched, parts) if len(parts) > 1 else watched, _meets(profile, parts, notes))
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
        price="" if price is None else f"on demand in {price_place(deployment.instance)}",
        limit_s=limit_s,
        start_up=start_up,
        notes=tuple(notes),
        routing=routing,
        routed=prefixes.counts,
        parts=tuple(part for part in parts if part.name and (part.ttft.count or part.bounds)),
        sessions=() if recorded or mixture.single else mixture.words,
    )


def _deployed(profile: Profile, minutes: float) -> PlannedDeployment:
    if not 0 < minutes <= 7 * 1440:
        raise InputError(f"minutes: expected above 0, at most a week ({7 * 1440}), found {minutes:g}")
    deployment = deployment_of(profile)
    if memory_fit(deployment).fits == "no":
        raise InputError(f"{profile.name}: the model does not fit its accelerators; see `loadproof plan`")
    return deployment


def _by_part(results: Iterator[Result], parts: Sequence[Part]) -> Iterator[Result]:
    for result in results:
        if isinstance(result, SimulatedRequest):
            parts[result.part].watch(result)
        yield result


def _telling(results: Iterator[Result], tell: Callable[[int, float], None]) -> Iterator[Result]:
    for count, result in enumerate(results, 1):
        if count % TELL_EVERY == 0:
            tell(count, result.sent_ms / 60_000)
        yield result


def _left_out(profile: Profile) -> list[str]:
    notes = []
    if profile.components:
        names = ", ".join(component.name for component in profile.components)
        notes.append(f"further components on the endpoint are not simulated: {names}")
    if profile.endpoint and len(profile.endpoint.instance_pools) > 1:
        notes.append("all copies run on the first instance pool")
    if profile.workload.images:
        notes.append(image_note(profile))
    if profile.workload.dataset:
        notes.append("the dataset is not read: requests are of input_tokens and output_tokens")
    if profile.buffer and profile.buffer.enabled:
        notes.append("requests go to the endpoint itself: the buffer is not simulated")
    return notes


def routing_of(profile: Profile) -> Routing:
    """The strategy that the profile deploys; Bedrock's is not known, and taken as chance."""
    strategy = profile.endpoint.routing.strategy if profile.endpoint else "random"
    return "least_outstanding" if strategy == "least_outstanding_requests" else strategy


def _prefixes(profile: Profile, traffic: Traffic) -> Prefixes:
    """What copies keep of the traffic's prompts, and what routing compares of them, four bytes to a token."""
    kept = planned_workload(profile).history != "computed" and planned_deployment(profile).limits.scheduler == "chunked"
    found = Prefixes(traffic.block_tokens if kept else 0)
    own = profile.endpoint.routing if profile.endpoint else None
    if own is None or own.prefix_length_bytes is None or own.concurrency_threshold is None:
        return found
    return replace(found, compared_tokens=own.prefix_length_bytes // 4, most_outstanding=own.concurrency_threshold)


def _limit_s(profile: Profile) -> float:
    limit_s = STREAM_LIMIT_S if profile.workload.streaming else WHOLE_ANSWER_LIMIT_S
    return min(limit_s, float(profile.benchmark.request_timeout_s))


def _meets(profile: Profile, parts: Sequence[Part], notes: list[str]) -> Callable[[SimulatedRequest], bool]:
    """Whether a request is inside every latency bound, its class's own too, each taken as a bound on itself.

    That is goodput, as benchmarks say it. `parts` are by `SimulatedRequest.part`.
    """
    promises, classes = promises_of(profile), [part.name for part in parts]
    for one in promises:
        if one.name.startswith("itl"):
            notes.append(f"{one.name} is not part of goodput: the twin yields no gaps")
        if one.part and one.part not in classes:
            notes.append(f"{one.label} is not judged: nobody told which requests are of {one.part}")

    def tightest(name: str, metric: str) -> float:
        own = (one.bound for one in promises if one.part in ("", name) and one.name.startswith(metric))
        return min(own, default=inf)

    rows = [tuple(tightest(name, metric) for metric in ("ttft", "tpot", "e2e")) for name in classes or ("",)]

    def meets(request: SimulatedRequest) -> bool:
        ttft, tpot, e2e = rows[request.part]
        return request.ttft_ms <= ttft and request.e2e_ms <= e2e and (request.tpot_ms or 0.0) <= tpot

    return meets
