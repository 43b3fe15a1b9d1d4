"""Prompts: the length asked for, the same for the same seed, no two alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadproof.bench.spec import TokenCounts, WorkloadSpec, fixed_tokens
from loadproof.bench.workload.arrivals import closed_loop
from loadproof.bench.workload.prompts import Prompts
from loadproof.bench.workload.synthetic import CORPUS_WORDS, WORDS


def prompts(tokens: int = 64, **others: object) -> Prompts:
    return Prompts(WorkloadSpec(fixed_tokens(tokens), fixed_tokens(8), **others))  # type: ignore[arg-type]


def test_there_are_256_distinct_words() -> None:
    """A byte spells one word, so two numbers never read the same."""
    assert len(WORDS) == len(set(WORDS)) == 256


@given(st.integers(1, 3000), st.integers(0, 2**32 - 1), st.integers(0, 9))
def test_a_prompt_has_as_many_words_as_tokens_asked_for(tokens: int, number: int, shared: int) -> None:
    """Each word is one token by the stated estimate, whatever the length."""
    planned = prompts(tokens, shared_prefix_tokens=shared).planned(number)
    assert len(planned.text.split(" ")) == planned.input_tokens == tokens


def test_a_prompt_longer_than_the_corpus_goes_round_it() -> None:
    """100,000 tokens come from a text of 32,768 words."""
    assert len(prompts(100_000).planned(0).text.split()) == 100_000 > CORPUS_WORDS


def test_the_same_seed_and_salt_give_the_same_prompts() -> None:
    """Two runs can be compared word for word; another seed gives other bodies."""
    assert prompts(seed=0, salt="a").planned(7) == prompts(seed=0, salt="a").planned(7)
    assert prompts(seed=0, salt="a").planned(7) != prompts(seed=1, salt="a").planned(7)


def test_no_two_prompts_share_a_beginning_a_cache_could_use() -> None:
    """Of 5,000 requests no two have the same first four words, nor does a run with another salt."""
    here, there = prompts(salt="run 1"), prompts(salt="run 2")
    heads = {" ".join(run.planned(number).text.split()[:4]) for run in (here, there) for number in range(5000)}
    assert len(heads) == 10_000


@given(st.sets(st.integers(0, 255), min_size=2, max_size=2))
def test_even_prompts_of_one_word_differ(numbers: set[int]) -> None:
    """Any two of 256 requests in a row."""
    first, second = (prompts(1).planned(number).text for number in numbers)
    assert first != second


def test_a_shared_prefix_is_shared_and_nothing_more() -> None:
    """With 10 shared tokens two prompts agree in exactly their first 10 words."""
    run = prompts(shared_prefix_tokens=10)
    first, second = run.planned(0).text.split(), run.planned(1).text.split()
    agreeing = next(place for place, words in enumerate(zip(first, second, strict=True)) if len(set(words)) == 2)
    assert agreeing == 10


def test_prompts_of_a_trace_without_blocks_share_no_prefix() -> None:
    """As is said where one is played: eight tokens recorded, and no two prompts with the same first words."""
    run = prompts(shared_prefix_tokens=10)
    first, second = (run.planned(number, (8, 2)) for number in range(2))
    assert (first.input_tokens, first.output_tokens) == (8, 2)
    assert first.text.split()[:4] != second.text.split()[:4]


@given(st.sampled_from(["normal", "lognormal", "uniform"]), st.integers(0, 500))
def test_drawn_counts_stay_inside_their_bounds(distribution: str, number: int) -> None:
    """A normal with a spread as large as its mean is cut to [5, 40], never below 1."""
    counts = TokenCounts(distribution, 20, 20, 5, 40)  # type: ignore[arg-type]
    planned = Prompts(WorkloadSpec(counts, counts)).planned(number)
    assert 5 <= planned.input_tokens <= 40 and 5 <= planned.output_tokens <= 40


def test_a_lognormal_has_the_mean_it_was_given() -> None:
    """Mean and stddev are of the counts: 4,000 draws of 200 ± 100 average 200 within 3 standard errors (±5)."""
    counts = TokenCounts("lognormal", 200, 100)
    run = Prompts(WorkloadSpec(counts, fixed_tokens(1)))
    drawn = [run.planned(number).input_tokens for number in range(4000)]
    assert abs(sum(drawn) / len(drawn) - 200) < 3 * 100 / 4000**0.5 + 0.5


def test_slots_open_one_a_millisecond() -> None:
    """Four slots open at 0, 1, 2 and 3 ms; a slot nobody needs stays shut."""
    assert closed_loop(100, 4).slot_open_ns == (0, 1_000_000, 2_000_000, 3_000_000)
    assert len(closed_loop(2, 4).slot_open_ns) == 2
