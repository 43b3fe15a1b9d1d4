"""Schedules that press on one promise of docs/buffer.md each, and what composed faults seldom bring together for it.

`drawn` is what runs: faults that meet by chance (`sim_schedule.composed`) with all that a sender may write, or a theme.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from sim_schedule import FAULTS, Fault, Schedule, Send, composed

_THEMED: Final = 0.3  # of all schedules
_Draw = Callable[[int, Random], Schedule]


def drawn(seed: int) -> Schedule:
    """The schedule of a seed."""
    random = Random(f"themes {seed}")
    schedule = composed(seed)
    if random.random() < _THEMED:
        schedule = random.choice(_THEMES)(seed, random)
        if random.random() < 0.25:
            more = FAULTS[random.choice([*FAULTS])](random, schedule.consumers)
            schedule = replace(schedule, faults=(*schedule.faults, more))
    if any(send.spare_bytes >= 0 for send in schedule.sends):
        return schedule
    write = {key: _writing(random) for key in sorted({send.key for send in schedule.sends})}
    return replace(schedule, sends=tuple(write[send.key](send) for send in schedule.sends))


def _writing(random: Random) -> Callable[[Send], Send]:
    """What a sender may write beside the request."""
    attributes, tenant = random.choice((0, 0, 0, 3, 7, 10)), random.choice(("", "", "blue", "red"))
    by_bucket = random.random() < 0.1
    spare_bytes = random.choice((0, 30, 100)) if random.random() < 0.05 else -1
    return lambda send: send._replace(
        attributes=attributes, tenant=tenant, by_bucket=by_bucket, spare_bytes=-1 if by_bucket else spare_bytes
    )


def _sends(random: Random, number: int, within_s: float, takes_s: float = 5.0) -> list[Send]:
    return [Send(round(random.uniform(0, within_s), 1), f"k{at}", takes_s=takes_s) for at in range(number)]


def _made(seed: int, slots: tuple[int, int], sends: list[Send], *faults: Fault) -> Schedule:
    return Schedule(seed, *slots, tuple(sorted(sends)), faults)


def _burst(seed: int, random: Random) -> Schedule:
    """Time-outs strike many keys at once, for longer than all attempts of one take."""
    slots = random.choice(((2, 2), (3, 2), (2, 4), (4, 1), (1, 4)))
    sends = _sends(random, random.choice((4, 5, 6)), random.choice((1.0, 20.0)))
    starved = Fault("starved", 0.0, random.choice((100.0, 200.0)))
    return replace(_made(seed, slots, sends, starved), attempts=3)


def _kept(seed: int, random: Random) -> Schedule:
    """The bucket is down for longer than a function lives, with answers in hand, and others wait."""
    sends = _sends(random, 1, 5.0) + [
        Send(round(random.uniform(20, 600), 1), f"k{at}", takes_s=0.5) for at in range(1, random.choice((2, 4)))
    ]
    outage = Fault("outage of the bucket", 0.0, random.choice((300.0, 600.0)))
    return _made(seed, (random.choice((1, 1, 2)), random.choice((1, 2))), sends, outage)


def _stolen(seed: int, random: Random) -> Schedule:
    """A process freezes for longer than a lease, in the middle of a request that will time out."""
    faults = Fault("starved", 0.0, 150.0), Fault("freeze", round(random.uniform(2, 20), 1), 75.0)
    return _made(seed, (2, random.choice((1, 2))), _sends(random, random.choice((1, 2)), 2.0), *faults)


def _rights(seed: int, random: Random) -> Schedule:
    """Rights are lost just after the endpoint is back, and a clock is ahead."""
    ahead = Fault("skew", target=0, share=random.uniform(8, 15))
    away = Fault("unavailable", 0.0, 30.0), Fault("no right", round(random.uniform(33, 45), 1), 40.0)
    schedule = _made(seed, (2, random.choice((1, 2))), _sends(random, 5, 40.0), ahead, *away)
    return replace(schedule, attempts=2)


def _in_time(seed: int, random: Random) -> Schedule:
    """Deadlines that pass while the consumer waits for a slow store."""
    sends = [one._replace(deadline_s=round(random.uniform(3, 18), 1)) for one in _sends(random, 4, 60.0)]
    return _made(seed, (2, random.choice((1, 2))), sends, Fault("slow store", 0.0, 120.0))


def _again(seed: int, random: Random) -> Schedule:
    """A result is taken away, and the same key comes to several at the same moment."""
    again_s = round(random.uniform(30, 60), 1)
    sends = [Send(0.0, "k0", takes_s=0.5), *[Send(again_s, "k0", takes_s=0.5)] * random.choice((2, 3))]
    faults = [Fault("expiry", 25.0)] + [Fault("slow store", again_s - 1, 10.0)] * random.choice((0, 1))
    return _made(seed, (random.choice((1, 2, 3)), random.choice((1, 2, 4))), sends, *faults)


def _old(seed: int, random: Random) -> Schedule:
    """Nothing is served for longer than messages are kept; the dead letters come back meanwhile."""
    kind = random.choice(("unavailable", "throttled", "outage of the table"))
    faults = Fault(kind, 0.0, random.choice((100.0, 200.0))), Fault("redrive", round(random.uniform(60, 180), 1))
    schedule = _made(seed, (random.choice((1, 2)), 2), _sends(random, random.choice((1, 2, 3)), 20.0), *faults)
    return replace(schedule, retention_s=random.choice((20.0, 60.0)))


def _long(seed: int, random: Random) -> Schedule:
    """Messages of each kind that the queue takes, but not with what the consumer adds."""
    kinds = random.choices(("healthy", "refused", "broken", "malformed"), (3, 2, 1, 2), k=3)
    sends = [
        one._replace(
            kind=kind,
            spare_bytes=random.choice((0, 20, 60, 150)),
            attributes=random.choice((0, 3, 7, 10)),
            tenant=random.choice(("", "blue")),
        )
        for one, kind in zip(_sends(random, 3, 60.0), kinds, strict=True)
    ]
    faults = [Fault(f"outage of the {random.choice(('table', 'bucket'))}", 0.0, random.choice((30.0, 300.0)))]
    faults += [Fault("redrive", 100.0)] * random.choice((0, 1))
    return replace(_made(seed, (2, 2), sends, *faults), attempts=3)


def _endless(seed: int, random: Random) -> Schedule:
    """An answer that takes longer than an answer may."""
    first, *others = _sends(random, random.choice((1, 2)), 20.0)
    sends = [first._replace(kind="endless"), *others]
    return replace(_made(seed, (1, random.choice((1, 2))), sends), attempts=2)


_THEMES: Final[tuple[_Draw, ...]] = (
    _burst, _kept, _stolen, _rights, _in_time, _again, _old, _long, _endless,
)  # fmt: skip
