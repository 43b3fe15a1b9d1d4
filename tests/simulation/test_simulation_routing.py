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
from loadproof.simulation.results import SimulatedRequest
from loadproof.simulation.routing import ROUTINGS, Prefixes, Router, Routing
from loadproof.simulation.traffic import OpenLoop

BLOCK = 16


@dataclass
class Copy:
    """What a router sees of one."""

    outstanding: int = 0
    capacity: int = 1_600 + BLOCK  # a server sets a block aside
    held: int = 0
    running: tuple[object, ...] = ()


def router(routing: Routing, copies: Sequence[Copy], **prefixes: int) -> Router:
    found: Any = copies
    return Router(routing, found, range(len(copies)), prefixes=Prefixes(BLOCK, **prefixes), seed=1)


def test_least_outstanding_looks_at_no_cache() -> None:
    """The second copy is idle, the first has the prompt."""
    copies = [Copy(), Copy(outstanding=5)]
    lab = router("least_outstanding", copies)
    assert lab.take(range(4), None, 64) == (0, 0)
    copies[0].outstanding, copies[1].outstanding = 5, 0
    assert lab.take(range(4), None, 64) == (1, 0)
    assert lab.take(range(4), None, 64) == (1, 64)


def test_a_session_stays_where_it_began() -> None:
    """Whatever its copy has to do; another session goes where least is."""
    copies = [Copy(), Copy(outstanding=1)]
    lab = router("sticky", copies)
    assert lab.take(range(2), "a", 32)[0] == 0
    copies[0].outstanding = 50
    assert lab.take(range(4), "a", 64) == (0, 32)
    assert lab.take(range(9, 11), "b", 32)[0] == 1


def test_a_prefix_has_a_copy_until_that_is_overloaded() -> None:
    """32 tokens are compared, two blocks: the third may differ. Above the threshold the least loaded takes it."""
    copies = [Copy(), Copy(outstanding=1)]
    lab = router("prefix_aware", copies, compared_tokens=32, most_outstanding=8)
    assert lab.take((1, 2, 3), None, 48)[0] == 0
    copies[0].outstanding = 8
    assert lab.take((1, 2, 4), None, 48) == (0, 32)
    copies[0].outstanding = 9
    assert lab.take((1, 2, 5), None, 48) == (1, 0)


def test_the_cache_that_has_most_is_chosen_unless_overloaded() -> None:
    """Two blocks on copy 0, three on copy 1; with 40 outstanding against none copy 1 is passed over."""
    copies = [Copy(), Copy(outstanding=1)]
    lab = router("kv_aware", copies)
    lab.take((1, 2), None, 32)
    copies[0].outstanding, copies[1].outstanding = 1, 0
    lab._cache(1).hold((1, 2, 3))
    assert lab.take((1, 2, 3, 4), None, 64) == (1, 48)
    copies[1].outstanding, copies[0].outstanding = 40, 0
    assert lab.take((1, 2, 3, 4), None, 64) == (0, 32)


def test_what_runs_takes_from_what_is_kept() -> None:
    """Room for 100 blocks, of which a batch takes all but two: the last blocks of a prompt go first."""
    copies = [Copy()]
    lab = router("random", copies)
    assert lab.take(range(10), None, 160) == (0, 0)
    lab.release(0, range(10))
    assert lab.take(range(10), None, 160) == (0, 160)
    copies[0].held = 1_600 - 2 * BLOCK
    lab.release(0, range(10))
    assert lab.take(range(10), None, 160) == (0, 32)


def test_a_begun_block_is_a_whole_one() -> None:
    """Of 100 blocks four requests of 15.5 blocks in the mean have begun 64: of 40 kept 36 stay."""
    copies = [Copy()]
    lab = router("random", copies)
    lab.take(range(40), None, 640)
    lab.release(0, range(40))
    copies[0].held, copies[0].running = 4 * 15 * BLOCK + 4 * BLOCK // 2, (1, 2, 3, 4)
    lab.take((), None, 1)
    assert lab._cache(0).found(range(40)) == 36


def test_blocks_that_are_in_use_are_not_evicted_and_count_once() -> None:
    """Two requests hold the same 60 of 100 blocks; 40 others are kept beside them, of 50 that were left."""
    copies = [Copy()]
    lab = router("random", copies)
    lab.take(range(100, 150), None, 800)
    lab.release(0, range(100, 150))
    assert lab.take(range(60), None, 960) == (0, 0)
    assert lab.take(range(60), None, 960) == (0, 960)
    assert lab._cache(0).found(range(100, 150)) == 40
    lab.release(0, range(60))
    assert lab._cache(0).held == 60


def test_nothing_is_found_where_nothing_is_kept() -> None:
    """A server without a cache of prompts."""
    found: Any = [Copy()]
    lab = Router("kv_aware", found, [0], prefixes=Prefixes(0))
    assert [lab.take(range(4), None, 64) for _ in range(2)] == [(0, 0), (0, 0)]


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
