"""The whole prediction for one profile: does it fit, what will it do at each level, what does it cost, will it do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from loadproof import catalog
from loadproof.capacity.confidence import Confidence, confidence_of, less_sure, unverified_rows
from loadproof.capacity.cost import HourlyCost, cost_of, with_expected
from loadproof.capacity.curve import PredictedLevel
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.capacity.knees import find_knees
from loadproof.capacity.memory import MemoryFit, memory_fit
from loadproof.capacity.outlook import ObjectiveOutlook, outlook_of, sure_of
from loadproof.capacity.search import InvocationLimit, invocation_limit, ladder
from loadproof.capacity.shares import Binding, Binds, LatencyShares, binding_of, latency_shares
from loadproof.capacity.workload import (
    PlannedWorkload,
    keeps_prompts,
    mean_tokens,
    planned_deployment,
    planned_workload,
)
from loadproof.knee import MARGINAL_GAIN, Knee
from loadproof.profiles.mixture import busiest_per_s, image_tokens_of
from loadproof.profiles.promises import promises_of
from loadproof.profiles.schema import Profile
from loadproof.profiles.secrets import shown_path
from loadproof.profiles.tree import Path
from loadproof.usd import usd_per_million_tokens

__all__ = ["Plan", "make_plan", "mean_tokens"]


@dataclass(frozen=True, slots=True)
class DerivedValue:
    """One `auto` of a profile: its place, the number instead of it (None: there is none) and why, in words."""

    component: str
    path: Path
    value: float | None
    reason: str

    @property
    def field(self) -> str:
        """The place as a profile's reader writes it: `scaling.policies[0].target`."""
        return shown_path(self.path)


@dataclass(frozen=True, slots=True)
class Plan:
    """What Loadproof expects of a profile's own model. Every figure here is *predicted*.

    `levels` holds only levels at which requests can be served, `shares` and `costs_per_million` (USD per million
    output tokens, None: no known price) one entry for each of them. `at_objectives` is the level at `objectives_at` in
    flight. `climbed` is the ladder of levels the `knees` were found on: one for each rule, `knee` the one by marginal
    gain. `bindings` say what binds at the objectives' level and at the knee, `scaling` what each `auto` stands for.
    """

    profile_name: str
    deployment: PlannedDeployment
    workload: PlannedWorkload
    streaming: bool
    memory: MemoryFit
    levels: tuple[PredictedLevel, ...]
    shares: tuple[LatencyShares, ...]
    costs_per_million: tuple[float | None, ...]
    climbed: tuple[PredictedLevel, ...]
    knees: tuple[Knee, ...]
    cost: HourlyCost
    objectives_at: int
    at_objectives: PredictedLevel | None
    outlook: tuple[ObjectiveOutlook, ...]
    bindings: tuple[Binding, ...]
    invocation_limit: InvocationLimit | None
    scaling: tuple[DerivedValue, ...]
    confidence: Confidence
    notes: tuple[str, ...]

    @property
    def grade(self) -> str:
        return self.confidence.grade

    @property
    def input_tokens(self) -> int:
        return self.workload.input_tokens

    @property
    def output_tokens(self) -> int:
        return self.workload.output_tokens

    @property
    def knee(self) -> Knee | None:
        """The knee by marginal gain: the one that is meant where one is shown."""
        return next((knee for knee in self.knees if knee.rule == MARGINAL_GAIN), None)

    @property
    def binds(self) -> Binds:
        """What binds at the objectives' level."""
        return self.bindings[0].resource if self.bindings else "memory"


