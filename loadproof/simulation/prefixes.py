"""A copy's cache of prompts: blocks from the first on; the least recently used go first, and none that is in use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from loadproof.simulation.request import Request


@dataclass(slots=True)
class RoutingCounts:
    """What came of it: prompt tokens in all and found in caches, and requests by copy."""

    prompt_tokens: int = 0
    found_tokens: int = 0
    requests: dict[int, int] = field(default_factory=dict)

    @property
    def found_share(self) -> float:
        """Of all prompt tokens."""
        return self.found_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def busiest_share(self) -> float:
        """Requests of the copy that had most, over the mean of all copies."""
        counts = self.requests.values()
        return max(counts) * len(counts) / sum(counts) if counts else 0.0


class BlockCache:
    """One copy's cache of prompt blocks. A block counts only where all before it are there too.

    A request in the batch holds its prompt's blocks, which several may share; what nobody holds is kept while there is
    room.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[int, None] = OrderedDict()
        self._held: dict[int, int] = {}

    def found(self, blocks: Sequence[int]) -> int:
        """How many of these a prompt would find."""
        kept, held = self._kept, self._held
        for count, block in enumerate(blocks):
            if block not in kept and block not in held:
                return count
        return len(blocks)

    def shared(self, blocks: Sequence[int]) -> int:
        """How many of these, from the first on, somebody holds."""
        held = self._held
        for count, block in enumerate(blocks):
            if block not in held:
                return count
        return len(blocks)

    def hold(self, blocks: Sequence[int]) -> int:
        """How many of these a prompt finds; it holds all of them."""
        found, kept, held = self.found(blocks), self._kept, self._held
        for block in blocks:
            count = held.get(block)
            if count is None:
                held[block] = 1
                kept.pop(block, None)
            else:
                held[block] = count + 1
        return found

    def release(self, blocks: Sequence[int], of_prompt: int, computed: int) -> None:
        """One request less holds the first `of_prompt` of these: what nobody else does of those that it has `computed`
        is kept, as the most recently used."""
        kept, held = self._kept, self._held
        # The last blocks go before the first, which others may share.
        for place in range(max(of_prompt, computed) - 1, -1, -1):
            block = blocks[place]
            count = held.get(block, 0)
            if place < of_prompt:
                if count > 1:
                    held[block] = count - 1
                    continue
                del held[block]
            elif count:
                continue
            if place < computed:
                kept[block] = None
                kept.move_to_end(block)

    def shrink(self, room: int) -> None:
        """Keep so many blocks that nobody holds, the least recently used ones not."""
        kept = self._kept
        while len(kept) > room:
            kept.popitem(last=False)


class PromptCache:
    """What a copy keeps of prompts in the KV memory that its batch leaves, as vLLM does.

    It is looked at when a request is let in: one that waits holds nothing, and finds what is left by then.
    """

    def __init__(self, block_tokens: int, capacity_tokens: int, counts: RoutingCounts) -> None:
        self.blocks = BlockCache()
        self._block_tokens, self._capacity_tokens, self._counts = block_tokens, capacity_tokens, counts

    def usable_tokens(self, requests: int) -> int:
        """For so many requests: a server sets one block aside, and half of each one's last is empty in the mean."""
        return self._capacity_tokens - self._block_tokens - requests * self._block_tokens // 2

    def shared_tokens(self, request: Request) -> int:
        """Of its prompt, in blocks that the batch holds already."""
        return self._tokens(request, self.blocks.shared(self._of_prompt(request)))

    def take(self, request: Request, used_tokens: int, new_tokens: int, requests: int) -> int:
        """Tokens of its prompt that a request finds on its way into a batch.

        `used_tokens`: what the batch holds without it, `new_tokens`: what it holds more with it; `requests` with it.
        """
        self._shrink(used_tokens, requests - 1)
        found = self._tokens(request, self.blocks.hold(self._of_prompt(request)))
        self._shrink(used_tokens + new_tokens, requests)
        if not request.put_back:
            self._counts.prompt_tokens += request.input_tokens
            self._counts.found_tokens += found
        return found

    def leave(self, request: Request, computed_tokens: int | None = None) -> int:
        """A request has left the batch; the tokens of its prompt that others still hold.

        `computed_tokens`: how many of its blocks' had been written, where it was put back; None: all.
        """
        prompt = self._of_prompt(request)
        computed = len(request.blocks) if computed_tokens is None else computed_tokens // self._block_tokens
        self.blocks.release(request.blocks, len(prompt), min(computed, len(request.blocks)))
        return self._tokens(request, self.blocks.shared(prompt))

    def _of_prompt(self, request: Request) -> Sequence[int]:
        begun: Sequence[int] = request.blocks[: -(-request.input_tokens // self._block_tokens)]
        return begun

    def _tokens(self, request: Request, blocks: int) -> int:
        return min(request.input_tokens, blocks * self._block_tokens)

    def _shrink(self, used_tokens: int, requests: int) -> None:
        self.blocks.shrink(max(0, (self.usable_tokens(requests) - used_tokens) // self._block_tokens))
