"""What the planner makes of a workload: equal requests at its means, and whether they keep step with each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, exp, inf, log, log1p, sqrt
from statistics import NormalDist

from loadproof.capacity.curve import PredictedLevel, predict_level
from loadproof.capacity.deployment import PlannedDeployment, deployment_of
from loadproof.profiles.checks.facts import most_tokens
from loadproof.profiles.schema import Container, Profile, TokenDistribution


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """Requests as they are planned: token counts at their means, `cached_tokens` of each prompt in the prefix cache.

    `staggered`: answers of spread lengths end at different times, so their prefills spread out too. `answers` is their
    distribution, which percentiles of E2E follow; None: all are `output_tokens` long.
    """

    input_tokens: int
    output_tokens: int
    staggered: bool = False
    cached_tokens: int = 0
    answers: TokenDistribution | None = None

    def output_tokens_at(self, quantile: float) -> int:
        """The length within which this share of the answers stays."""
        return self.output_tokens if self.answers is None else tokens_at(self.answers, quantile)

    def level(self, deployment: PlannedDeployment, concurrency: int) -> PredictedLevel | None:
        """The level at `concurrency` in flight over all copies; None when no such request can be served.

        The one place that puts a workload to `predict_level`: plans, alternatives and benchmarks' predictions all come
        here. Only a chunked scheduler is planned with a prefix cache.
        """
        cached = min(self.cached_tokens, self.input_tokens - 1) if deployment.limits.scheduler == "chunked" else 0
        return predict_level(
            deployment,
            self.input_tokens,
            self.output_tokens,
            concurrency,
            staggered=self.staggered,
            cached_tokens=cached,
        )


def planned_workload(profile: Profile, container: Container | None = None) -> PlannedWorkload:
    """The profile's workload at its means; a shared prefix counts as cached where the server is told to cache.

    `container` is a further component's, default the profile's own.
    """
    workload, container = profile.workload, container or profile.container
    settings = container.settings if container else None
    caches = getattr(settings, "enable_prefix_caching", None) is True
    return PlannedWorkload(
        input_tokens=mean_tokens(workload.input_tokens),
        output_tokens=mean_tokens(workload.output_tokens),
        staggered=not isinstance(workload.output_tokens, int),
        cached_tokens=workload.shared_prefix_tokens if caches else 0,
        answers=None if isinstance(workload.output_tokens, int) else workload.output_tokens,
    )


def planned_deployment(profile: Profile) -> PlannedDeployment:
    """The profile's own model with the copies that always run: its fewest, or one an instance of a plain variant.

    Raises InputError as `deployment_of` does.
    """
    deployment, endpoint = deployment_of(profile), profile.endpoint
    if endpoint is not None and endpoint.hosting == "plain_variant":
        return replace(deployment, copies=max(1, endpoint.min_instances))
    return deployment


def mean_tokens(tokens: int | TokenDistribution) -> int:
    """The mean of a token count: itself, the distribution's mean, else the middle of its bounds."""
    if isinstance(tokens, int):
        return tokens
    if tokens.mean is not None:
        return max(tokens.min, round(tokens.mean))
    return max(1, (tokens.min + (tokens.max or tokens.min)) // 2)


def tokens_at(counts: TokenDistribution, quantile: float) -> int:
    """The count within which a share `quantile` (above 0, below 1) of the counts stays, cut to the bounds.

    normal: mean + z · stddev; lognormal: exp(μ + z · σ) with σ² = ln(1 + stddev²/mean²), μ = ln mean - σ²/2;
    uniform: min + quantile · (max - min); empirical: the nearest rank.
    """
    if counts.distribution == "empirical":
        return sorted(counts.values)[ceil(quantile * len(counts.values)) - 1]
    mean, stddev, most = float(mean_tokens(counts)), counts.stddev or 0.0, inf if counts.max is None else counts.max
    z = NormalDist().inv_cdf(quantile)
    value = mean
    if counts.distribution == "normal":
        value = mean + z * stddev
    elif counts.distribution == "lognormal":
        variance = log1p((stddev / mean) ** 2)
        value = exp(log(mean) - variance / 2 + z * sqrt(variance))
    elif counts.distribution == "uniform":
        value = counts.min + quantile * ((counts.max or counts.min) - counts.min)
    return int(max(counts.min, min(round(value), most)))


def longest_request_tokens(profile: Profile) -> int | None:
    """Prompt plus answer of the longest request the workload may send; None where a tail has no end."""
    prompt, answer = most_tokens(profile.workload.input_tokens), most_tokens(profile.workload.output_tokens)
    return None if prompt is None or answer is None else prompt + answer
