"""A played trace's prompts share the blocks that it recorded, and nothing else."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from random import Random

import pytest
from bench_fakes import FakeEndpoint, serving
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bench_counting import byte_pair_tokenizer

from loadproof.bench.batch import Batch
from loadproof.bench.connect import parse_target
from loadproof.bench.job import run_benchmark
from loadproof.bench.learn.traced import seen_before
from loadproof.bench.live.lines import Line
from loadproof.bench.load.batches import share_of
from loadproof.bench.spec import REQUESTS_APART, BenchmarkSpec, WorkloadSpec, fixed_tokens
from loadproof.bench.workload.arrivals import schedule_of
from loadproof.bench.workload.blocks import Blocks, blocks_of
from loadproof.bench.workload.prompts import Prompts
from loadproof.bench.workload.traces import TraceRow, read_trace
from loadproof.loads import Load

WORKLOAD = WorkloadSpec(fixed_tokens(8), fixed_tokens(2), salt="run")


def alike(first: Sequence[object], second: Sequence[object]) -> int:
    """How many they begin alike with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def found_share(prompts: Sequence[str], block_words: int = 16) -> float:
    """Of all words, what a server that keeps every block of each prompt finds: a block counts with all before it."""
    kept, found, words = set[str](), 0, 0
    for prompt in prompts:
        said = prompt.split()
        words += len(said)
        begun = [" ".join(said[:end]) for end in range(block_words, len(said) + 1, block_words)]
        found += block_words * len([*takewhile(kept.__contains__, begun)])
        kept.update(begun)
    return found / words


@pytest.mark.parametrize("whose", ["words", "tokenizer", "letters"])
@pytest.mark.parametrize("shared", [0, 1, 3])
def test_prompts_share_exactly_the_blocks_they_have_in_common(tmp_path: Path, whose: str, shared: int) -> None:
    """In tokens: by words, by a tokenizer that begins with <s>, and by one that has none of our words as one token."""
    workload, encode = WORKLOAD, str.split
    if whose != "words":
        tokenizers = pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")
        byte_pair_tokenizer(tmp_path / "tokenizer.json")
        if whose == "letters":
            letters = {letter: place for place, letter in enumerate("_ abcdefghijklmnopqrstuvwxyz")}
            tokenizers.Tokenizer(tokenizers.models.BPE(letters, [])).save(str(tmp_path / "tokenizer.json"))
        workload = replace(workload, tokenizer=str(tmp_path))
        read = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        encode = lambda text: read.encode(text).ids  # noqa: E731
    prompts, begin = Prompts(workload), [*range(1, 1 + shared)]
    for size in (16, 64):
        first = prompts.planned(0, (5 * size - 3, 2), Blocks([*begin, *range(100, 105 - shared)], size))
        second = prompts.planned(1, (6 * size, 2), Blocks([*begin, *range(200, 206 - shared)], size))
        assert [len(encode(one.text)) for one in (first, second)] == [5 * size - 3, 6 * size]
        also = {"words": 0, "tokenizer": int(not shared), "letters": int(shared > 0)}[whose]  # <s>, a space
        assert alike(encode(first.text), encode(second.text)) == shared * size + also


@settings(deadline=None)  # tests share their machine
@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=6),
    st.lists(st.integers(0, 2**64 - 1), max_size=6),
    st.integers(1, 110),
    st.integers(1, 110),
)
def test_whatever_the_ids_whole_blocks_alike_are_those_that_ids_begin_alike_with(
    first: list[int], second: list[int], tokens: int, others: int
) -> None:
    """Lengths stay those recorded; where ids end before the prompt does, the rest is its own."""
    run = Prompts(WORKLOAD)
    one = run.planned(0, (tokens, 2), Blocks(first, 16)).text.split()
    two = run.planned(1, (others, 2), Blocks(second, 16)).text.split()
    assert (len(one), len(two)) == (tokens, others)
    assert alike(one, two) // 16 == min(alike(first, second), tokens // 16, others // 16)


def test_blocks_are_a_runs_own_and_a_levels(tmp_path: Path) -> None:
    """A second run, or level, finds nothing of the first in a cache; with --repeat-prompts all of it."""
    blocks, tokens = Blocks([1, 2], 16), (32, 2)
    here, there = Prompts(WORKLOAD), Prompts(replace(WORKLOAD, salt="another"))
    first = here.planned(0, tokens, blocks).text
    assert here.planned(5, tokens, blocks).text == first
    others = here.planned(2 * REQUESTS_APART, tokens, blocks), there.planned(0, tokens, blocks)
    assert [alike(first.split(), other.text.split()) < 16 for other in others] == [True, True]
    repeated = replace(WORKLOAD, unique_prompts=False)
    texts = (
        Prompts(replace(repeated, salt=salt)).planned(number, tokens, blocks).text
        for salt, number in (("a", 0), ("b", 2 * REQUESTS_APART))
    )
    assert len({*texts}) == 1


