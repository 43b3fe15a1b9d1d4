"""How many requests a profile's judged level needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from loadproof.profiles.promises import Promise, promises_of
from loadproof.profiles.schema import Profile
from loadproof.sizing import requests_for

_PERCENTILE: Final = re.compile(r"(ttft|itl|tpot|e2e)_p(\d\d)_ms\Z")


def requests_to_judge(profile: Profile) -> int | None:
    """What the profile says; else as many as settle objectives that hold by 5%; None without a percentile."""
    return profile.benchmark.requests_at_objectives or requests_to_settle(profile)


def requests_to_settle(profile: Profile) -> int | None:
    """As many as settle its own objectives, where they hold by 5%, in 4 of 5 cases; None without a percentile."""
    estimated = profile.objectives.bounds.keys() - {"error_rate_max"}  # which is counted
    return requests_for([rank for one, _, rank in latencies_of(profile) if not one.part], len(estimated))


def latencies_of(profile: Profile) -> Iterator[tuple[Promise, str, int]]:
    """Each latency bound, those of classes among them, with its metric and rank."""
    for one in promises_of(profile):
        if match := _PERCENTILE.match(one.name):
            yield one, match[1], int(match[2])
