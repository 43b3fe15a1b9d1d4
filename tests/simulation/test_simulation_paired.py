"""Lengths that are paired are drawn together by the twin and by the benchmark alike."""

from __future__ import annotations

from itertools import islice
from random import Random

from loadproof.bench.spec import empirical_tokens
from loadproof.profiles.mixture import mixture_of
from loadproof.profiles.schema import Workload
from loadproof.simulation.sizes import request_sizes
from loadproof.token_counts import drawn_lengths

PAIRS = {(10, 100), (20, 50), (400, 7)}
WORKLOAD = {
    "input_tokens": {"distribution": "empirical", "values": (10, 20, 400)},
    "output_tokens": {"distribution": "empirical", "values": (100, 50, 7)},
}


def test_the_twin_draws_pairs() -> None:
    """Of single requests, and what each turn of a conversation brings; without it all nine come."""
    paired = Workload.model_validate({**WORKLOAD, "paired_lengths": True})
    assert set(islice(request_sizes(mixture_of(paired)), 200)) == PAIRS
    turns = Workload.model_validate({**WORKLOAD, "paired_lengths": True, "turns": 2})
    steps = [one for session in islice(request_sizes(mixture_of(turns)), 200) for one in session.steps]  # type: ignore[union-attr]
    assert {(one.input_tokens - one.history_tokens, one.output_tokens) for one in steps} == PAIRS
    assert len(set(islice(request_sizes(mixture_of(Workload.model_validate(WORKLOAD))), 300))) == 9


def test_the_benchmark_draws_the_same_pairs() -> None:
    draw, lengths = Random(1), (empirical_tokens([10, 20, 400]), empirical_tokens([100, 50, 7]))
    assert {drawn_lengths(*lengths, draw, paired=True) for _ in range(100)} == PAIRS
    assert len({drawn_lengths(*lengths, draw, paired=False) for _ in range(300)}) == 9
