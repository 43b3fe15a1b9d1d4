"""Token counts of simulated requests, drawn as a profile's workload describes them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat
from math import inf, log, log1p, sqrt
from random import Random
from typing import Any, Final

from loadproof.profiles.schema import TokenDistribution, Workload

Counts = int | TokenDistribution


def request_sizes(workload: Workload, seed: int = 0, kept_share: float = 0.0) -> Iterator[tuple[int, ...]]:
    """(input tokens, output tokens) of one request after another, without end.

    Of conversations one turn after another, with all before it; the third number is then how many of its prompt tokens
    the cache still has, `kept_share` of what the turn before ended with.
    """
    if workload.turns > 1:
        return _turns(workload, Random(seed), kept_share)
    if isinstance(workload.input_tokens, int) and isinstance(workload.output_tokens, int):
        return repeat((workload.input_tokens, workload.output_tokens))
    return _drawn(workload, Random(seed))


def _turns(workload: Workload, chance: Random, kept_share: float) -> Iterator[tuple[int, int, int]]:
    while True:
        history = 0
        for _ in range(workload.turns):
            new, answer = drawn_lengths(workload, chance)
            prompt = history + new
            yield prompt, answer, int(kept_share * history)
            history = prompt + answer


def conversations(workload: Workload, at_once: int, block_tokens: int, seed: int = 0) -> Iterator[tuple[Any, ...]]:
    """(input tokens, output tokens, ids of blocks, session) of conversations that go on side by side.

    `at_once` of them are under way, the next turn is any one's; one that has ended makes way for another. A turn's
    blocks are those of all before it, then new ones, its answer's included: servers keep what they made, too.
    """
    chance, begun = Random(seed), count()
    open_ones: list[tuple[int, int, int]] = []  # session, turns so far, tokens so far
    while True:
        at = chance.randrange(at_once)
        while len(open_ones) <= at:
            open_ones.append((next(begun), 0, 0))
        session, turns, history = open_ones[at]
        new, answer = drawn_lengths(workload, chance)
        prompt = history + new
        first = session * _MOST_BLOCKS
        yield prompt, answer, range(first, first + (prompt + answer) // block_tokens), session
        turns += 1
        open_ones[at] = (next(begun), 0, 0) if turns == workload.turns else (session, turns, prompt + answer)


_MOST_BLOCKS: Final = 1 << 24  # of a conversation


def _drawn(workload: Workload, chance: Random) -> Iterator[tuple[int, int]]:
    while True:
        yield drawn_lengths(workload, chance)


def drawn_lengths(workload: Workload, chance: Random) -> tuple[int, int]:
    """(prompt, answer): drawn together where they are paired, else each by itself."""
    prompts, answers = workload.input_tokens, workload.output_tokens
    if workload.paired_lengths and isinstance(prompts, TokenDistribution) and isinstance(answers, TokenDistribution):
        at = chance.randrange(len(prompts.values))
        return prompts.values[at], answers.values[at]
    return drawn_tokens(prompts, chance), drawn_tokens(answers, chance)


def drawn_tokens(counts: Counts, chance: Random) -> int:
    """One count, rounded and cut to its bounds.

    lognormal: mean and stddev are of the counts themselves: σ² = ln(1 + stddev²/mean²), μ = ln mean - σ²/2. Without
    a mean the middle of the bounds stands for it. empirical: one of its values, each as likely.
    """
    if isinstance(counts, int):
        return counts
    if counts.distribution == "empirical":
        return chance.choice(counts.values)
    mean = counts.mean if counts.mean is not None else (counts.min + (counts.max or counts.min)) / 2
    stddev = counts.stddev or 0.0
    if counts.distribution == "normal":
        value = chance.gauss(mean, stddev)
    elif counts.distribution == "lognormal":
        variance = log1p((stddev / mean) ** 2)
        value = chance.lognormvariate(log(mean) - variance / 2, sqrt(variance))
    elif counts.distribution == "uniform":
        value = chance.uniform(counts.min, counts.max or counts.min)
    else:
        value = mean
    return int(max(counts.min, 1, min(round(value), inf if counts.max is None else counts.max)))