def test_a_named_conversations_prompts_go_on_from_each_other() -> None:
    """40 tokens are two whole blocks of 16, which the next turn of 90 begins with; another conversation has its own."""
    rows = [TraceRow(0, 40, 9, session=7), TraceRow(1, 50, 9, session=8), TraceRow(2, 90, 9, session=7)]
    first, other, later = blocks_of(rows)
    assert [len(one.ids) for one in (first, other, later)] == [2, 3, 5]
    assert [*later.ids[:2]] == [*first.ids] and not {*other.ids} & {*later.ids}
    run = Prompts(WORKLOAD)
    texts = [
        run.planned(number, (row.input_tokens, 9), one).text.split()
        for number, (row, one) in enumerate(zip(rows, blocks_of(rows), strict=True))
    ]
    assert [alike(texts[0], texts[place]) // 16 for place in (1, 2)] == [0, 2]
    assert blocks_of([TraceRow(0, 40, 9)]) == ()


def test_blocks_are_dealt_with_their_requests(tmp_path: Path) -> None:
    """To three processes; and a trace whose blocks changed is another schedule."""
    load = Load("trace", trace=str(block_trace(tmp_path / "t.jsonl", requests=20)))
    whole = schedule_of(load, 0, 0)
    rows = read_trace(tmp_path / "t.jsonl")
    assert whole.blocks == tuple(Blocks(array("Q", row.blocks), 16) for row in rows)
    batch = Batch("measured", 0, 0, whole, iter([(one,) for one in range(20)]), 0)
    for number in range(3):
        assert share_of(batch, number, 3).schedule.blocks == whole.blocks[number::3]
    other = replace(whole, blocks=(Blocks(array("Q", [99]), 16), *whole.blocks[1:]))
    assert other.sha256 != whole.sha256 != replace(whole, blocks=()).sha256


def block_trace(path: Path, requests: int = 60, seed: int = 3) -> Path:
    """Bailian's: single prompts on one of three beginnings, and turns which repeat all before them."""
    draw, lines, ends, fresh = Random(seed), list[str](), list[list[int]](), 1000
    for number in range(requests):
        first = 100 * draw.randint(1, 3)
        before = draw.choice(ends) if ends and draw.random() < 0.6 else [*range(first, first + 5)]
        new = draw.randint(2, 6)
        ids = [*before, *range(fresh, fresh + new)]
        fresh += new
        ends.append(ids[:-1])
        tokens = 16 * len(ids) - draw.randint(1, 15)
        row = {"chat_id": number, "parent_chat_id": -1, "timestamp": number * 0.02}
        lines.append(json.dumps(row | {"input_length": tokens, "output_length": 2, "hash_ids": ids}))
    path.write_text("\n".join(lines) + "\n")
    return path


def quiet(line: Line) -> None:
    """No display."""


@pytest.mark.parametrize("workers", [1, 3])
def test_a_servers_cache_finds_what_the_trace_says(tmp_path: Path, workers: int) -> None:
    """Of 60 prompts over half, whether one process sends them or three; of another level's nothing."""
    trace = block_trace(tmp_path / "t.jsonl")
    load = Load("trace", trace=str(trace))
    with serving(FakeEndpoint(itl_s=0)) as endpoint:
        spec = BenchmarkSpec(
            parse_target("sagemaker://demo/demo-main", "tgi", streaming=True, endpoint_url=endpoint.url),
            replace(WORKLOAD, salt=""),
            (1,),
            6,
            warmup_requests=0,
            loads=(load, load),
            workers=workers,
        )
        run_benchmark(spec, quiet, tmp_path / "run")
        sent = [one.prompt for one in endpoint.served]
    rows = read_trace(trace)
    assert sorted(len(prompt.split()) for prompt in sent) == sorted(2 * [row.input_tokens for row in rows])
    assert 0.5 < seen_before(rows) < 0.9
    assert found_share(sent) == pytest.approx(seen_before(rows), abs=0.01)


def test_a_block_longer_than_its_prompt_is_made_as_far_as_the_prompt_goes() -> None:
    """Of agents' traces that say what size they like: a billion tokens would not fit in memory."""
    texts = [Prompts(WORKLOAD).planned(0, (tokens, 2), Blocks([7], 1_000_000_000)).text.split() for tokens in (40, 70)]
    assert alike(*texts) == 40 and len(texts[1]) == 70
