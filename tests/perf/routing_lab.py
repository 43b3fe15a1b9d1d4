"""How fast the routing lab is: a million requests of a block trace over four copies, by each strategy.

    .venv/bin/python tests/perf/routing_lab.py [--requests 1000000] [--copies 4] [--routing kv_aware]

The trace is made up in Mooncake's format: conversations of one to eight turns with a system prompt of one of twenty
applications, Zipf's law over these, blocks of 512 tokens. Cached share is held against a plain replay of the same
requests on the same copies, which knows nothing of this program: an LRU of as many blocks as fit, kept here.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator
from random import Random
from typing import Any

from loadproof.capacity import BatchLimits
from loadproof.simulation.chunked import Chunked
from loadproof.simulation.fleet import simulate_fleet
from loadproof.simulation.results import SimulatedRequest
from loadproof.simulation.routing import ROUTINGS, Prefixes
from loadproof.simulation.traffic import OpenLoop, arrival_times_ms

BLOCK_TOKENS = 512
CAPACITY_TOKENS = 4_000_000


class Steps:
    """Fast ones: what is measured is the router and its caches."""

    def step_ms(
        self,
        *,
        decodes: float = 0,
        context_tokens: float = 0,
        prefill_tokens: float = 0,
        prefill_pairs: float = 0,
        prefill_requests: float = 0,
    ) -> float:
        return 5.0 + 0.01 * prefill_tokens


def trace(requests: int, seed: int = 0) -> Iterator[tuple[Any, ...]]:
    """(input tokens, output tokens, blocks, session)."""
    chance, next_block, session = Random(seed), 1_000, 0
    systems = [tuple(range(20 * one, 20 * one + 1 + one % 4)) for one in range(20)]
    weights = [1 / (one + 1) for one in range(20)]
    open_ones: list[tuple[int, int, tuple[int, ...]]] = []
    for _ in range(requests):
        if len(open_ones) < 500 or chance.random() < 0.2:
            session += 1
            open_ones.append((session, chance.randint(1, 8), chance.choices(systems, weights)[0]))
        at = chance.randrange(len(open_ones))
        name, turns, blocks = open_ones[at]
        new = chance.choice((1, 1, 2, 4))
        blocks = (*blocks, *range(next_block, next_block + new))
        next_block += new
        yield len(blocks) * BLOCK_TOKENS, chance.randint(8, 64), blocks, name
        if turns == 1:
            open_ones[at] = open_ones[-1]
            open_ones.pop()
        else:
            open_ones[at] = (name, turns - 1, blocks)


def replayed(rows: list[tuple[Any, ...]], copies: list[int]) -> float:
    """The share of prompt tokens that plain LRUs find, one for each copy."""
    caches: dict[int, OrderedDict[int, bool]] = {}
    found = total = 0
    for (tokens, _, blocks, _), copy in zip(rows, copies, strict=True):
        cache = caches.setdefault(copy, OrderedDict())
        hits = 0
        for block in blocks:
            if block not in cache:
                break
            hits += 1
        for block in reversed(blocks):
            cache.pop(block, None)
            cache[block] = True
        while len(cache) > CAPACITY_TOKENS // BLOCK_TOKENS:
            cache.popitem(last=False)
        found, total = found + hits * BLOCK_TOKENS, total + tokens
    return found / total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--routing", choices=ROUTINGS)
    arguments = parser.parse_args()
    rows = list(trace(arguments.requests))
    print(f"{arguments.requests:,} requests, {arguments.copies} copies, {BLOCK_TOKENS} tokens a block")
    for routing in [arguments.routing] if arguments.routing else ROUTINGS:
        limits = BatchLimits("chunked", 256, 8192, None, None, 100_000, kv_token_capacity=CAPACITY_TOKENS)
        prefixes = Prefixes(BLOCK_TOKENS, compared_tokens=2048, most_outstanding=64)
        began_s = time.process_time()
        results = simulate_fleet(
            [Chunked(Steps(), limits) for _ in range(arguments.copies)],
            OpenLoop(arrival_times_ms("poisson", 10 * arguments.copies)),
            iter(rows),
            routing=routing,
            prefixes=prefixes,
        )
        ended = sorted((one.sent_ms, one.copy) for one in results if isinstance(one, SimulatedRequest))
        spent_s = time.process_time() - began_s
        plain = replayed(rows, [copy for _, copy in ended])
        print(
            f"{routing:18} {spent_s:6.1f} CPU-s   found {prefixes.counts.found_share:6.2%}, "
            f"plain replay {plain:6.2%}   busiest copy {prefixes.counts.busiest_share:.2f} x mean",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
