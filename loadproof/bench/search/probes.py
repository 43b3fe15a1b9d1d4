"""What one measured level of a search amounts to: what it misses, how many requests exceed a bound, its verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, fsum, log
from typing import Literal

from loadproof.bench.judge.judgement import judge
from loadproof.bench.judge.verdict import invalid_reasons
from loadproof.bench.measure.latencies import Pool, pooled
from loadproof.bench.measure.metrics import LevelMetrics
from loadproof.bench.measure.parts import held_against
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.measure.steady import SteadyState, steady_tokens_per_s
from loadproof.bench.objectives import ERROR_RATE, Objective, figure
from loadproof.bench.spec import BenchmarkSpec
from loadproof.invocation.outcomes import OutcomeKind
from loadproof.sessions import label_of

Rule = Literal[
    "client",
    "timeout",
    "error_rate",
    "objective",
    "unsteady",
    "diminishing_return",
    "limit",
    "converged",
    "unconfirmed",
    "most_levels",
]
_ODDS = (1.25, 1.6, 2.0, 3.0, 5.0, 10.0)  # alternatives to a share of requests: so many times as many, or as few


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a level does not do: the rule, in words, and for an objective its name, bound and what was observed."""

    rule: Rule
    """which one"""
    reason: str
    """in words"""
    objective: str | None = None
    """that was missed"""
    observed: float | None = None
    """in the objective's unit"""
    bound: float | None = None
    """in the objective's unit"""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many of `samples` exceed one objective's bound, counted in independent ones, out of so many requests.

    `allowed` is the share that may: 0.05 of a p95.
    """

    exceeding: float
    samples: float
    allowed: float
    requests: int


@dataclass(frozen=True, slots=True)
class Probe:
    """One measured level of a search. It met where it misses nothing.

    `tallies`: one a latency objective. `confirms`: it was sent afresh to confirm its load. `passed`: every objective of
    latency has the verdict PASS by this level alone.
    """

    value: float
    misses: tuple[Miss, ...]
    throughput: float | None
    tallies: tuple[Tally, ...] = ()
    confirms: bool = False
    passed: bool = False

    @property
    def met(self) -> bool:
        return not self.misses

    @property
    def client_was_late(self) -> bool:
        return any(miss.rule == "client" for miss in self.misses)

    @property
    def broke(self) -> bool:
        """Errors, time-outs or growth: no latency bound is needed to call that too much."""
        return any(miss.rule in ("timeout", "error_rate", "unsteady") for miss in self.misses)


def pooled_tallies(probes: Iterable[Probe]) -> tuple[Tally, ...]:
    """Objective by objective over several measurements of one load."""
    return tuple(
        Tally(
            fsum(one.exceeding for one in same),
            fsum(one.samples for one in same),
            same[0].allowed,
            sum(one.requests for one in same),
        )
        for same in zip(*(probe.tallies for probe in probes if probe.tallies), strict=False)
    )


def e_value(tally: Tally, *, above: bool) -> float:
    """The evidence that more (`above`) or fewer requests than allowed exceed the bound: an e-value.

    Where the opposite is true it reaches 1/α with a chance of at most α, however often and whenever one looks: a
    mixture of likelihood ratios against fixed alternatives on one side is a test supermartingale (Ville 1939; Howard,
    Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", 2021).
    """
    allowed, within = tally.allowed, tally.samples - tally.exceeding
    odds = allowed / (1 - allowed)
    ratios = []
    for times in _ODDS:
        other = odds * times if above else odds / times
        share = other / (1 + other)
        ratio = tally.exceeding * log(share / allowed) + within * log((1 - share) / (1 - allowed))
        ratios.append(exp(min(ratio, 700.0)))
    return fsum(ratios) / len(ratios)


@dataclass(frozen=True, slots=True)
class Stop:
    """The search is over, by this rule."""

    rule: Rule
    """which one"""
    reason: str
    """in words"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The level to measure next: its load, and of one that confirms how many requests it takes."""

    value: float
    requests: int | None = None

    @property
    def confirms(self) -> bool:
        return self.requests is not None


def probe_of(
    value: float,
    level: LevelMetrics,
    records: Sequence[RequestRecord],
    steady: SteadyState,
    spec: BenchmarkSpec,
    *,
    confirms: bool = False,
) -> Probe:
    """What one measured level amounts to; `records` are its measured requests."""
    misses = _error_misses(level, spec)
    by_the_client = [Miss("client", reason) for reason in invalid_reasons(level)]
    tallies, passed = [], True
    for part, objective, ours, measured in held_against(spec, records, level):
        if objective.latency is None:
            continue
        if part and not ours:  # no session of that class was among so few
            tallies.append(Tally(0.0, 0.0, 1 - objective.latency[1] / 100, 0))
            passed = False
            continue
        succeeded = [record for record in ours if record.ok]
        judgement = judge(objective, ours, measured, spec.workload.seed, spec.workload.answer_length)
        observed = judgement.observed
        passed = passed and judgement.verdict == "PASS"
        metric, rank_percent = objective.latency
        shortest = pooled(metric, succeeded, "shortest")
        at_best = shortest.percentile_ms(rank_percent)
        missed = at_best is None or not objective.met_by(at_best)
        if observed is not None:
            pool = shortest if missed else pooled(metric, succeeded)
            sent = len(records) / len(ours)  # of all classes, for each of this one
            tallies.append(_tally(objective, pool, judgement.effective_samples or 0, sent))
        if missed:
            misses.append(_objective_miss(objective, observed, part))
        elif observed is not None and not objective.met_by(observed):
            miss = _objective_miss(objective, observed, part)
            by_the_client.append(Miss("client", f"{miss.reason}, without the client's own share {figure(at_best)}"))
    if level.unfinished:
        misses.append(Miss("unsteady", f"{level.unfinished} requests unfinished when the drain's time was over"))
    elif steady.growing and level.load is not None:
        misses.append(Miss("unsteady", "latency kept growing: requests come faster than they are served"))
    throughput = steady_tokens_per_s(level, steady, records)
    misses = misses or by_the_client  # what misses without its share, at less load than asked, misses all the same
    return Probe(value, tuple(misses), throughput, tuple(tallies), confirms, passed and not misses)


def _tally(objective: Objective, pool: Pool, effective: float, sent: float) -> Tally:
    assert objective.latency is not None
    _, rank_percent = objective.latency
    exceeding = float((pool.values > objective.bound * pool.per_ms).mean())
    return Tally(exceeding * effective, effective, 1 - rank_percent / 100, round(sent * pool.ends.size))


def _error_misses(level: LevelMetrics, spec: BenchmarkSpec) -> list[Miss]:
    misses = []
    timeouts = level.errors_by_kind.get(OutcomeKind.TIMEOUT, 0)
    if timeouts:
        misses.append(Miss("timeout", f"{timeouts} of {level.requests} requests timed out"))
    given = [objective.bound for objective in spec.objectives if objective.name == ERROR_RATE]
    most = given[0] if given else spec.max_error_rate
    share = level.errors / level.requests if level.requests else 1.0
    if share > most:
        text = f"{level.errors} of {level.requests} requests failed; at most {most:.2%} may"
        misses.append(Miss("error_rate", text, ERROR_RATE if given else None, share, most))
    return misses


def _objective_miss(objective: Objective, observed: float | None, part: str) -> Miss:
    shown, named = "no data" if observed is None else figure(observed), label_of(objective.name, part)
    reason = f"{named}: observed {shown}, bound {objective.comparison} {figure(objective.bound)}"
    return Miss("objective", reason, named, observed, objective.bound)
