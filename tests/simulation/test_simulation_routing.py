"""Routing over copies with caches: each strategy by hand, and all of them against a plain replay that is not ours."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from loadproof.capacity import BatchLimits
from loadproof.capacity.workload import met_again, planned_deployment, planned_workload
from loadproof.profiles import load_profile
from loadproof.profiles.schema import Workload
from loadproof.simulation import OtherLoad, simulate_profile, traffic_of
from loadproof.simulation.chunked import Chunked
from loadproof.simulation.fleet import simulate_fleet
from loadproof.simulation.prefixes import PromptCache, RoutingCounts
from loadproof.simulation.request import Request
from loadproof.simulation.results import SimulatedRequest
from loadproof.simulation.routing import ROUTINGS, Prefixes, Router, Routing
from loadproof.simulation.traffic import OpenLoop

BLOCK = 16


@dataclass
class Copy:
    """What a router sees of one."""

    outstanding: int = 0
    capacity: int = 1_600 + BLOCK  # a server sets a block aside
    cache: PromptCache | None = None


def router(routing: Routing, copies: Sequence[Copy], **prefixes: int) -> Router:
    found: Any = copies
    return Router(routing, found, range(len(copies)), prefixes=Prefixes(BLOCK, **prefixes), seed=1)


def test_least_outstanding_looks_at_no_cache() -> None:
    """The first copy has the prompt, the second is idle."""
    copies = [Copy(outstanding=5, cache=cache()), Copy()]
    assert copies[0].cache is not None
    copies[0].cache.blocks.hold(range(4))
    assert router("least_outstanding", copies).of_prompt(range(4), None) == 1


def test_a_session_stays_where_it_began() -> None:
    """Whatever its copy has to do; another session goes where least is."""
    copies = [Copy(), Copy(outstanding=1)]
    lab = router("sticky", copies)
    assert lab.of_prompt(range(2), "a") == 0
    copies[0].outstanding = 50
    assert lab.of_prompt(range(4), "a") == 0
    assert lab.of_prompt(range(9, 11), "b") == 1


def test_a_prefix_has_a_copy_until_that_is_overloaded() -> None:
    """32 tokens are compared, two blocks: the third may differ. Above the threshold the least loaded takes it."""
    copies = [Copy(), Copy(outstanding=1)]
    lab = router("prefix_aware", copies, compared_tokens=32, most_outstanding=8)
    assert lab.of_prompt((1, 2, 3), None) == 0
    copies[0].outstanding = 8
    assert lab.of_prompt((1, 2, 4), None) == 0
    copies[0].outstanding = 9
    assert lab.of_prompt((1, 2, 5), None) == 1


def test_the_cache_that_has_most_is_chosen_unless_overloaded() -> None:
    """Two blocks on copy 0, three on copy 1; with 40 outstanding against none copy 1 is passed over."""
    copies = [Copy(outstanding=1, cache=cache()), Copy(cache=cache())]
    lab = router("kv_aware", copies)
    for copy, blocks in zip(copies, ((1, 2), (1, 2, 3)), strict=True):
        assert copy.cache is not None
        copy.cache.blocks.hold(blocks)
    assert lab.of_prompt((1, 2, 3, 4), None) == 1
    copies[1].outstanding, copies[0].outstanding = 40, 0
    assert lab.of_prompt((1, 2, 3, 4), None) == 0


def test_nothing_is_found_where_nothing_is_kept() -> None:
    """A server without a cache of prompts is given none."""
    copies = [Copy()]
    found: Any = copies
    Router("kv_aware", found, [0], prefixes=Prefixes(0)).of_prompt(range(4), None)
    assert copies[0].cache is None


# ------------------------------------------------------------------------------------------------ a copy's cache


def cache(capacity_tokens: int = 1_600 + BLOCK) -> PromptCache:
    return PromptCache(BLOCK, capacity_tokens, RoutingCounts())


def request(blocks: Sequence[int], input_tokens: int = 0, output_tokens: int = 1) -> Request:
    one = Request("", input_tokens or BLOCK * len(blocks), output_tokens, 0.0)
    one.blocks = blocks
    return one


def test_what_runs_takes_from_what_is_kept() -> None:
    """Room for 100 blocks, of which a batch takes all but two: the last blocks of a prompt go first."""
    lab, one = cache(), request(range(10))
    assert lab.take(one, 0, 160, 1) == 0
    lab.leave(one)
    assert lab.take(one, 0, 160, 1) == 160
    lab.leave(one)
    assert lab.take(one, 1_600 - 2 * BLOCK, 160, 1) == 32


def test_a_begun_block_is_a_whole_one() -> None:
    """Of 100 blocks four requests of 15.5 blocks in the mean have begun 64: of 40 kept 36 stay."""
    lab, one = cache(), request(range(40))
    lab.take(one, 0, 640, 1)
    lab.leave(one)
    lab.take(request(()), 4 * 15 * BLOCK + 4 * BLOCK // 2, 0, 4)
    assert lab.blocks.found(range(40)) == 36


def test_blocks_that_are_in_use_are_not_evicted_and_count_once() -> None:
    """Two requests hold the same 60 of 100 blocks, which cost the second nothing; of 50 others that were kept 39 are
    left beside them and the two half blocks that the two have begun."""
    lab, other, one, same = cache(), request(range(100, 150)), request(range(60)), request(range(60))
    lab.take(other, 0, 800, 1)
    lab.leave(other)
    assert lab.take(one, 0, 960, 1) == 0
    assert lab.shared_tokens(same) == 960
    assert lab.take(same, 960, 0, 2) == 960
    assert lab.blocks.found(range(100, 150)) == 39
    assert lab.leave(one) == 960
    assert lab.leave(same) == 0


def test_what_was_not_computed_is_not_found() -> None:
    """Put back after 100 of 160 tokens: six whole blocks of ten stay; another's count does not go up again."""
    counts = RoutingCounts()
    lab, one = PromptCache(BLOCK, 1_616, counts), request(range(10))
    lab.take(one, 0, 160, 1)
    lab.leave(one, 100)
    one.put_back = True
    assert lab.take(one, 0, 160, 1) == 96
    assert (counts.prompt_tokens, counts.found_tokens) == (160, 0)


