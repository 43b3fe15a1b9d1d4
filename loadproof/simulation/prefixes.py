"""What prompts find in the caches of the copies they come to: blocks from the first on; the least used go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile
from random import Random

from loadproof.capacity import memory_fit
from loadproof.capacity.workload import planned_deployment, planned_workload
from loadproof.profiles.schema import Profile


class BlockCache:
    """One copy's cache of prompt blocks. A block counts only where all before it are there too."""

    def __init__(self, most_blocks: int) -> None:
        self._most = most_blocks
        self._kept: OrderedDict[int, None] = OrderedDict()

    def use(self, blocks: Sequence[int]) -> int:
        """How many of these a prompt finds; it leaves all of them, and the least recently used make room."""
        found = sum(1 for _ in takewhile(self._kept.__contains__, blocks))
        for block in reversed(blocks):  # the last blocks of a prompt go before its first, which others may share
            self._kept[block] = None
            self._kept.move_to_end(block)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return found


def found_in_caches(profile: Profile, prompts: Sequence[Sequence[int]], block_tokens: int, seed: int = 0) -> list[int]:
    """Tokens of each prompt that its copy has already, by the ids of its blocks; copies are chosen by chance.

    Each copy holds as many blocks as its KV cache has room for: what runs at the time takes from that, so it is the
    most that may be found. Nothing where the server keeps no prompts.
    """
    deployment, workload = planned_deployment(profile), planned_workload(profile)
    if workload.history == "computed" or deployment.limits.scheduler != "chunked":
        return [0] * len(prompts)
    most = memory_fit(deployment).kv_token_capacity // block_tokens
    caches, chance = [BlockCache(most) for _ in range(deployment.copies)], Random(seed)
    return [block_tokens * chance.choice(caches).use(blocks) if blocks else 0 for blocks in prompts]
