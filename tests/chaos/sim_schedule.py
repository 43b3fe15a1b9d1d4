"""What happens to a buffer in one simulated run: messages and faults, drawn from a seed, and made smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple


class Send(NamedTuple):
    """`kind`: what the model makes of it. `healthy` is answered in `takes_s`; `refused` (400), `broken` (500),
    `stalling` and `endless` (parts that go on for longer than an answer may) never are; `malformed` is no message."""

    at_s: float
    key: str
    kind: str = "healthy"
    takes_s: float = 5.0
    delay_s: int = 0
    low: bool = False
    deadline_s: float = 0.0  # after it was sent; 0: none
    callback: bool = False
    attributes: int = 0  # the sender's own
    tenant: str = ""  # and message group
    by_bucket: bool = False  # its request lies in the bucket; where it is malformed, nothing does
    spare_bytes: int = -1  # it leaves so much of what the queue takes; -1: it is short


class Fault(NamedTuple):
    """What goes wrong. `target` is a consumer, or the number of a call; see `FAULTS`."""

    kind: str
    at_s: float = 0.0
    for_s: float = 0.0
    target: int = 0
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Schedule:
    seed: int  # of latencies, jitter, and who is first of what is due at the same time
    consumers: int
    batch: int
    sends: tuple[Send, ...]
    faults: tuple[Fault, ...]
    attempts: int = 8  # failures of the model before a message is a dead letter
    retention_s: float = 1_123_200.0


_SPREAD_S: Final = 240.0
_STORES: Final = ("table", "bucket", "queue")
# How each fault is drawn. A share is of the requests, or a skew in seconds.
FAULTS: Final[dict[str, Callable[[Random, int], Fault]]] = {
    "crash": lambda r, n: Fault("crash", _at(r), target=r.randrange(n)),
    "crash at a call": lambda r, n: Fault("crash at a call", target=r.randrange(1, 80), share=r.choice((0, 1))),
    "crash loop": lambda r, n: Fault("crash loop", target=r.choice((2, 4, 5, 6))),  # whoever asks for the first key
    "stop": lambda r, n: Fault("stop", _at(r), target=r.randrange(n)),
    "freeze": lambda r, n: Fault("freeze", _at(r), r.choice((5, 50, 90, 400)), r.randrange(n)),
    "skew": lambda r, n: Fault("skew", target=r.randrange(n), share=r.uniform(-15, 15)),
    "outage of the table": lambda r, n: Fault("outage of the table", _at(r), r.choice((2, 10, 60))),
    "outage of the bucket": lambda r, n: Fault("outage of the bucket", _at(r), r.choice((2, 60, 400))),
    "outage of the queue": lambda r, n: Fault("outage of the queue", _at(r), r.choice((2, 10, 60))),
    "slow store": lambda r, n: Fault("slow store", _at(r), r.choice((10, 60))),
    "lie": lambda r, n: Fault("lie", target=r.randrange(1, 60)),
    "conflict": lambda r, n: Fault("conflict", target=r.randrange(1, 12)),
    "stale pace": lambda r, n: Fault("stale pace", _at(r), r.choice((10, 60))),
    "stale listing": lambda r, n: Fault("stale listing", _at(r), r.choice((10, 60))),
    "duplicate": lambda r, n: Fault("duplicate", _at(r)),
    "undeleted": lambda r, n: Fault("undeleted", target=r.randrange(1, 6)),
    "unreported": lambda r, n: Fault("unreported", target=r.randrange(1, 6)),
    "expiry": lambda r, n: Fault("expiry", _at(r)),
    "redrive": lambda r, n: Fault("redrive", _at(r) + 60),
    "deploy": lambda r, n: Fault("deploy", _at(r)),
    "unavailable": lambda r, n: Fault("unavailable", _at(r), r.choice((5, 30, 120)), share=r.choice((0.3, 1.0))),
    "no capacity": lambda r, n: Fault("no capacity", _at(r), r.choice((30, 120))),
    "throttled": lambda r, n: Fault("throttled", _at(r), r.choice((30, 120)), r.randrange(0, 4)),
    "errors": lambda r, n: Fault("errors", _at(r), r.choice((10, 60)), share=r.choice((0.3, 0.5))),
    "truncated": lambda r, n: Fault("truncated", _at(r), r.choice((10, 60)), share=0.5),
    "starved": lambda r, n: Fault("starved", _at(r), r.choice((40, 120, 300)), share=r.choice((0.3, 0.6, 1.0))),
    "no right": lambda r, n: Fault("no right", _at(r), r.choice((5, 60)), share=1.0),
}


def _at(random: Random) -> float:
    return round(random.uniform(0, _SPREAD_S), 1)


def composed(seed: int) -> Schedule:
    """Faults that meet by chance. `sim_themes.drawn` adds to it, and never changes what a seed means here."""
    random = Random(seed)
    consumers = random.choice((1, 2, 2, 3))
    batch = random.choice((1, 2, 4))
    sends = [_send(random, number) for number in range(random.choice((1, 2, 2, 3, 5)))]
    sends += [first._replace(at_s=_at(random)) for first in sends if random.random() < 0.25]
    kinds = [random.choice([*FAULTS]) for _ in range(random.choice((0, 1, 2, 3, 4, 6)))]
    faults = tuple(FAULTS[kind](random, consumers) for kind in kinds)
    return Schedule(seed, consumers, batch, tuple(sorted(sends)), faults)


def _send(random: Random, number: int) -> Send:
    return Send(
        _at(random) * random.choice((0, 0.3, 1)),
        f"k{number}",
        random.choices(("healthy", "refused", "broken", "stalling", "malformed"), (85, 5, 4, 3, 3))[0],
        random.choice((0.5, 5.0, 5.0, 30.0, 90.0)),
        random.choice((0, 0, 0, 3, 20)),
        random.random() < 0.15,
        random.choice((0.0,) * 8 + (30.0, 300.0)),
        random.random() < 0.2,
    )


def shrunk(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """A smaller schedule that still fails: fewer messages, faults and consumers, and rounder times."""
    tried = 0
    found = True
    while found and tried < 400:
        found = False
        for smaller in _smaller(schedule):
            tried += 1
            if fails(smaller):
                schedule, found = smaller, True
                break
    return schedule


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    for field in ("faults", "sends"):
        items = getattr(schedule, field)
        if len(items) > 2:
            yield replace(schedule, **{field: items[: len(items) // 2]})
            yield replace(schedule, **{field: items[len(items) // 2 :]})
        for at in range(len(items)):
            yield replace(schedule, **{field: items[:at] + items[at + 1 :]})
    for change in ({"consumers": 1}, {"batch": 1}, {"consumers": schedule.consumers - 1}):
        if all(0 < value < getattr(schedule, name) for name, value in change.items()):
            yield replace(schedule, **change)
    for at, send in enumerate(schedule.sends):
        for plain in (
            send._replace(delay_s=0),
            send._replace(low=False),
            send._replace(deadline_s=0.0),
            send._replace(callback=False),
            send._replace(at_s=0.0),
            send._replace(takes_s=5.0),
            send._replace(attributes=0),
            send._replace(tenant=""),
            send._replace(by_bucket=False),
            send._replace(spare_bytes=-1),
        ):
            if plain != send:
                yield replace(schedule, sends=(*schedule.sends[:at], plain, *schedule.sends[at + 1 :]))
    for at, fault in enumerate(schedule.faults):
        rounder = fault._replace(at_s=float(round(fault.at_s, -1)))
        if rounder != fault:
            yield replace(schedule, faults=(*schedule.faults[:at], rounder, *schedule.faults[at + 1 :]))
