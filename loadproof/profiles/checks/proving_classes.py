"""Objectives of classes: does the benchmark send enough of each class to settle them (LP381)?"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Final

from loadproof.profiles.checks.proving import sent_where_judged
from loadproof.profiles.checks.rule import Found, Subject, rule
from loadproof.profiles.judging import latencies_of, requests_to_judge
from loadproof.profiles.mixture import mixture_of
from loadproof.sizing import requests_for

_AT_OBJECTIVES: Final = "benchmark.requests_at_objectives"


@rule(
    "LP381",
    "Benchmark that cannot settle a class's objectives",
    reason="A benchmark sends what its own objectives need; a class has its share of that, which is too little for its "
    "own where it is small, so that most runs end INCONCLUSIVE.",
    mend="Send more (benchmark.requests_at_objectives), or give the class a larger share.",
    severity="warning",
)
def cannot_settle_classes(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    bounds = list(latencies_of(profile))
    if not any(one.part for one, _, _ in bounds):
        return
    shares = mixture_of(profile.workload).request_shares
    place, sent = sent_where_judged(profile)
    sent = sent or max(profile.benchmark.requests_per_level, requests_to_judge(profile) or 0)
    for one, _, rank in bounds:
        needed = requests_for([rank], len(bounds)) if one.part else None
        ours = sent * shares.get(one.part, 1.0)
        if needed is not None and ours < needed:
            found = f"about {ours:,.0f} of {sent:,.0f} requests are of this class, which leave it open in most runs"
            mend = f"send {ceil(needed / shares[one.part]):,} ({'.'.join(map(str, place)) or _AT_OBJECTIVES})"
            yield Found(one.place, found, f"{mend}, or give the class a larger share")
