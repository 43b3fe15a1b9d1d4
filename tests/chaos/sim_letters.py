"""Dead letters of a simulated run: each deserved, none too soon or too late, and nobody healthy among them."""

from __future__ import annotations

import json
import re
from collections import Counter

from sim_judges import attempts_spent
from sim_schedule import Send
from sim_world import RECEIVES, World


class Letters:
    def __init__(self, world: World) -> None:
        self._world = world
        self._kernel = world.kernel
        self._times = Counter(send.key for send in world.schedule.sends)

    def lives(self, key: str) -> int:
        """How many messages there may have been of a key."""
        again = (
            "crash",
            "crash at a call",
            "crash loop",
            "stop",
            "freeze",
            "duplicate",
            "undeleted",
            "unreported",
            "lie",
        )
        again += ("outage of the queue", "outage of the table")
        if self._world.sends[key].spare_bytes >= 0:  # then a letter needs the bucket
            again += ("outage of the bucket",)
        kinds = [fault.kind for fault in self._world.schedule.faults]
        return self._times[key] * (1 + sum(kind in again for kind in kinds)) * (1 + kinds.count("redrive"))

    def check(self) -> None:
        world = self._world
        for letter in world.engine.queue(world.dead.arn):
            send = world.sends[json.loads(letter.body)["key"]]
            reason = letter.attributes.get("reason")
            if reason is None:
                # What is no message and too long for a reason goes by its receives.
                # A long one that cannot leave its request in the bucket is given back, which is rare.
                long = send.spare_bytes >= 0
                spent = world.unexcused[letter.id] - (long and bool(world.overlaps("outage of the bucket", 0)))
                due = spent > 0 and not (send.kind == "malformed" and long)
                if due or letter.receives < RECEIVES:
                    world.violated(f"{send.key} is a dead letter without a reason")
            elif str(reason.value).startswith("older than"):
                if letter.arrived_s - int(letter.attributes["first_sent_ms"].value) / 1000 < self._kept_s():
                    world.violated(f"{send.key} is a dead letter for an age that it does not have")
            elif send.kind == "healthy" and not self._explained(send, str(reason.value)):
                world.violated(f"{send.key} is healthy and a dead letter: {reason.value}")
            elif not self._deserved(send, str(reason.value)):
                world.violated(f"{send.key} ({send.kind}) is a dead letter: {reason.value}")

    def _deserved(self, send: Send, reason: str) -> bool:
        """Whether that is the reason, and no sooner or later than it should be."""
        asks = self._world.asks.get(send.key, [])
        failed, hurt = sum(ask.failed for ask in asks), sum(ask.excused for ask in asks)
        if reason == "its deadline has passed":
            return bool(send.deadline_s) and self._kernel.now_s > self._world.sent_s[send.key] + send.deadline_s - 16
        if send.kind == "malformed":
            return not asks
        if send.kind == "refused":
            ends_s = [ask.ended_s for ask in asks if ask.ended_s is not None]
            # Where the queue does not take the dead letter, the message stays and is asked for again.
            unsent = sum(self._world.during("outage of the queue", at_s=at_s) is not None for at_s in ends_s)
            refused = sum(ask.refused for ask in asks)
            return reason == "the model answered 400" and refused <= self.lives(send.key) + hurt + unsent
        if send.kind == "broken":
            return failed >= self._world.schedule.attempts
        return failed + (hurt if self._of_the_version_before(reason) else 0) >= 2

    def _of_the_version_before(self, reason: str) -> bool:
        """It gives up after two time-outs, whosever fault they were; after more where the queue took no dead letter."""
        kinds = {fault.kind for fault in self._world.schedule.faults}
        given_up = re.match(r"timed out (\d+) times", reason)
        return given_up is not None and "deploy" in kinds and (given_up[1] == "2" or "outage of the queue" in kinds)

    def _explained(self, send: Send, reason: str) -> bool:
        shares = [fault.share for fault in self._world.schedule.faults if fault.kind == "starved"]
        if reason.startswith("timed out") and any(share < 1 for share in shares):
            return True  # then it is a matter of chance: test_consumer_suspicion says how often
        if self._of_the_version_before(reason):
            return True
        if reason == "its deadline has passed":
            return bool(send.deadline_s)
        return reason.startswith("failed") and attempts_spent(self._world, send.key) >= self._world.schedule.attempts

    def _kept_s(self) -> float:
        """The buffer's retention, less what a clock may be ahead."""
        return self._world.schedule.retention_s - 16
