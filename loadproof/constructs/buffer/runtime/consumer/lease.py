"""The heartbeat: messages in hand stay hidden, and their keys claimed, as long as this process lives and no longer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

from botocore.exceptions import ClientError

from .claims import Claim
from .stores import StoreDownError

# A message comes back a little after its claim is free, so that whoever receives it then finds the key free.
_LATER_S: Final = 5.0


class Hides(Protocol):
    def hide(self, receipts: list[str], seconds: float) -> None: ...


class Renews(Protocol):
    def renew(self, claim: Claim, lease_s: float) -> bool: ...
    def release(self, claim: Claim) -> bool: ...


class Lease:
    """All that one process has in hand. Thread-safe; `beat` is called every third of a lease."""

    def __init__(self, queue: Hides, claims: Renews, lease_s: float, warn: Callable[[str], None]) -> None:
        self._queue = queue
        self._claims = claims
        self.lease_s = lease_s
        self._warn = warn
        self._beating = threading.Lock()
        self._lock = threading.Lock()
        self._held: dict[str, Claim | None] = {}  # by receipt
        self._ended: set[str] = set()  # receipts that Lambda deletes when the whole batch has ended

    def add(self, receipts: list[str]) -> None:
        """Take messages in hand: hidden for a lease, instead of the hour for which Lambda's queue hides them."""
        with self._lock:
            self._held.update(dict.fromkeys(receipts))
        self._hide(receipts, self.lease_s + _LATER_S)

    def hold(self, receipt: str, claim: Claim) -> None:
        """The message's key is claimed as well from now on."""
        with self._lock:
            self._held[receipt] = claim

    def finish(self, receipt: str) -> None:
        """Its key is done or about to be: the message stays hidden, the claim is renewed no more."""
        with self._lock:
            if receipt in self._held:
                self._held[receipt] = None

    def end(self, receipt: str) -> None:
        """Nothing is left to do for a message in hand: it stays hidden, for it is deleted only with its batch."""
        with self._lock:
            if receipt in self._held:
                del self._held[receipt]
                self._ended.add(receipt)

    def close(self) -> None:
        """The batch has ended."""
        with self._lock:
            self._held.clear()
            self._ended.clear()

    def drop(self, receipt: str) -> None:
        """Out of hand: nothing is renewed any more, not even by a beat that has begun."""
        with self._beating, self._lock:
            self._held.pop(receipt, None)

    def beat(self) -> None:
        """Renew all. A store that is down is tried again with the next beat, of which there are two in a lease."""
        with self._beating:
            with self._lock:
                held, hidden = list(self._held), [*self._held, *self._ended]
            try:
                for receipt in held:
                    self._renew(receipt)
            except (StoreDownError, ClientError) as error:
                self._warn(f"claims not renewed ({error})")
            self._hide(hidden, self.lease_s + _LATER_S)

    def give_back(self, receipts: list[str] | None = None, seconds: float = 0) -> None:
        """Let messages come back after so long, and free their keys at once: all that are in hand, or those named.

        Whoever gives back all waits for who is giving back one: a process may end after it, with nothing half done.
        """
        with self._beating:
            with self._lock:
                given = {receipt: self._held.pop(receipt, None) for receipt in receipts or list(self._held)}
            try:
                for claim in filter(None, given.values()):
                    self._claims.release(claim)
            except (StoreDownError, ClientError) as error:  # then their lease ends by itself
                self._warn(f"claims not released ({error})")
            self._hide(list(given), seconds)

    def _renew(self, receipt: str) -> None:
        """Asked before and after, for a key may be finished at any moment of a beat."""
        claim = self._claim_of(receipt)
        if claim is None or self._claims.renew(claim, self.lease_s):
            return
        if self._claim_of(receipt) is claim:
            claim.lost = True
            self._warn("a claim is held elsewhere: the put will decide")

    def _claim_of(self, receipt: str) -> Claim | None:
        with self._lock:
            return self._held.get(receipt)

    def _hide(self, receipts: list[str], seconds: float) -> None:
        try:
            if receipts:
                self._queue.hide(receipts, seconds)
        except (StoreDownError, ClientError) as error:
            self._warn(f"visibility not changed ({error})")


class Heartbeat:
    """Calls `beat` every so many seconds, in a thread of its own, while the block runs."""

    def __init__(self, beat: Callable[[], None], every_s: float) -> None:
        self._beat = beat
        self._every_s = every_s
        self._ended = threading.Event()

    def __enter__(self) -> None:
        threading.Thread(target=self._run, name="heartbeat", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            self._beat()
