"""The heartbeat: what is in hand is renewed every third of a lease, what is dropped no more, and all is given back."""

from __future__ import annotations

import threading
from collections.abc import Callable

from botocore.exceptions import ClientError

from loadproof.constructs.buffer.runtime.consumer.claims import Claim
from loadproof.constructs.buffer.runtime.consumer.lease import Heartbeat, Lease
from loadproof.constructs.buffer.runtime.consumer.stores import StoreDownError


class Stores:
    """Queue and claims that write down what they are asked; `beaten` is set at the third hiding."""

    def __init__(self) -> None:
        self.hidden: list[tuple[list[str], float]] = []
        self.renewed: list[str] = []
        self.released: list[str] = []
        self.error: Exception | None = None
        self.held = True
        self.beaten = threading.Event()
        self.during_renewal: Callable[[], None] = lambda: None

    def hide(self, receipts: list[str], seconds: float) -> None:
        self.hidden.append((receipts, seconds))
        if len(self.hidden) == 3:
            self.beaten.set()

    def renew(self, claim: Claim, lease_s: float) -> bool:
        if self.error is not None:
            raise self.error
        self.renewed.append(claim.key)
        self.during_renewal()
        return self.held

    def release(self, claim: Claim) -> bool:
        self.released.append(claim.key)
        return True


def lease_on(stores: Stores, lease_s: float = 60.0) -> tuple[Lease, list[str]]:
    warnings: list[str] = []
    return Lease(stores, stores, lease_s, warnings.append), warnings


def claim(key: str) -> Claim:
    return Claim(key, "me", fresh=True)


def test_what_is_in_hand_is_renewed_and_what_is_dropped_is_not() -> None:
    """Two messages, one with a claimed key; after the drop only the other one is hidden further."""
    stores = Stores()
    lease, warnings = lease_on(stores)
    lease.add(["r1", "r2"])
    lease.hold("r1", claim("a"))
    lease.beat()
    lease.drop("r1")
    lease.beat()
    assert stores.hidden == [(["r1", "r2"], 65.0), (["r1", "r2"], 65.0), (["r2"], 65.0)]
    assert (stores.renewed, warnings) == (["a"], [])


def test_a_claims_table_that_is_down_does_not_show_the_messages() -> None:
    """Their visibility is extended all the same, and the log says what failed."""
    for error in (StoreDownError("the claims table is down (test)"), ClientError({"Error": {"Code": "Denied"}}, "Any")):
        stores = Stores()
        lease, warnings = lease_on(stores)
        lease.add(["r1"])
        lease.hold("r1", claim("a"))
        stores.error = error
        lease.beat()
        assert len(stores.hidden) == 2
        assert warnings[0].startswith("claims not renewed (")


def test_a_claim_that_somebody_else_took_is_said() -> None:
    """What is under way goes on, and the put decides; the claim knows it, so that nothing more is begun."""
    stores = Stores()
    lease, warnings = lease_on(stores)
    lease.add(["r1"])
    mine = claim("a")
    lease.hold("r1", mine)
    lease.beat()
    assert not mine.lost
    stores.held = False
    lease.beat()
    assert mine.lost
    assert warnings == ["a claim is held elsewhere: the put will decide"]


def test_a_key_finished_while_it_is_renewed_is_not_warned_of() -> None:
    """Marked done between the question and its answer: the refusal is no news."""
    stores = Stores()
    lease, warnings = lease_on(stores)
    lease.add(["r1"])
    lease.hold("r1", claim("a"))
    stores.held = False
    stores.during_renewal = lambda: lease.finish("r1")
    lease.beat()
    assert (stores.renewed, warnings) == (["a"], [])


def test_a_message_that_ended_stays_hidden_until_its_batch_has_ended() -> None:
    """Lambda deletes it only then; its claim is renewed no more, and giving back does not touch it."""
    stores = Stores()
    lease, _ = lease_on(stores)
    lease.add(["r1", "r2"])
    lease.hold("r1", claim("a"))
    lease.end("r1")
    lease.beat()
    lease.give_back()
    lease.beat()
    lease.close()
    lease.beat()
    assert stores.hidden[1:] == [(["r2", "r1"], 65.0), (["r2"], 0), (["r1"], 65.0)]
    assert stores.renewed == []


def test_all_is_given_back_at_once() -> None:
    """Keys released, messages visible now, and nothing renewed any more."""
    stores = Stores()
    lease, _ = lease_on(stores)
    lease.add(["r1", "r2"])
    lease.hold("r2", claim("a"))
    lease.give_back()
    lease.beat()
    assert stores.hidden[1:] == [(["r1", "r2"], 0)]
    assert (stores.released, stores.renewed) == (["a"], [])


def test_the_heart_beats_in_a_thread_of_its_own() -> None:
    """With a lease of 30 ms the second beat comes long before anybody would wait for it, and none after the end."""
    stores = Stores()
    lease, _ = lease_on(stores, lease_s=0.03)
    with Heartbeat(lease.beat, lease.lease_s / 3):
        lease.add(["r1"])
        assert stores.beaten.wait(60)
    threads = [thread for thread in threading.enumerate() if thread.name == "heartbeat"]
    for thread in threads:
        thread.join(60)
    count = len(stores.hidden)
    assert count >= 3
    assert not any(thread.is_alive() for thread in threads)