def test_an_answer_is_found_by_the_next_turn_only_once_it_is_there() -> None:
    """A prompt of 32 tokens and an answer of 33, whose last one has no KV: four blocks."""
    lab, one = cache(), request(range(4), 32, 33)
    lab.take(one, 0, 32, 1)
    assert lab.blocks.found(range(4)) == 2
    lab.leave(one)
    assert lab.blocks.found(range(4)) == 4


def copy_of(capacity: int, places: int = 8) -> Chunked:
    return Chunked(Steps(), BatchLimits("chunked", places, 8_192, None, None, 100, kv_token_capacity=capacity))


def test_a_request_finds_what_is_left_when_its_turn_comes() -> None:
    """One place. The second and the third come when the first's blocks are kept; the second needs their memory."""
    rows = [(640, 2, range(40), "a"), (1_280, 2, range(100, 180), "b"), (640, 2, range(40), "a")]
    prefixes = Prefixes(BLOCK)
    list(simulate_fleet([copy_of(1_600, 1)], OpenLoop([0.0, 100.0, 100.0]), rows, prefixes=prefixes))
    assert prefixes.counts.found_tokens == 18 * BLOCK  # of 100 blocks one is aside, 80 and a half are the second's


@pytest.mark.parametrize(("common", "together"), [(36, 10), (0, 2)])
def test_memory_for_a_shared_prefix_is_taken_once(common: int, together: int) -> None:
    """Ten prompts of 40 blocks in memory of 100: with 36 in common all are in one batch, with none two."""
    copy = copy_of(1_600, 100)
    copy.cache = cache(1_600)
    copy.waiting.extend(
        request([*range(common), *range(100 * one, 100 * one + 40 - common)], 640, 40) for one in range(1, 11)
    )
    assert copy.plan(0.0)
    assert len(copy.running) == together
    while copy.outstanding:
        copy.commit()
        copy.plan(copy.end_ms)
    assert copy.held == 0


