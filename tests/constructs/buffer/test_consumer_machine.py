"""The contract under any order of events: sends, crashes at any call, lost time, overlapping consumers, redrives.

SQS is the local cloud's engine, the consumer's core is the real one, time is virtual. What must hold after each step:
every message that was sent is in a queue or has its result, a result never changes, no key is generated more often
than its crashes explain, and no healthy message is among the dead letters. The mutants at the end prove that the
machine sees each of these go wrong.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from consumer_memory import LEASE_S, VISIBILITY_S, MemoryClaims, Process, World, answered, body_of
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from loadproof.constructs.buffer.runtime.consumer.claims import Claim, Taken
from loadproof.constructs.buffer.runtime.consumer.failures import Kind, ModelFailure

KEYS = ("a", "b", "c")
HEALED = (Kind.SLOW_DOWN, Kind.UNAVAILABLE, Kind.NO_CAPACITY_YET, Kind.TRY_AGAIN)


class Buffered(RuleBasedStateMachine):
    """Healthy messages only: whatever happens to consumers, each must end as a result."""

    process_type: type[Process] = Process

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.sent: set[str] = set()
        self.crashes: Counter[str] = Counter()
        self.explained: Counter[str] = Counter()  # generations that were refused, or killed, or not known of in time
        self.kept: dict[str, Any] = {}
        self.steps_left: int | None = None

    @rule(key=st.sampled_from(KEYS))
    def send(self, key: str) -> None:
        self.world.send(body_of(key))
        self.sent.add(key)

    @rule(
        takes_s=st.sampled_from((0, 1, 30, 10 * LEASE_S)),
        dies_at=st.none() | st.integers(0, 40),
        failures=st.lists(st.sampled_from(HEALED), max_size=2),
        overlap_at=st.sampled_from((None, 0, 4, 20)),
        frozen=st.sampled_from((False, False, False, True)),
        fresh=st.sampled_from(KEYS),
    )
    def serve(
        self,
        takes_s: float,
        dies_at: int | None,
        failures: list[Kind],
        overlap_at: int | None,
        frozen: bool,
        fresh: str,
    ) -> None:
        """A consumer takes one message; perhaps it is killed, or frozen beyond its lease, perhaps another is at work
        while it generates."""
        if not self.world.queued(self.world.requests):
            self.send(fresh)
        process = self._process(takes_s, dies_at, failures)
        process.heartbeat = process.heartbeat and not frozen
        self.steps_left = overlap_at
        self.world.clock.during.append(self._another)
        key = self._serve(process)
        self.world.clock.during.remove(self._another)
        if key is not None and frozen and takes_s > LEASE_S:
            self.crashes[key] += 1  # what it had in hand came back while it lived: as a crash would have it
            self.explained[key] += 1

    @rule(seconds=st.sampled_from((1, LEASE_S / 2, LEASE_S + 6, VISIBILITY_S)))
    def wait(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)

    @rule()
    def redrive(self) -> None:
        dead = self.world.engine.queue(self.world.dead_letters.arn)
        self.world.engine.start_move(dead, self.world.requests.arn, None)

    @rule(store=st.sampled_from(("results", "claims", "queue")), takes_s=st.sampled_from((0, 30)))
    def outage(self, store: str, takes_s: float) -> None:
        """A store fails while one process works; the process lives on and works again when the store is back."""
        process = self._process(takes_s, None, [])
        self.world.down.add(store)
        self._serve(process)
        self.world.down.clear()
        self.world.clock.sleep(LEASE_S)
        self._serve(process)

    @invariant()
    def nothing_is_lost(self) -> None:
        waiting = {message.body for message in self.world.queued(self.world.requests)}
        waiting |= {message.body for message in self.world.queued(self.world.dead_letters)}
        for key in self.sent:
            assert key in self.world.results or body_of(key) in waiting, f"{key} is lost"

    @invariant()
    def results_never_change(self) -> None:
        assert all(count == 1 for count in self.world.writes.values())
        for key, result in self.kept.items():
            assert self.world.results[key] is result
        self.kept = dict(self.world.results)

    @invariant()
    def repeats_are_explained(self) -> None:
        """One generation a result; each further one was refused, or its consumer was killed or frozen over it."""
        for key, count in self.world.generations.items():
            explained = (key in self.world.results or self._in_hand(key)) + self.explained[key]
            assert count <= explained, f"{key}: {count} generations, {explained} explained"

    @invariant()
    def healthy_messages_do_not_die(self) -> None:
        for message in self.world.queued(self.world.dead_letters):
            key = next(key for key in KEYS if body_of(key) == message.body)
            assert self.crashes[key] >= 5, f"{key} is dead after {self.crashes[key]} crashes"

    def teardown(self) -> None:
        """Left alone, consumers that live finish all of it."""
        if not hasattr(self, "world"):
            return
        for _ in range(80):
            self.redrive_all()
            if not self.world.queued(self.world.requests):
                break
            self._serve(self._process(0, None, []))
            self.world.clock.sleep(LEASE_S)
        self.nothing_is_lost()
        self.results_never_change()
        assert set(self.world.results) == self.sent

    def redrive_all(self) -> None:
        if self.world.queued(self.world.dead_letters):
            self.redrive()

    def _process(self, takes_s: float, dies_at: int | None, failures: list[Kind]) -> Process:
        left = list(failures)

        def answer(request: dict[str, Any]) -> dict[str, Any]:
            if left:
                self.explained[request["inputs"]] += 1
                raise ModelFailure(left.pop(), "test")
            self.world.clock.sleep(takes_s)
            return answered(request)

        return self.process_type(self.world, answer, dies_at=dies_at, max_attempts=100)

    def _serve(self, process: Process) -> str | None:
        """The key that was served."""
        delivery = process.receive()
        if delivery is None:
            return None
        key = next(key for key in KEYS if body_of(key) == delivery.body)
        generations = self.world.generations[key]
        process.serve(delivery)
        if process.life.dead:
            self.crashes[key] += 1
            self.explained[key] += self.world.generations[key] - generations
        return key

    def _another(self) -> None:
        """A second consumer, once, at the chosen step of the first one's time."""
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                self.steps_left = None
                self._serve(self._process(1, None, []))

    def _in_hand(self, key: str) -> bool:
        """Generated, and not stored because a store was down: its claim is kept until it is."""
        claim = self.world.claims.get(key)
        return claim is not None and claim["phase"] == "claimed"


