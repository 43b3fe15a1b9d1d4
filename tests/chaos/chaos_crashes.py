"""Arms in which processes die, are told to stop, or work for long. Each says what it missed."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from chaos_account import account
from chaos_world import Setting, World


class Start(Protocol):
    """Builds a world to use in a `with` block; what is named is how the model behaves at first."""

    def __call__(self, setting: Setting, **behaviour: object) -> AbstractContextManager[World]: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an arm came to: its figures in words, and the names of the checks that failed."""

    fault: str
    figures: str
    missed: tuple[str, ...]


# `slack_s` of an arm is what a busy machine may add to a time that is promised.

# The hour that Lambda asks a queue to hide messages for would only slow this arm: a process that dies between receiving
# and its first heartbeat leaves its messages to it.
KILLS = Setting(visibility_s=20)


def kills(start: Start, setting: Setting = KILLS, *, messages: int, times: int) -> Outcome:
    """SIGKILL at random points of the work; every tenth message is sent twice."""
    chance = random.Random(setting.seed)
    keys = [f"k{number}" for number in range(messages)]
    sent = keys + keys[::10]
    moments = sorted(chance.randrange(int(0.97 * len(sent))) for _ in range(times))
    with start(setting, generation_s=0.25) as world:
        world.send(chance.sample(sent, len(sent)))
        began_s = time.monotonic()
        world.start_consumers()
        for done in moments:
            while len(sent) - world.left() < done:
                time.sleep(0.1)
            time.sleep(chance.uniform(0, 0.3))
            world.signal("kill")
        world.wait_until_empty(60 + messages)
        took_s = time.monotonic() - began_s
        found = account(world, keys)
    per_s = len(sent) / took_s
    return Outcome(
        f"kill -9 ×{times} over {messages:,} messages (seed {setting.seed})",
        f"{found.stored:,} stored, {len(found.lost)} lost, {len(found.double)} written twice, {len(found.dead)} in the "
        f"DLQ; {found.repeats} generations repeated, {len(found.unexplained)} of them unexplained; "
        f"{took_s:.0f} s, {per_s:.0f} messages/s",
        found.missed(),
    )


def terms(start: Start, *, messages: int, times: int, slack_s: float, seed: int = 0) -> Outcome:
    """SIGTERM at random points, with more time to drain than a generation takes."""
    setting = Setting(drain_s=5.0, seed=seed)
    keys = [f"k{number}" for number in range(messages)]
    chance = random.Random(seed)
    moments = sorted(chance.randrange(int(0.9 * messages)) for _ in range(times))
    with start(setting, generation_s=0.3) as world:
        world.send(keys)
        world.start_consumers()
        for done in moments:
            while messages - world.left() < done:
                time.sleep(0.1)
            world.signal("term")
        world.wait_until_empty(60 + messages)
        found, ends = account(world, keys), list(world.ends)
    longest_s = max(end["took_s"] for end in ends)
    missed = list(found.missed())
    missed += ["repeats"] * (found.repeats > 0)
    missed += ["drain"] * (longest_s > setting.drain_s + slack_s or any(end["signal"] or end["exit"] for end in ends))
    return Outcome(
        f"SIGTERM ×{times} over {messages:,} messages",
        f"{found.stored:,} stored, {found.repeats} repeats; the slowest of {len(ends)} ended after {longest_s:.1f} s "
        f"of {setting.drain_s:.0f} s",
        tuple(missed),
    )


def cut_drain(start: Start, *, slack_s: float) -> Outcome:
    """SIGTERM while a generation runs that is far longer than the drain: given back at once."""
    setting = Setting(processes=1, batch_size=2, drain_s=1.0, lease_s=60.0)  # given back, or not for a minute
    with start(setting, generation_s=60.0, parts=300) as world:
        world.send(["a", "b"])
        world.start_consumers()
        world.wait_until("begun", 2)
        world.script(generation_s=0.02, parts=2)
        world.signal("term")
        free_s = time.monotonic()
        while not world.waiting() and sum(event["at"] == "begun" for event in world.events()) < 3:
            time.sleep(0.02)
        free_s = time.monotonic() - free_s
        world.wait_until_empty(60)
        found, end = account(world, ["a", "b"]), world.ends[0]
    late = ["drain"] * (end["took_s"] > setting.drain_s + slack_s) + ["released"] * (free_s > slack_s)
    lost = [name for name in found.missed() if name != "unexplained"]  # the next begins while the old one still ends
    return Outcome(
        "SIGTERM with a drain shorter than the generation",
        f"ended after {end['took_s']:.1f} s of {setting.drain_s:.0f} s; free {free_s:.2f} s later; both stored",
        tuple(late + lost),
    )


LONG = Setting(processes=2, batch_size=4, lease_s=1.0)


def long_generation(start: Start, setting: Setting = LONG, *, leases: int = 10) -> Outcome:
    """A generation of many leases, nobody dies, and other consumers look for work all the while."""
    keys = [f"k{number}" for number in range(3)]
    with start(setting, generation_s=leases * setting.lease_s, parts=50) as world:
        world.send(keys)
        world.start_consumers()
        world.wait_until_empty(60 + 4 * leases * setting.lease_s)
        found = account(world, keys)
    return Outcome(
        f"a generation of {leases} leases, no kills",
        f"{found.stored} stored, {found.repeats} repeats",
        found.missed(),
    )


# However long it stands still, its answer is good when it wakes: only the put may stop it.
FROZEN = Setting(processes=2, batch_size=1, lease_s=1.0, idle_timeout_s=20.0)


def frozen(start: Start, setting: Setting = FROZEN) -> Outcome:
    """A process stands still beyond its lease, another does its work, then it wakes up with its own answer in hand."""
    with start(setting, generation_s=2.0) as world:
        world.send(["a"])
        world.start_consumers()
        world.wait_until("begun", 1)
        pid = world.events()[0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        world.wait_until("begun", 2)
        world.wait_until_empty(60)
        os.kill(pid, signal.SIGCONT)
        world.signal("term", 2)  # they end when what they have in hand has ended
        found = account(world, ["a"])
    return Outcome(
        "a process frozen beyond its lease, with a key in hand",
        f"{found.stored} stored, {found.generations} generations, {len(found.double)} written twice",
        tuple(name for name in found.missed() if name != "unexplained"),  # the freeze is what explains it
    )


CRASH_LOOP = Setting(processes=1, batch_size=2, lease_s=1.0)


def crash_loop(start: Start, setting: Setting = CRASH_LOOP) -> Outcome:
    """The same healthy messages are in hand at four crashes in a row; the fifth consumer lives."""
    with start(setting, generation_s=60.0, parts=300) as world:
        world.send(["a", "b"])
        world.start_consumers()
        for crash in range(4):
            if _begun_or_dead(world, 2 * crash + 2):
                break
            world.signal("kill")
        world.script(generation_s=0.02, parts=2)
        world.wait_until_empty(60)
        found = account(world, ["a", "b"])
    return Outcome(
        "four crashes in a row of whoever holds a message",
        f"{found.stored} of 2 stored, {len(found.dead)} in the DLQ, {found.generations} generations",
        found.missed(),
    )


def _begun_or_dead(world: World, count: int) -> bool:
    """Wait for so many generations; True where a message went to the dead letters instead."""
    while sum(event["at"] == "begun" for event in world.events()) < count:
        if world.dead():
            return True
        time.sleep(0.05)
    return False
