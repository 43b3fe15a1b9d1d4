"""Who sends what of a batch, where several send it together."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.bench.batch import Batch
from loadproof.bench.load.batches import share_of
from loadproof.bench.workload.arrivals import closed_loop, schedule_of
from loadproof.loads import Load


def closed(requests: int, slots: int) -> Batch:
    schedule = closed_loop(requests, slots)
    return Batch("measured", 0, slots, schedule, iter([(index,) for index in range(requests)]), 0)


def opened(requests: int) -> Batch:
    schedule = schedule_of(Load("constant", requests_per_s=10, requests=requests), 0, 0)
    return Batch("measured", 0, 0, schedule, iter([(index,) for index in range(requests)]), 0)


def indices(batch: Batch) -> list[int]:
    return [index for turns in batch.conversations for index in turns]


@settings(deadline=None)  # tests share their machine
@given(requests=st.integers(1, 60), slots=st.integers(1, 12), of=st.integers(1, 9))
def test_every_conversation_is_dealt_once(requests: int, slots: int, of: int) -> None:
    """Also where there are more processes than slots: those without a slot have nothing to send."""
    shares = [share_of(closed(requests, slots), number, of) for number in range(of)]
    dealt = [indices(share) for share in shares]
    assert sorted(index for share in dealt for index in share) == [*range(requests)]
    assert all(share.schedule.slot_open_ns for share, sent in zip(shares, dealt, strict=True) if sent)


@settings(deadline=None)  # tests share their machine
@given(requests=st.integers(1, 60), slots=st.integers(0, 12), of=st.integers(1, 4), again=st.integers(1, 4))
def test_a_share_of_a_share_is_a_share(requests: int, slots: int, of: int, again: int) -> None:
    """Part w of W of part h of H is part h + H w of H W, so hosts may have workers of their own."""

    def batch() -> Batch:
        return closed(requests, slots) if slots else opened(requests)

    for host in range(of):
        for worker in range(again):
            nested = share_of(share_of(batch(), host, of), worker, again)
            at_once = share_of(batch(), host + of * worker, of * again)
            assert indices(nested) == indices(at_once)
            assert replace(nested, conversations=iter(())).schedule == at_once.schedule


def test_processes_get_as_much_as_they_have_slots() -> None:
    """Three slots on two: slots 0 and 2 with conversations 0, 2, 3, 5 here, slot 1 with 1, 4 there."""
    assert indices(share_of(closed(6, 3), 0, 2)) == [0, 2, 3, 5]
    assert indices(share_of(closed(6, 3), 1, 2)) == [1, 4]
