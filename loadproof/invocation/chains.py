"""Items and the sessions they may belong to: a session's go one after another, each with the answers before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from loadproof.invocation.codecs.types import ChatMessage, GenerationRequest

MOST_PARKED = 4096  # items read ahead whose session is busy

Follow = Callable[[GenerationRequest, str, GenerationRequest], GenerationRequest]


@dataclass(frozen=True, slots=True)
class Item:
    """One request to be answered. `key` names its result.

    Items of one `chain` (a session) are sent in their order, each after the answer of the one before. `stored` is an
    answer from an earlier run: such an item is not sent again. `failed`: it failed then, and its session with it.
    `last`: no more of its chain will come.
    """

    key: str
    request: GenerationRequest
    chain: str | None = None
    stored: str | None = None
    failed: bool = False
    last: bool = False


def chat_turn(before: GenerationRequest, answer: str, new: GenerationRequest) -> GenerationRequest:
    """The next turn of a chat: what was said so far becomes its history."""
    said = (*before.history, ChatMessage("user", before.prompt), ChatMessage("assistant", answer))
    return replace(new, history=(*said, *new.history))


def prompt_turn(before: GenerationRequest, answer: str, new: GenerationRequest) -> GenerationRequest:
    """The same for servers that take one text: the new prompt follows what was said, on a line of its own."""
    return replace(new, prompt=f"{before.prompt}{answer}\n{new.prompt}")


@dataclass(slots=True)
class _Chain:
    waiting: deque[Item] = field(default_factory=deque)
    said: tuple[GenerationRequest, str] | None = None  # the last answered request, as sent, and its answer
    busy: bool = False
    broken: bool = False


class Chains:
    """Holds back each item until the one before it in its session has ended. Items without a session pass."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._chains: dict[str, _Chain] = {}
        self._ready: deque[Item] = deque()
        self._parked = 0

    @property
    def full(self) -> bool:
        """So many items wait for their session that no more should be read."""
        return self._parked >= MOST_PARKED

    @property
    def idle(self) -> bool:
        return not self._ready and not self._parked

    def add(self, item: Item) -> Iterator[Item]:
        """Take an item in; yields those that will never be sent, because their session is broken."""
        if item.chain is None:
            if item.stored is None and not item.failed:
                self._ready.append(item)
            return
        chain = self._chains.setdefault(item.chain, _Chain())
        chain.waiting.append(item)
        self._parked += 1
        yield from self._advance(item.chain, chain)

    def ready(self) -> Item | None:
        """An item that may be sent now."""
        return self._ready.popleft() if self._ready else None

    def request_of(self, item: Item) -> GenerationRequest:
        """The item's request with what its session said before."""
        if item.chain is None:
            return item.request
        request, said = replace(item.request, keep_text=True), self._chains[item.chain].said
        return request if said is None else self._follow(*said, request)

    def ended(self, item: Item, request: GenerationRequest, answer: str | None, ok: bool) -> Iterator[Item]:
        """Go on with the item's session; yields those that will never be sent."""
        if item.chain is None:
            return
        chain = self._chains[item.chain]
        chain.busy = False
        if ok:
            chain.said = (request, answer or "")
        else:
            chain.broken = True
        self._forget_after(item)
        yield from self._advance(item.chain, chain)

    def _advance(self, name: str, chain: _Chain) -> Iterator[Item]:
        while chain.waiting and not chain.busy:
            item = chain.waiting.popleft()
            self._parked -= 1
            chain.broken = chain.broken or item.failed
            if chain.broken:
                self._forget_after(item)
                if item.stored is None and not item.failed:
                    yield item
            elif item.stored is not None:
                chain.said = (self.request_of(item), item.stored)
                self._forget_after(item)
            else:
                chain.busy = True
                self._ready.append(item)

    def _forget_after(self, item: Item) -> None:
        if item.last and item.chain is not None:
            self._chains.pop(item.chain, None)
