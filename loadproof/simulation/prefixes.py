"""A copy's cache of prompts: blocks from the first on; the least recently used go first, and none that is in use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import add, ne

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


class _Run:
    """Blocks that follow each other, used and left together: a node of the tree.

    `ids` are a slice of a prompt's, a list, tuple or range: two are compared, cut and joined without a loop of ours.
    `holders`: how many requests hold it; nobody keeps what is held. Neither held nor kept, it is a gap before runs that
    are kept.
    """

    __slots__ = ("children", "holders", "ids", "kept", "parent")

    def __init__(self, ids: Sequence[int], parent: _Run | None = None) -> None:
        self.ids, self.holders, self.kept = ids, 0, False
        self.parent = parent or self
        self.children: dict[int, _Run] = {}  # by their first block


class BlockCache:
    """One copy's cache of prompt blocks, a radix tree: a block is found where it follows the same blocks.

    A request in the batch holds its prompt's blocks, which several may share; what nobody holds is kept while there is
    room, the most recently used blocks, and of a prompt the first ones. Work is a run's, not a block's: whoever holds
    or leaves part of a run splits it, and what is left together in one order is joined.
    """

    def __init__(self) -> None:
        self._root = _Run(())
        self._kept: OrderedDict[_Run, None] = OrderedDict()  # the least recently used first, of each its last block
        self._kept_blocks = 0

    def found(self, blocks: Sequence[int]) -> int:
        """How many of these a prompt would find."""
        return self._beginning(blocks, kept=True)

    def shared(self, blocks: Sequence[int]) -> int:
        """How many of these, from the first on, somebody holds."""
        return self._beginning(blocks, kept=False)

    def hold(self, blocks: Sequence[int]) -> int:
        """How many of these a prompt finds; it holds all of them."""
        found, gap = 0, False
        for run in self._path(self._root, blocks, 0, len(blocks)):
            gap = gap or not (run.holders or run.kept)
            if not gap:
                found += len(run.ids)
            if run.kept:
                self._forget(run)
            run.holders += 1
        return found

    def release(self, blocks: Sequence[int], of_prompt: int, computed: int) -> int:
        """One request less holds the first `of_prompt` of these: what nobody else does of those that it has `computed`
        is kept, as the most recently used. How many of the prompt's others still hold."""
        path, run, end = list[_Run](), self._root, 0
        while end < of_prompt:
            run = run.children[blocks[end]]  # held, so nobody has changed it but to split it
            path.append(run)
            end += len(run.ids)
        if computed > end:
            path += self._path(run, blocks, end, computed)
            end = computed
        shared = 0
        for run in reversed(path):  # the last blocks go before the first, which others may share
            begin = end - len(run.ids)
            if begin < of_prompt:
                run.holders -= 1
            if run.holders:
                shared = max(shared, min(end, of_prompt))
            elif begin >= computed:
                self._prune(run)
            elif end > computed:
                self._keep(self._split(run, computed - begin))
                self._prune(run)
            else:
                self._keep(run)
            end = begin
        return shared

    def shrink(self, room: int) -> None:
        """Keep so many blocks that nobody holds, the least recently used ones not."""
        while self._kept_blocks > room:
            # A leaf: whoever used what follows it had used it, too, and left it later.
            run = next(iter(self._kept))
            left = len(run.ids) + room - self._kept_blocks
            if left > 0:
                run.ids = run.ids[:left]
                self._kept_blocks = room
            else:
                self._forget(run)
                self._prune(run)

    def _beginning(self, blocks: Sequence[int], *, kept: bool) -> int:
        at, end, run = 0, len(blocks), self._root
        while at < end:
            child = run.children.get(blocks[at])
            if child is None or not (child.holders or (kept and child.kept)):
                break
            run, after = child, at + len(child.ids)
            if blocks[at:after] != run.ids:
                at += _alike(run.ids, blocks[at:after])
                if at < after:
                    break
            at = after
        return at

    def _path(self, run: _Run, blocks: Sequence[int], at: int, end: int) -> list[_Run]:
        """The runs below this one that are these blocks from `at` to `end`, made where there are none."""
        path = []
        while at < end:
            child = run.children.get(blocks[at])
            if child is None:
                child = run.children[blocks[at]] = _Run(blocks[at:end], run)
                after = end
            else:
                after = at + len(child.ids)
                if after > end or blocks[at:after] != child.ids:
                    alike = _alike(child.ids, blocks[at : min(after, end)])
                    if alike < len(child.ids):
                        child, after = self._split(child, alike), at + alike
            path.append(child)
            run, at = child, after
        return path

    def _split(self, run: _Run, at: int) -> _Run:
        """The first blocks as a run of their own. If they were kept, its caller is about to use them: the rest stays
        where it was in the order."""
        first = _Run(run.ids[:at], run.parent)
        first.holders, first.kept = run.holders, run.kept
        run.parent.children[run.ids[0]] = first
        run.ids, run.parent = run.ids[at:], first
        first.children[run.ids[0]] = run
        return first

    def _keep(self, run: _Run) -> None:
        """As the most recently used; one with what follows it, if that was used just before and nothing else does."""
        kept = self._kept
        if run.kept:
            kept.pop(run, None)
        else:
            self._kept_blocks += len(run.ids)
            run.kept = True
        if len(run.children) == 1:
            (child,) = run.children.values()
            if child.kept and next(reversed(kept)) is child and (ids := _joined(run.ids, child.ids)):
                child.ids, child.parent = ids, run.parent
                run.parent.children[ids[0]] = child
                return
        kept[run] = None

    def _forget(self, run: _Run) -> None:
        self._kept.pop(run, None)
        self._kept_blocks -= len(run.ids)
        run.kept = False

    def _prune(self, run: _Run) -> None:
        """Gaps before nothing."""
        while not (run.children or run.holders or run.kept) and run is not self._root:
            del run.parent.children[run.ids[0]]
            run = run.parent


def _alike(ids: Sequence[int], there: Sequence[int]) -> int:
    """How many of these are the same, from the first on."""
    return next(compress(count(), map(ne, ids, there)), min(len(ids), len(there)))


def _joined(first: Sequence[int], later: Sequence[int]) -> Sequence[int] | None:
    """One run's ids; None where they are of two kinds, or ranges apart."""
    if isinstance(first, range) and isinstance(later, range):
        return range(first.start, later.stop) if first.stop == later.start and first.step == later.step == 1 else None
    joined: Sequence[int] | None = add(first, later) if type(first) is type(later) else None
    return joined


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
        shared = self.blocks.release(request.blocks, len(prompt), min(computed, len(request.blocks)))
        return self._tokens(request, shared)

    def _of_prompt(self, request: Request) -> Sequence[int]:
        begun: Sequence[int] = request.blocks[: -(-request.input_tokens // self._block_tokens)]
        return begun

    def _tokens(self, request: Request, blocks: int) -> int:
        return min(request.input_tokens, blocks * self._block_tokens)

    def _shrink(self, used_tokens: int, requests: int) -> None:
        self.blocks.shrink(max(0, (self.usable_tokens(requests) - used_tokens) // self._block_tokens))