class Steps:
    """A step takes 5 ms and 10 µs a prompt token."""

    def step_ms(self, *, prefill_tokens: float = 0, **beside: float) -> float:
        return 5.0 + 0.01 * prefill_tokens


def conversations(at_once: int, chance: Random) -> Iterator[tuple[Any, ...]]:
    """(input, output, blocks, session): six turns of 400 tokens and answers of 40, the next one any conversation's."""
    begun, turns = count(), dict.fromkeys(range(at_once), (-1, 6))
    while True:
        at = chance.randrange(at_once)
        session, turn = turns[at]
        if turn == 6:
            session, turn = next(begun), 0
        turns[at] = (session, turn + 1)
        tokens = 440 * turn + 400
        yield tokens, 40, range(session << 20, (session << 20) + (tokens + 40) // BLOCK), session


@pytest.mark.parametrize("routing", ROUTINGS)
def test_hits_are_those_of_a_plain_replay(routing: Routing) -> None:
    """The same requests on the copies that they went to, through an LRU that knows nothing of ours: within a point."""
    capacity, rows = 60_000, list(islice(conversations(60, Random(3)), 3000))
    chance, times, now = Random(4), [], 0.0
    for _ in rows:
        now += chance.expovariate(1 / 100)
        times.append(now)
    limits = BatchLimits("chunked", 64, 2048, None, None, 10_000, kv_token_capacity=capacity)
    prefixes = Prefixes(BLOCK, compared_tokens=400)
    results = simulate_fleet(
        [Chunked(Steps(), limits) for _ in range(3)],
        OpenLoop(times),
        rows,
        routing=routing,
        prefixes=prefixes,
    )
    ended = sorted((one.sent_ms, one.copy) for one in results if isinstance(one, SimulatedRequest))
    assert len(ended) == len(rows)
    share = _replayed(rows, [copy for _, copy in ended], capacity // BLOCK)
    assert prefixes.counts.found_share == pytest.approx(share, abs=0.01)
    assert prefixes.counts.requests == Counter(copy for _, copy in ended)
    assert 0.1 < share < 0.9


def _replayed(rows: list[tuple[Any, ...]], copies: list[int], most_blocks: int) -> float:
    caches: dict[int, OrderedDict[int, bool]] = {}
    found = total = 0
    for (tokens, _, blocks, _), copy in zip(rows, copies, strict=True):
        cache = caches.setdefault(copy, OrderedDict())
        hits = next((at for at, block in enumerate(blocks) if block not in cache), len(blocks))
        for block in reversed(blocks):
            cache.pop(block, None)
            cache[block] = True
        while len(cache) > most_blocks:
            cache.popitem(last=False)
        found, total = found + min(tokens, hits * BLOCK), total + tokens
    return found / total


def test_the_plans_share_is_the_twins() -> None:
    """Four copies, six turns: 6.864 of 15 parts of the history (by hand), and the twin finds within a tenth of that."""
    assert met_again(6, 4) == pytest.approx(6.8643 / 15, abs=1e-4)
    file = Path(__file__).parents[2] / "deploy_profiles" / "base" / "qwen3-32b.yaml"
    profile = load_profile(file)
    assert profile.copies is not None
    assert profile.endpoint is not None
    workload = Workload.model_validate({"input_tokens": 500, "output_tokens": 100, "turns": 6})
    four = profile.model_copy(
        update={
            "workload": workload,
            "copies": profile.copies.model_copy(update={"min": 4, "max": 4}),
            "scaling": None,
            "endpoint": profile.endpoint.model_copy(update={"min_instances": 4, "max_instances": 4}),
        }
    )
    planned = planned_workload(four)
    share = planned.kept_share(planned_deployment(four), 16) * planned.history_tokens / planned.input_tokens
    made = simulate_profile(
        four, minutes=20, traffic=replace(traffic_of(four, OtherLoad(concurrency=16)), routing="random")
    )
    assert made.routed.found_share == pytest.approx(share, rel=0.1)
    led = simulate_profile(
        four, minutes=20, traffic=replace(traffic_of(four, OtherLoad(concurrency=16)), routing="sticky")
    )
    assert led.routed.found_share > 2 * made.routed.found_share
