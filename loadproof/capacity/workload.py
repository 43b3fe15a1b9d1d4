"""What the planner makes of a workload: equal requests at its means, and whether they keep step with each other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, inf
from statistics import NormalDist
from typing import Literal, Protocol, TypeAlias

from loadproof.capacity.curve import PredictedLevel, predict_level
from loadproof.capacity.deployment import PlannedDeployment, deployment_of
from loadproof.capacity.memory import memory_fit
from loadproof.families import FAMILIES
from loadproof.profiles.mixture import counts_of, longest_of, planned_mixture_of
from loadproof.profiles.schema import Container, Profile, TokenDistribution
from loadproof.sessions import Mixture

# Computed anew at each turn; kept by the copy that computed it; kept, and the next turn is led there.
History: TypeAlias = Literal["computed", "kept", "followed"]


class Replay(Protocol):
    """Plays a level request by request (`simulation.replay`), for what no formula knows: how requests meet."""

    def __call__(self, deployment: PlannedDeployment, level: PredictedLevel) -> PredictedLevel: ...


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """Requests as they are planned: token counts at their means, `cached_tokens` of each prompt in the prefix cache.

    `staggered`: answers of spread lengths end at different times, so their prefills spread out too. `answers` is their
    distribution, which percentiles of E2E follow; None: all are `output_tokens` long. Of sessions of up to `turns`
    steps the prompt is the mean over them, `history_tokens` of it what came before, which a server may still have;
    `longest` is (prompt, history) of the longest step, `later_share` how many of all requests are no first ones.
    `replay` gives levels their percentiles, and sessions their means.
    """

    input_tokens: int
    output_tokens: int
    staggered: bool = False
    cached_tokens: int = 0
    answers: TokenDistribution | None = None
    turns: int = 1
    history_tokens: int = 0
    history: History = "computed"
    longest: tuple[float, float] = (0.0, 0.0)
    later_share: float = 0.0
    mixture: Mixture | None = None
    replay: Replay | None = field(default=None, compare=False)

    @property
    def paused(self) -> bool:
        """Whether somebody thinks, or a tool runs, between the steps of a session."""
        return self.mixture is not None and self.mixture.pause_s > 0

    @property
    def varies(self) -> bool:
        """Whether sessions are not all of the same turns, one after another."""
        found = self.mixture.classes if self.mixture is not None else ()
        return len(found) > 1 or any(not one.is_chain or one.ends_early for one in found)

    @property
    def single(self) -> bool:
        """Whether requests come one by one, of one class: what the formula is fitted to."""
        return self.mixture is None or self.mixture.single

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
        cached = self.cached_tokens * (1 - kept_share * self.later_share) + kept_share * self.history_tokens
        found = min(round(cached), self.input_tokens - 1) if deployment.limits.scheduler == "chunked" else 0
        level = self._settled(deployment, concurrency, found)
        if level is None:
            return None
        if (longer := self._longest_prefill(found)) != 1.0:
            level = replace(level, ttft_last_ms=level.ttft_last_ms * longer)
        return level if self.replay is None else self.replay(deployment, level)

    def _settled(self, deployment: PlannedDeployment, sessions: int, cached: int) -> PredictedLevel | None:
        """So many sessions, whose requests in flight are fewer while they pause, and more where they branch."""

        def level(in_flight: int) -> PredictedLevel | None:
            return predict_level(
                deployment,
                self.input_tokens,
                self.output_tokens,
                in_flight,
                staggered=self.staggered,
                cached_tokens=cached,
            )

        mixture = self.mixture
        if mixture is None or mixture.in_flight(1.0, 1.0) == 1.0:  # one after another, and nobody pauses
            return level(sessions)
        least, most = 1, max(2, ceil(sessions * mixture.in_flight(1.0, inf)))
        while most - least > 1:  # the more are in flight, the longer each takes, and the less the pauses weigh
            middle = (least + most) // 2
            tried = level(middle)
            if tried is None:
                return None
            least, most = (
                (middle, most) if mixture.in_flight(sessions, tried.e2e_ms / 1000) >= middle else (least, middle)
            )
        found = level(least)
        if found is None:
            return None
        # A whole number in flight stands for the fraction that there is, between it and the next.
        rate = mixture.requests_per_s(sessions, found.e2e_ms / 1000)
        rate = min(rate, found.requests_per_s * (least + 1) / least)
        tokens = rate * self.output_tokens
        return replace(found, concurrency=sessions, requests_per_s=rate, output_tokens_per_s=tokens)

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
        """The longest step's prompt tokens to compute over the mean's: percentiles of TTFT are those of long ones."""
        if self.turns == 1:
            return 1.0
        prompt, history = self.longest
        kept = cached * history / max(1, self.history_tokens)
        return max(1.0, (prompt - kept) / max(1.0, self.input_tokens - cached))


def met_again(turns: int, copies: int) -> float:
    """The share of all history that turns find where each goes to any copy by chance.

    Turn k finds what the latest turn j before it on the same copy left, j of k - 1 equal parts, and that is turn j with
    a chance of (1/c) (1 - 1/c)^(k - 1 - j). With 4 copies and 6 turns 6.86 of 15 parts.
    """
    missed = 1 - 1 / copies
    # Of each distance k - 1 - j the parts j from 1 to the turns that have one so far before them.
    sums = ((turns - apart) * (turns - 1 - apart) / 2 for apart in range(turns - 1))
    found = sum(missed**apart / copies * parts for apart, parts in enumerate(sums))
    return found / (turns * (turns - 1) / 2)


def planned_workload(profile: Profile, container: Container | None = None) -> PlannedWorkload:
    """The profile's workload at its means; a shared prefix counts as cached where the server keeps prompts.

    `container` is a further component's, default the profile's own.
    """
    workload, container = profile.workload, container or profile.container
    return planned_mixture(
        planned_mixture_of(profile),
        history=_history(profile, container),
        caches=keeps_prompts(container),
        answers=None if isinstance(workload.output_tokens, int) else workload.output_tokens,
    )


def planned_mixture(
    mixture: Mixture, *, history: History, caches: bool, answers: TokenDistribution | None = None
) -> PlannedWorkload:
    """A mixture's requests at their means, each class and step as often as it is sent."""
    rows = [  # (how often, prompt, history, answer, shared prefix), a step each
        (share * step.sent_share, step.input_tokens, step.history_tokens, step.output_tokens, one.shared_prefix_tokens)
        for share, one in zip(mixture.shares, mixture.classes, strict=True)
        for step in one.expected
    ]
    total = sum(row[0] for row in rows)

    def mean(column: int) -> int:
        return round(sum(row[0] * row[column] for row in rows) / total)

    steps = [step for one in mixture.classes for step in one.steps]
    longest = max(rows, key=lambda row: row[1])
    return PlannedWorkload(
        input_tokens=mean(1),
        output_tokens=mean(3),
        staggered=any(step.output_tokens.distribution != "fixed" for step in steps)
        or len({row[3] for row in rows}) > 1,
        cached_tokens=mean(4) if caches else 0,
        answers=answers,
        turns=max(len(one.expected) for one in mixture.classes),
        history_tokens=mean(2),
        history=history,
        longest=(longest[1], longest[2]),
        later_share=sum(row[0] for row in rows if row[2]) / total,
        mixture=mixture,
    )


def keeps_prompts(container: Container | None) -> bool:
    """Whether its server serves prompts that begin alike from what it computed before, as it is set or by default."""
    return container is not None and FAMILIES[container.family].keeps_prompts(container.settings)


def _history(profile: Profile, container: Container | None) -> History:
    """What becomes of a conversation's history between its turns."""
    if not keeps_prompts(container):
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
    return counts_of(counts).at(NormalDist().inv_cdf(quantile))


def longest_request_tokens(profile: Profile) -> int | None:
    """Prompt plus answer of the longest request the workload may send; None where a tail has no end."""
    found = [whole for one in planned_mixture_of(profile).classes for _, whole in longest_of(one)]
    return None if inf in found else round(max(found))
