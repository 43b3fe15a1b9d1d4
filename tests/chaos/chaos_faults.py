"""Arms in which the model, or the store behind it, fails. Each says what it missed."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

from chaos_account import Account, account
from chaos_crashes import Outcome, Start
from chaos_world import Setting, World
from fault_proxy import proxy

# A message that is received a second time goes to the dead letters: proof that waiting spends no receive count.
ONE_RECEIVE = Setting(max_receive_count=1)
PROBE_EVERY_S = 5.0


def errors(start: Start, *, messages: int, seed: int = 0) -> Outcome:
    """30% of all requests end in a 500."""
    keys = [f"k{number}" for number in range(messages)]
    with start(Setting(), error_rate=0.3, seed=seed) as world:
        found = _run(world, keys, within_s=120 + messages)
    share, per_message = found.stored / messages, found.requests / messages
    missed = [name for name in found.missed() if name != "dead"]
    missed += ["stored"] * (share < 0.999) + ["invocations"] * (per_message > 1.6)
    return Outcome(
        f"30% 500s over {messages:,} messages",
        f"{share:.2%} stored, {per_message:.2f} invocations a message",
        tuple(missed),
    )


def attempts(start: Start, setting: Setting = Setting(processes=1, max_attempts=3)) -> Outcome:  # noqa: B008 (frozen)
    """Nothing but 500s: the dead letter counts what the model was asked, so nothing below repeats by itself."""
    with start(setting, error_rate=1.0) as world:
        found = _run(world, ["a"], within_s=60)
        told = int(world.dead()[0]["MessageAttributes"]["attempts"]["StringValue"])
    return Outcome(
        "500s only, three attempts allowed",
        f"{told} attempts told, {found.requests} requests seen",
        () if told == found.requests == setting.max_attempts else ("requests",),
    )


def outage(start: Start, *, messages: int, down_s: float, slack_s: float) -> Outcome:
    """Every request is a 503 for a while."""
    keys = [f"k{number}" for number in range(messages)]
    with start(ONE_RECEIVE, down=True) as world:
        world.send(keys)
        world.start_consumers()
        world.wait_until("refused", 1)
        closed_s = time.time() + 3
        time.sleep(down_s)
        world.script(down=False)
        up_s = time.time()
        world.wait_until_empty(120)
        found, events = account(world, keys), world.events()
    probes = sum(event["at"] == "refused" and event["time_s"] > closed_s for event in events)
    first_s = min(event["time_s"] for event in events if event["at"] == "ended") - up_s
    last_s = max(event["time_s"] for event in events if event["at"] == "ended") - up_s
    missed = list(found.missed())
    missed += ["probes"] * (probes > (up_s - closed_s) / PROBE_EVERY_S + 1)
    missed += ["recovery"] * (first_s > PROBE_EVERY_S + slack_s)
    return Outcome(
        f"100% 503 for {down_s:.0f} s",
        f"{probes} probes after the first 3 s; answers again {max(first_s, 0):.1f} s after recovery, all "
        f"{messages} stored {last_s:.1f} s after it; {len(found.dead)} in the DLQ with one receive allowed",
        tuple(missed),
    )


def throttle(
    start: Start,
    *,
    messages: int,
    processes: int,
    at_most: int,
    generation_s: float = 2.0,
    least_goodput: float | None = None,
) -> Outcome:
    """An endpoint that takes a part of what the consumers could have in flight. One message a consumer, as a profile
    has it unless it says otherwise: in a batch, places wait for the last message of their batch. How soon they adapt
    and how well they use it is judged where there is a `least_goodput`."""
    setting = replace(ONE_RECEIVE, processes=processes, batch_size=1)
    keys = [f"k{number}" for number in range(messages)]
    with start(setting, at_most=at_most, generation_s=generation_s, parts=8) as world:
        found = _run(world, keys, within_s=120 + messages)
        events = world.events()
    begin_s = events[0]["time_s"]
    before, after = _active(events, begin_s, 2.0), _active(events, begin_s + 6.5, 0.5)
    goodput = _goodput(events, begin_s + 5, at_most, processes)
    missed = list(found.missed())
    if least_goodput is not None:
        missed += ["halved"] * (after > before / 2) + ["goodput"] * (goodput < least_goodput)
    return Outcome(
        f"throttled to {at_most} in flight of {processes}, generations of {generation_s:.0f} s",
        f"in flight or refused {before} at first, {after} five seconds later; goodput {goodput:.0%} of the cap since; "
        f"{found.requests / messages:.1f} requests a message; {len(found.dead)} in the DLQ with one receive allowed",
        tuple(missed),
    )


def _active(events: list[dict[str, Any]], from_s: float, for_s: float) -> int:
    """Keys that were generated or refused within a window."""
    begun: dict[str, float] = {}
    active: set[str] = set()
    for event in events:
        at_s, key = event["time_s"], event["key"]
        if at_s >= from_s + for_s:
            break
        if event["at"] == "begun":
            begun[key] = at_s
        elif event["at"] in ("ended", "cut"):
            begun.pop(key, None)
        if at_s >= from_s:
            active.add(key)
    return len(active | set(begun))


def _goodput(events: list[dict[str, Any]], from_s: float, at_most: int, processes: int) -> float:
    """Share of the places that were in use until work ran short (a round of all slots before the last began)."""
    begun = [event for event in events if event["at"] == "begun"]
    ends = {event["number"]: event["time_s"] for event in events if event["at"] == "ended"}
    to_s = begun[-processes]["time_s"]
    used_s = sum(max(0.0, min(ends[one["number"]], to_s) - max(one["time_s"], from_s)) for one in begun)
    return used_s / (at_most * (to_s - from_s)) if to_s > from_s else 0.0


def zero(start: Start, *, away_s: float) -> Outcome:
    """No copy is up for a while; the failed call is what wakes one."""
    keys = [f"k{number}" for number in range(20)]
    with start(ONE_RECEIVE, no_copies=True) as world:
        world.send(keys)
        world.start_consumers()
        world.wait_until("refused", 1)
        time.sleep(away_s)
        world.script(no_copies=False)
        world.wait_until_empty(180)
        found, events = account(world, keys), world.events()
    asked_s = [event["time_s"] for event in events if event["at"] in ("refused", "begun")]
    longest_s = max(later - earlier for earlier, later in pairwise(asked_s))
    refused = sum(event["at"] == "refused" for event in events)
    return Outcome(
        f"scale from zero after {away_s:.0f} s",
        f"{refused} requests refused, never more than {longest_s:.0f} s between two; {found.stored} of 20 stored; "
        f"{len(found.dead)} in the DLQ with one receive allowed",
        (*found.missed(), *["probes"] * (longest_s > 60)),
    )


def stall(start: Start, *, idle_s: float, slack_s: float) -> Outcome:
    """An answer that begins and then says nothing."""
    with start(_patient(idle_s), stalls=1) as world:
        found = _run(world, ["a"], within_s=120 + 2 * idle_s)
        first_s, second_s = (event["time_s"] for event in world.events() if event["at"] == "begun")
    return _silence(f"a stall, idle timeout {idle_s:.0f} s", second_s - first_s, found.requests - 1, idle_s + slack_s)


def half_open(start: Start, *, idle_s: float, slack_s: float) -> Outcome:
    """A connection that takes the request and never answers."""
    with start(_patient(idle_s)) as world, proxy(world.model_url) as between:
        between.change(swallow=True)
        world.send(["a"])
        world.start_consumers(model_url=between.url)
        while between.requests == 0:
            time.sleep(0.02)
        sent_s = time.time()
        between.change()
        world.wait_until("begun", 1, within_s=60 + 2 * idle_s)
        world.wait_until_empty(60)
        found_s = world.events()[0]["time_s"] - sent_s
        swallowed = between.requests
    return _silence(f"half-open TCP, idle timeout {idle_s:.0f} s", found_s, swallowed, idle_s + slack_s)


def _patient(idle_s: float) -> Setting:
    return Setting(
        processes=1, batch_size=1, idle_timeout_s=idle_s, invocation_timeout_s=3 * idle_s, function_s=60 + 8 * idle_s
    )


def _silence(fault: str, found_s: float, requests: int, allowed_s: float) -> Outcome:
    missed = ["found"] * (found_s > allowed_s) + ["requests"] * (requests != 1)
    return Outcome(fault, f"found and asked again after {found_s:.1f} s; {requests} request until then", tuple(missed))


def store_down(start: Start, *, down_s: float, function_s: float = 60.0) -> Outcome:
    """The results bucket goes away while the model answers."""
    setting = Setting(processes=1, batch_size=2, function_s=function_s, idle_timeout_s=2, invocation_timeout_s=4)
    with start(setting) as world, proxy(world.stores.aws) as between:
        between.change(status=503)
        world.send(["a", "b"])
        world.start_consumers(s3_url=between.url)
        world.wait_until("ended", 2)
        time.sleep(down_s)
        refused = between.requests
        between.change()
        world.wait_until_empty(120)
        found = account(world, ["a", "b"])
    missed = list(found.missed()) + ["repeats"] * (found.repeats > 0) + ["fault"] * (refused == 0)
    return Outcome(
        f"store down for {down_s:.0f} s after a generation (function of {function_s:.0f} s)",
        f"{refused} writes refused; {found.stored} of 2 stored, {found.repeats} repeats",
        tuple(missed),
    )


def _run(world: World, keys: list[str], within_s: float) -> Account:
    world.send(keys)
    world.start_consumers()
    world.wait_until_empty(within_s)
    return account(world, keys)