def make_plan(
    profile: Profile, workload: PlannedWorkload | None = None, scaling: tuple[DerivedValue, ...] = ()
) -> Plan:
    """Predict the profile's own model at the levels its benchmark names, at its fewest copies.

    `workload` is the profile's (default: by formula, at the means of token distributions); the command line gives one
    that is played, and what `scaling` stands for where it says `auto` (`simulation.make_plan`). Raises InputError where
    there is nothing to plan (backend bedrock) or the catalog lacks the model or the instance type.
    """
    deployment, workload = planned_deployment(profile), workload or planned_workload(profile)
    memory, confidence = memory_fit(deployment), confidence_of(deployment, workload.turns, workload.input_tokens)
    if profile.workload.images is not None:
        confidence = less_sure(confidence, "pictures, whose encoder nobody planned")
    if unread := _unread(profile):
        confidence = less_sure(confidence, f"requests of a {unread}, which was not read")
    cost, streaming = cost_of(profile, deployment), profile.workload.streaming
    fits = memory.fits != "no"

    def level(concurrency: int) -> PredictedLevel | None:
        return workload.level(deployment, concurrency)

    listed = sorted(set(profile.benchmark.concurrency)) if fits else ()
    levels = tuple(found for found in map(level, listed) if found is not None)
    climbed = ladder(level, deployment, listed) if levels else ()
    at_objectives = level(profile.objectives.at_concurrency) if fits else None
    promises = promises_of(profile)
    confidence = sure_of(confidence, promises, at_objectives)
    knees = find_knees(deployment, workload, promises, confidence, climbed)
    outlook = outlook_of(promises, at_objectives, workload, confidence)
    return Plan(
        profile_name=profile.name,
        deployment=deployment,
        workload=workload,
        streaming=streaming,
        memory=memory,
        levels=levels,
        shares=tuple(map(latency_shares, levels)),
        costs_per_million=tuple(
            usd_per_million_tokens(cost.usd_per_hour_min, found.output_tokens_per_s) for found in levels
        ),
        climbed=climbed,
        knees=knees,
        cost=with_expected(cost, profile, deployment, knees),
        objectives_at=profile.objectives.at_concurrency,
        at_objectives=at_objectives,
        outlook=outlook,
        bindings=tuple(_bindings(deployment, workload, at_objectives, knees, streaming=streaming)),
        invocation_limit=invocation_limit(deployment, workload, streaming=streaming) if levels else None,
        scaling=scaling,
        confidence=confidence,
        notes=tuple(_notes(profile, deployment, cost, workload, outlook if at_objectives else ())),
    )


_PLAYED: Final = {"trace": "; `loadproof simulate` plays its own"}


def _unread(profile: Profile) -> str | None:
    """What has its requests in a file, whose lengths no plan knows."""
    if profile.workload.dataset is not None:
        return "dataset"
    phases = (phase.process for phase in profile.benchmark.phases)
    return "trace" if "trace" in (profile.workload.arrivals.process, *phases) else None


def _bindings(
    deployment: PlannedDeployment,
    workload: PlannedWorkload,
    at_objectives: PredictedLevel | None,
    knees: tuple[Knee, ...],
    *,
    streaming: bool,
) -> Iterator[Binding]:
    """At the objectives' level, then at the knee by marginal gain."""
    knee = next((found for found in knees if found.rule == MARGINAL_GAIN), None)
    at_knee = workload.level(deployment, knee.concurrency) if knee else None
    for level in (at_objectives, at_knee):
        if level is not None:
            yield binding_of(deployment, workload, level, streaming=streaming)


def _notes(
    profile: Profile,
    deployment: PlannedDeployment,
    cost: HourlyCost,
    planned: PlannedWorkload,
    outlook: tuple[ObjectiveOutlook, ...],
) -> Iterator[str]:
    """What the figures leave out, in words, only where it applies to this profile."""
    workload = profile.workload
    if planned.replay is not None:
        yield from _disagreement(deployment, planned, profile.objectives.at_concurrency)
    elif not isinstance(workload.input_tokens, int) or not isinstance(workload.output_tokens, int):
        yield (
            "planned at the means of the token distributions; percentiles of E2E follow the spread of the answers, "
            "those of TTFT not that of the prompts"
        )
    if workload.arrivals.process != "closed":
        yield f"planned as a closed loop; the workload's arrivals are {workload.arrivals.process}"
    if workload.shared_prefix_tokens:
        keeps = keeps_prompts(profile.container)
        found = "found in the prefix cache" if keeps else "computed for each: the server keeps no prompts"
        yield f"{workload.shared_prefix_tokens:,} tokens of each prompt are planned as {found}"
    if planned.turns > 1:
        yield _conversation(planned, deployment, profile.objectives.at_concurrency)
    for row in outlook:
        if row.part and row.predicted is None:
            yield f"{row.label} is not planned: nobody played its requests apart from the others"
    if workload.arrivals.hours or workload.arrivals.days:
        yield f"the curve knows no day: its busiest hour has {busiest_per_s(workload.arrivals):,.3g} requests/s"
    if workload.images is not None:
        yield image_note(profile)
    if unread := _unread(profile):
        yield f"the {unread} is not read: requests are of input_tokens and output_tokens{_PLAYED.get(unread, '')}"
    if deployment.quantization != "none":
        yield _format(deployment)
    if deployment.limits.scheduler == "dynamic":
        yield "dynamic batching answers whole batches: TTFT is the whole latency, TPOT nothing"
    if getattr(profile.container, "speculative", None) is not None:
        yield _speculative(deployment, profile.objectives.at_concurrency, planned.by_formula)
    if profile.components:
        yield "further components on the endpoint are not planned here: " + ", ".join(
            component.name for component in profile.components
        )
    for name, source in unverified_rows(deployment):
        yield f"the catalog's figures of {name} are unverified: {source}"
    if cost.usd_per_hour_min is None:
        yield f"no on-demand price is known for {deployment.instance.instance_type}"
    elif cost.price_derived:
        yield f"the price of {deployment.instance.instance_type} is derived: {cost.price_source}"


