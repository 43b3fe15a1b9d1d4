"""The whole prediction for one profile: does it fit, what will it do at each level, what does it cost, will it do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Literal

from loadproof.capacity.confidence import Confidence, confidence_of
from loadproof.capacity.cost import HourlyCost, hourly_cost, usd_per_million_tokens
from loadproof.capacity.curve import PredictedLevel, predict_level
from loadproof.capacity.deployment import Deployment, deployment_of
from loadproof.capacity.knee import Knee, find_knee
from loadproof.capacity.memory import MemoryFit, memory_fit
from loadproof.capacity.outlook import ObjectiveOutlook, outlook_of
from loadproof.capacity.steps import Resource, StepTimes
from loadproof.profiles.schema import Profile, TokenDistribution

Binds = Literal["memory"] | Resource


@dataclass(frozen=True, slots=True)
class Plan:
    """What Loadproof expects of a profile's own model. Every figure here is *predicted*.

    `levels` holds only levels at which requests can be served. `costs_per_million` are USD per
    million output tokens, one for each level (None: no known price). `at_objectives` is the level at
    `objectives_at` in flight.
    """

    profile_name: str
    deployment: Deployment
    input_tokens: int
    output_tokens: int
    streaming: bool
    memory: MemoryFit
    levels: tuple[PredictedLevel, ...]
    costs_per_million: tuple[float | None, ...]
    knee: Knee | None
    cost: HourlyCost
    objectives_at: int
    at_objectives: PredictedLevel | None
    outlook: tuple[ObjectiveOutlook, ...]
    binds: Binds
    confidence: Confidence
    notes: tuple[str, ...]

    @property
    def grade(self) -> str:
        return self.confidence.grade


def make_plan(profile: Profile) -> Plan:
    """Predict the profile's own model at the levels its benchmark names, at its fewest copies.

    Token distributions are planned at their mean. Raises InputError where there is nothing to plan (backend bedrock)
    or the catalog lacks the model or the instance type.
    """
    deployment = deployment_of(profile)
    input_tokens = mean_tokens(profile.workload.input_tokens)
    output_tokens = mean_tokens(profile.workload.output_tokens)

    # Requests of different lengths end at different times, so their prefills spread out.
    staggered = not isinstance(profile.workload.output_tokens, int)

    def level(concurrency: int) -> PredictedLevel | None:
        return predict_level(deployment, input_tokens, output_tokens, concurrency, staggered=staggered)

    memory = memory_fit(deployment)
    curve = () if memory.fits == "no" else tuple(map(level, sorted(set(profile.benchmark.concurrency))))
    levels = tuple(found for found in curve if found is not None)
    at_objectives = None if memory.fits == "no" else level(profile.objectives.at_concurrency)
    confidence = confidence_of(deployment)
    cost = _cost(profile, deployment)
    return Plan(
        profile_name=profile.name,
        deployment=deployment,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        streaming=profile.workload.streaming,
        memory=memory,
        levels=levels,
        costs_per_million=tuple(
            usd_per_million_tokens(cost.usd_per_hour_min, found.output_tokens_per_s) for found in levels
        ),
        knee=find_knee([(found.concurrency, found.output_tokens_per_s, found.e2e_ms) for found in levels]),
        cost=cost,
        objectives_at=profile.objectives.at_concurrency,
        at_objectives=at_objectives,
        outlook=outlook_of(profile.objectives, at_objectives, output_tokens, confidence),
        binds=_binds(deployment, memory, at_objectives, input_tokens, output_tokens),
        confidence=confidence,
        notes=tuple(_notes(profile, deployment, cost)),
    )


def mean_tokens(tokens: int | TokenDistribution) -> int:
    """The mean of a token count: itself, the distribution's mean, else the middle of its bounds."""
    if isinstance(tokens, int):
        return tokens
    if tokens.mean is not None:
        return max(tokens.min, round(tokens.mean))
    return max(1, (tokens.min + (tokens.max or tokens.min)) // 2)


def _cost(profile: Profile, deployment: Deployment) -> HourlyCost:
    """Instances needed for the fewest and the most copies, within the endpoint's own bounds."""
    endpoint = profile.endpoint
    assert endpoint is not None  # deployment_of refused a profile without one
    per_instance = deployment.copies_per_instance
    fewest = max(endpoint.min_instances, ceil(profile.copies.min / per_instance))
    most = max(fewest, min(endpoint.max_instances, ceil(profile.copies.max / per_instance)))
    return hourly_cost(deployment.instance, fewest, most)


def _binds(
    deployment: Deployment, memory: MemoryFit, level: PredictedLevel | None, input_tokens: int, output_tokens: int
) -> Binds:
    """What to buy more of: memory when requests queue for KV cache, else the largest share of a decode step."""
    if memory.fits == "no" or level is None or level.queue_ms > 0:
        return "memory"
    shares = StepTimes(deployment).decode_shares(level.batch, level.batch * (input_tokens + output_tokens / 2))
    return max(shares, key=lambda name: shares[name])


def _notes(profile: Profile, deployment: Deployment, cost: HourlyCost) -> Iterator[str]:
    """What the figures leave out, in words, only where it applies to this profile."""
    workload, settings = profile.workload, profile.container and profile.container.settings
    if not isinstance(workload.input_tokens, int) or not isinstance(workload.output_tokens, int):
        yield "token distributions are planned at their means; their spread widens every tail"
    if workload.arrivals.process != "closed":
        yield f"planned as a closed loop; the workload's arrivals are {workload.arrivals.process}"
    if getattr(settings, "enable_prefix_caching", None) and workload.shared_prefix_tokens:
        yield "prefix caching is not planned: shared prompts will prefill faster than predicted"
    if getattr(settings, "speculative_config", None) or getattr(settings, "speculative_algorithm", None):
        yield "speculative decoding is not planned"
    if profile.components:
        yield "further components on the endpoint are not planned here: " + ", ".join(
            component.name for component in profile.components
        )
    if cost.usd_per_hour_min is None:
        yield f"no on-demand price is known for {deployment.instance.instance_type}"
    elif cost.price_derived:
        yield f"the price of {deployment.instance.instance_type} is derived: {cost.price_source}"
