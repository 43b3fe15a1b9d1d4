"""What the planner makes of a workload: equal requests at its means, and whether they keep step with each other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, exp, inf, log, log1p, sqrt
from statistics import NormalDist, mean
from typing import Literal, Protocol, TypeAlias

from loadproof.capacity.curve import PredictedLevel, predict_level
from loadproof.capacity.deployment import PlannedDeployment, deployment_of
from loadproof.capacity.memory import memory_fit
from loadproof.families import FAMILIES
from loadproof.profiles.checks.facts import most_tokens
from loadproof.profiles.conversation import history_tokens, prompt_tokens
from loadproof.profiles.schema import Container, Profile, TokenDistribution

# Computed anew at each turn; kept by the copy that computed it; kept, and the next turn is led there.
History: TypeAlias = Literal["computed", "kept", "followed"]


class Replay(Protocol):
    """Plays a level request by request (`simulation.replay`), for what no formula knows: how requests meet."""

    def __call__(self, deployment: PlannedDeployment, level: PredictedLevel, kept_share: float) -> PredictedLevel: ...


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """Requests as they are planned: token counts at their means, `cached_tokens` of each prompt in the prefix cache.

    `staggered`: answers of spread lengths end at different times, so their prefills spread out too. `answers` is their
    distribution, which percentiles of E2E follow; None: all are `output_tokens` long. Of a conversation of several
    `turns` the prompt is the mean over them, `history_tokens` of it what came before, which a server may still have.
    `replay` gives levels their percentiles.
    """

    input_tokens: int
    output_tokens: int
    staggered: bool = False
    cached_tokens: int = 0
    answers: TokenDistribution | None = None
    turns: int = 1
    history_tokens: int = 0
    history: History = "computed"
    replay: Replay | None = field(default=None, compare=False)

    @property
    def by_formula(self) -> PlannedWorkload:
        """Without being played: where many levels are climbed for their throughput."""
        return replace(self, replay=None)

    def output_tokens_at(self, quantile: float) -> int:
        """The length within which this share of the answers stays."""
        return self.output_tokens if self.answers is None else tokens_at(self.answers, quantile)

    def level(self, deployment: PlannedDeployment, concurrency: int) -> PredictedLevel | None:
        """The level at `concurrency` in flight over all copies; None when no such request can be served.

        The one place that puts a workload to `predict_level`: plans, alternatives and benchmarks' predictions all come
        here. Only a chunked scheduler is planned with a prefix cache.
        """
        kept_share = self.kept_share(deployment, concurrency)
        cached = self.cached_tokens + round(kept_share * self.history_tokens)
        cached = min(cached, self.input_tokens - 1) if deployment.limits.scheduler == "chunked" else 0
        level = predict_level(
            deployment,
            self.input_tokens,
            self.output_tokens,
            concurrency,
            staggered=self.staggered,
            cached_tokens=cached,
        )
        if level is None:
            return None
        level = replace(level, ttft_last_ms=level.ttft_last_ms * self._longest_prefill(cached))
        return level if self.replay is None else self.replay(deployment, level, kept_share)

    def kept_share(self, deployment: PlannedDeployment, concurrency: int) -> float:
        """The share of the history that a turn still finds in the cache of the copy that it comes to.

        All of it where the memory beside the running batch holds every conversation's, else as much as it holds; and
        where nothing leads a turn to its own copy again, what its copy was told of the conversation by chance.
        """
        if self.history == "computed" or self.turns == 1:
            return 0.0
        conversations = ceil(concurrency / deployment.copies)
        room = memory_fit(deployment).kv_token_capacity / (conversations * (self.input_tokens + self.output_tokens))
        return min(1.0, room) * (1.0 if self.history == "followed" else met_again(self.turns, deployment.copies))

    def _longest_prefill(self, cached: int) -> float:
        """The last turn's prompt tokens to compute over the mean's: percentiles of TTFT are those of long turns."""
        if self.turns == 1:
            return 1.0
        prompt = 2 * (self.input_tokens - (self.turns - 1) * self.output_tokens / 2) / (self.turns + 1)
        last = prompt_tokens(self.turns, prompt, self.output_tokens)
        kept = cached * history_tokens(self.turns, prompt, self.output_tokens) / max(1, self.history_tokens)
        return max(1.0, (last - kept) / max(1.0, self.input_tokens - cached))


def met_again(turns: int, copies: int) -> float:
    """The share of all history that turns find where each goes to any copy by chance.

    Turn k finds what the latest turn j before it on the same copy left, j of k - 1 equal parts, and that is turn j with
    a chance of (1/c) (1 - 1/c)^(k - 1 - j). With 4 copies and 6 turns 6.86 of 15 parts.
    """
    missed = 1 - 1 / copies
    found = sum(
        missed ** (turn - 1 - before) / copies * before for turn in range(2, turns + 1) for before in range(1, turn)
    )
    return found / (turns * (turns - 1) / 2)


def planned_workload(profile: Profile, container: Container | None = None) -> PlannedWorkload:
    """The profile's workload at its means; a shared prefix counts as cached where the server is told to cache.

    `container` is a further component's, default the profile's own.
    """
    workload, container = profile.workload, container or profile.container
    settings = container.settings if container else None
    caches = getattr(settings, "enable_prefix_caching", None) is True
    return conversation_of(
        workload.turns,
        mean_tokens(workload.input_tokens),
        mean_tokens(workload.output_tokens),
        history=_history(profile, container),
        staggered=not isinstance(workload.output_tokens, int),
        cached_tokens=workload.shared_prefix_tokens if caches else 0,
        answers=None if isinstance(workload.output_tokens, int) else workload.output_tokens,
    )


def conversation_of(
    turns: int,
    prompt: int,
    answer: int,
    *,
    history: History,
    staggered: bool,
    cached_tokens: int,
    answers: TokenDistribution | None = None,
) -> PlannedWorkload:
    """Conversations of equal turns at their means; single requests are those of one turn."""
    every = range(1, turns + 1)
    return PlannedWorkload(
        input_tokens=round(mean(prompt_tokens(turn, prompt, answer) for turn in every)),
        output_tokens=answer,
        staggered=staggered,
        cached_tokens=cached_tokens,
        answers=answers,
        turns=turns,
        history_tokens=round(mean(history_tokens(turn, prompt, answer) for turn in every)),
        history=history,
    )


def _history(profile: Profile, container: Container | None) -> History:
    """What becomes of a conversation's history between its turns."""
    if container is None or not FAMILIES[container.family].keeps_prompts(container.settings):
        return "computed"
    routing = profile.endpoint.routing.strategy if profile.endpoint else ""
    return "followed" if routing == "prefix_aware" else "kept"


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
    if prompt is None or answer is None:
        return None
    return round(prompt_tokens(profile.workload.turns, prompt, answer)) + answer