def _format(deployment: PlannedDeployment) -> str:
    """How the accelerator runs weights of fewer bits, and what of it is planned."""
    name, chip = deployment.quantization, deployment.accelerator
    row = catalog.format_on(name, chip.name)
    if row is None:
        return f"nobody said how {chip.name} runs {name} weights: planned as unpacked to 16 bits for each product"
    if row.runs == "never":
        return f"{chip.name} has no kernel for {name} weights: {row.source}"
    if row.runs == "unpacked":
        return f"{name} weights are unpacked to 16 bits on {chip.name}: less is read and kept, prompts take as long"
    if name == "fp8" and chip.fp8_tflops:
        return f"prompts compute in {chip.name}'s fp8 units, and are planned to reach less of their datasheet"
    return f"{chip.name} computes in {name}; planned at its speed in 16 bits, since no published row tells more"


def _disagreement(deployment: PlannedDeployment, workload: PlannedWorkload, concurrency: int) -> Iterator[str]:
    """Where formula and twin give means that are more than 15% apart, and why they do."""
    formula = workload.by_formula.level(deployment, concurrency)
    twin = workload.level(deployment, concurrency)
    if formula is None or twin is None or twin.tails is None or 0.87 <= twin.ttft_ms / formula.ttft_ms <= 1.15:
        return
    why = (
        "requests of spread lengths meet by chance"
        if workload.staggered or workload.turns > 1
        else "answers end together, but no two clients are equally fast: the first prompt waits for nobody, the others "
        "for it"
    )
    yield (
        f"mean TTFT at {concurrency:,} in flight: {twin.ttft_ms:,.0f} ms is the twin's, request by request; the "
        f"formula for requests in step says {formula.ttft_ms:,.0f} ms: {why}"
    )


def _speculative(deployment: PlannedDeployment, concurrency: int, workload: PlannedWorkload) -> str:
    """What the figures of speculative decoding lean on, and what it is worth."""
    found = deployment.speculation
    if found is None:
        return "speculative decoding is not planned: the catalog does not know the draft model; name it by its hub id"
    kept = " / ".join(f"{share:.0%}" for share in found.accepted[:8])
    said = (
        f"{found.method} proposes {found.tokens} a round, of which {kept} are planned as kept by position "
        f"({'calibrated' if found.measured else 'fitted' if found.fitted else 'not fitted'}): "
        f"{found.emitted_tokens:.2f} tokens a round"
    )
    if found.checked_tokens > found.tokens + 1:
        said += f", with a single branch's acceptance though {found.checked_tokens} of a tree are checked"
    with_it = workload.level(deployment, concurrency)
    without = workload.level(replace(deployment, speculation=None), concurrency)
    if with_it is None or without is None:
        return said
    gain = without.e2e_ms / with_it.e2e_ms
    worth = f"{gain:.2f} times as fast as without it" if gain >= 1 else f"{1 / gain:.2f} times slower than without it"
    return f"{said}; at {concurrency:,} in flight predicted {worth}"


def _conversation(workload: PlannedWorkload, deployment: PlannedDeployment, concurrency: int) -> str:
    """What the figures of sessions lean on."""
    steps = f"up to {workload.turns} steps" if workload.varies else f"{workload.turns} turns"
    said = f"planned at the mean prompt of {steps}, {workload.input_tokens:,} tokens with all before it"
    if workload.paused:
        said += f"; {concurrency:,} in flight are sessions held, those that pause included"
    if workload.history == "computed" or deployment.limits.scheduler != "chunked":
        return f"{said}; each turn computes its whole prompt: no cache of prompts is planned for this server"
    share = workload.kept_share(deployment, concurrency)
    routed = (
        ""
        if workload.history == "followed" or deployment.copies == 1
        else (
            f", as a turn comes back to its own copy once in {deployment.copies} times (routing.strategy: prefix_aware "
            "leads it there)"
        )
    )
    return (
        f"{said}; {share:.0%} of what came before is planned as in the cache at {concurrency:,} in flight{routed}; "
        "no published measurement of conversations was fitted"
    )


def image_note(profile: Profile) -> str:
    """What is planned of a workload's pictures."""
    tokens = image_tokens_of(profile)
    if tokens is None:
        return "pictures cost nothing here: nobody told how many tokens this model makes of one"
    return f"pictures are {tokens:,} prompt tokens of a session's first request; their encoder's time is left out"
