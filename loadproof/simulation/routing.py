"""Which copy a request goes to, and what of its prompt that copy's cache has.

`random` and `least_outstanding` are SageMaker's two plain strategies. `sticky` keeps a session on its copy, as a router
in front of the servers does, or SageMaker for models that issue a `SessionId`. `prefix_aware` is SageMaker's: prompts
that begin alike go to the same copy, unless that has more than a number of requests outstanding
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_PrefixAwareRoutingConfig.html). `kv_aware` goes where
most of the prompt is cached, the least loaded of equals, unless that copy is overloaded against the least loaded one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, get_args

from loadproof.simulation.prefixes import PromptCache, RoutingCounts
from loadproof.simulation.scheduling import Scheduler

Routing = Literal["random", "least_outstanding", "sticky", "prefix_aware", "kv_aware"]
ROUTINGS: Final[tuple[Routing, ...]] = get_args(Routing)
OVERLOADED_BY: Final = 32  # requests outstanding more than the least loaded copy has ...
OVERLOADED_TIMES: Final = 1.5  # ... and so many times as many
MOST_PREFIXES: Final = 100_000  # that a router remembers, the oldest of which it then forgets


@dataclass(frozen=True, slots=True)
class Prefixes:
    """How prompts are cached and compared, and what came of it. `block_tokens` 0: no copy keeps any."""

    block_tokens: int = 0
    compared_tokens: int = 1024
    """of a prompt's beginning, by `prefix_aware`"""
    most_outstanding: int = 32
    """at a prefix's copy, above which `prefix_aware` spreads"""
    counts: RoutingCounts = field(default_factory=RoutingCounts)


class Router:
    """Chooses among the copies that serve. The same arguments give the same choices."""

    def __init__(
        self,
        routing: Routing,
        slots: Sequence[Scheduler],
        serving: Sequence[int],
        *,
        prefixes: Prefixes | None = None,
        seed: int = 0,
    ) -> None:
        self._slots, self._serving, self._prefixes = slots, serving, prefixes or Prefixes()
        self._chance = Random(f"routing {seed}")  # not the stream that sizes and sessions are drawn from
        self._homes: OrderedDict[object, int] = OrderedDict()
        choices: dict[Routing, Callable[[Sequence[int], object], int]] = {
            "random": self._any,
            "least_outstanding": self._least_outstanding,
            "sticky": self._of_session,
            "prefix_aware": self._of_prefix,
            "kv_aware": self._of_cache,
        }
        self._choose = choices[routing]
        # Without blocks or sessions there is nothing to tell requests apart by.
        self._plain = self._any if routing == "random" else self._least_outstanding

    def index(self) -> int:
        """For a request of which only its length is known."""
        return self._serving[0] if len(self._serving) == 1 else self._plain((), None)

    def of_prompt(self, blocks: Sequence[int], session: object) -> int:
        """For a prompt of these blocks, which that copy's cache keeps."""
        index = self._choose(blocks, session) if len(self._serving) > 1 else self._serving[0]
        counts = self._prefixes.counts
        counts.requests[index] = counts.requests.get(index, 0) + 1
        copy = self._slots[index]
        if self._prefixes.block_tokens and copy.cache is None:
            copy.cache = PromptCache(self._prefixes.block_tokens, copy.capacity, counts)
        return index

    def _any(self, blocks: Sequence[int], session: object) -> int:
        return self._chance.choice(self._serving)

    def _least_outstanding(self, blocks: Sequence[int], session: object) -> int:
        loads = [self._slots[index].outstanding for index in self._serving]
        least = min(loads)
        return self._chance.choice([index for index, load in zip(self._serving, loads, strict=True) if load == least])

    def _of_session(self, blocks: Sequence[int], session: object) -> int:
        return self._home(session, blocks) if session is not None else self._least_outstanding(blocks, session)

    def _of_prefix(self, blocks: Sequence[int], session: object) -> int:
        compared = self._prefixes.compared_tokens // max(1, self._prefixes.block_tokens)
        if not blocks:
            return self._least_outstanding(blocks, session)
        # Ids of blocks stand for all before them, so the last one compared stands for the prefix.
        index = self._home(blocks[min(len(blocks), max(1, compared)) - 1], blocks)
        if self._slots[index].outstanding > self._prefixes.most_outstanding:
            return self._least_outstanding(blocks, session)
        return index

    def _home(self, key: object, blocks: Sequence[int]) -> int:
        index = self._homes.get(key)
        if index is None or index not in self._serving:
            index = self._least_outstanding(blocks, key)
            self._homes[key] = index
            if len(self._homes) > MOST_PREFIXES:
                self._homes.popitem(last=False)
        return index

    def _of_cache(self, blocks: Sequence[int], session: object) -> int:
        loads = {index: self._slots[index].outstanding for index in self._serving}
        least = min(loads.values())
        caches = {index: self._slots[index].cache for index in self._serving}
        found = {index: cache.blocks.found(blocks) if cache is not None else 0 for index, cache in caches.items()}
        best = max(self._serving, key=lambda index: (found[index], -loads[index]))
        overloaded = loads[best] - least > OVERLOADED_BY and loads[best] > OVERLOADED_TIMES * least
        return self._least_outstanding(blocks, session) if overloaded or not found[best] else best
