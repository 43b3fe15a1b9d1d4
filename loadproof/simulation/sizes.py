"""What is sent, request by request, as a workload's mixture draws it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, repeat
from math import ceil
from random import Random

from loadproof.sessions import Mixture, SessionClass
from loadproof.simulation.sessions import Session, sessions_of
from loadproof.token_counts import drawn_lengths


def request_sizes(
    mixture: Mixture, seed: int = 0, block_tokens: int = 0, faster: float = 1.0
) -> Iterator[tuple[int, int] | Session]:
    """(input tokens, output tokens) of one request after another, without end; or sessions, where they have steps.

    `block_tokens` of a server's cache of prompts; 0: it keeps none. Pauses are `faster` by so many times.
    """
    if not mixture.single:
        return sessions_of(mixture, seed, block_tokens, faster)
    one = mixture.classes[0]
    step = one.steps[0]
    if one.max_context_tokens is not None:
        return _within(one, Random(seed))
    if step.input_tokens.distribution == step.output_tokens.distribution == "fixed":
        chance = Random(seed)
        return repeat((step.input_tokens.drawn(chance) + step.image_tokens, step.output_tokens.drawn(chance)))
    return _drawn(one, Random(seed))


def so_many(
    mixture: Mixture, requests: int, seed: int = 0, block_tokens: int = 0
) -> Iterator[tuple[int, int] | Session]:
    """As many as have that many requests in the mean, whole sessions."""
    if mixture.single:
        return iter(_first(mixture, requests, seed))
    return islice(request_sizes(mixture, seed, block_tokens), ceil(requests / mixture.requests))


@lru_cache(maxsize=64)  # hundreds of alternatives are sent the same requests
def _first(mixture: Mixture, requests: int, seed: int) -> tuple[tuple[int, int] | Session, ...]:
    return tuple(islice(request_sizes(mixture, seed), requests))


def _within(one: SessionClass, chance: Random) -> Iterator[tuple[int, int]]:
    while True:
        (drawn,) = one.drawn(chance)
        yield drawn.input_tokens, drawn.output_tokens


def _drawn(one: SessionClass, chance: Random) -> Iterator[tuple[int, int]]:
    step = one.steps[0]
    while True:
        prompt, answer = drawn_lengths(step.input_tokens, step.output_tokens, chance, paired=one.paired_lengths)
        yield prompt + step.image_tokens, answer