EXAMPLES = settings(
    max_examples=1000,
    stateful_step_count=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def test_the_contract_holds_under_any_order_of_events() -> None:
    """2,000 histories of up to eight steps each."""
    run_state_machine_as_test(Buffered, settings=EXAMPLES)


class DeletesFirst(Process):
    """A consumer that takes its message away before it has the answer."""

    deletes_first = True


class NoHeartbeat(Process):
    """A consumer whose messages and claims are not renewed."""

    heartbeat = False


class AlwaysFree(MemoryClaims):
    """A table that lets everybody have every key."""

    def _take(self, key: str, owner: str, lease_s: float) -> Taken:
        return Taken("ours", Claim(key, owner, fresh=True))


class NoClaim(Process):
    claims_type = AlwaysFree


class Overwrites(Process):
    """A consumer whose put does not ask whether a result is there."""

    def __init__(self, world: World, *arguments: Any, **more: Any) -> None:
        super().__init__(world, *arguments, **more)
        results = self.worker._ports.results

        def put(key: str, result: dict[str, Any], *, until_s: float) -> bool:
            world.results[key] = result
            world.writes[key] += 1
            return True

        results.put = put


@pytest.mark.parametrize("mutant", [DeletesFirst, NoHeartbeat, NoClaim, Overwrites])
def test_the_machine_catches(mutant: type[Process]) -> None:
    """Each of these breaks the contract, and some history shows it."""

    class Mutated(Buffered):
        process_type = mutant

    quick = settings(EXAMPLES, max_examples=500, phases=[Phase.generate])
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Mutated, settings=quick)
