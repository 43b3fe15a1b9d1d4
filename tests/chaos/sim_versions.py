"""The consumer as it is, and as it was before the latest change of what it keeps in the table: both run at once while a
deployment is under way."""

from __future__ import annotations

import ast
from functools import cache
from typing import Final

from sim_package import Change, source
from sim_world import Version

_RULE: Final = (
    """    if failure.kind is Kind.TIMED_OUT:
        claim.suspicion += suspicion(others)
    if failure.kind is Kind.TRY_AGAIN or (failure.kind is Kind.TIMED_OUT and others.timed_out < MANY):
        claim.attempts += 1
    if claim.suspicion >= MOST:
        raise PoisonError(f"timed out more often than others: {failure.reason}")
""",
    """    if failure.kind in (Kind.TRY_AGAIN, Kind.TIMED_OUT):
        claim.attempts += 1
        claim.timeouts += failure.kind is Kind.TIMED_OUT
    if claim.timeouts >= 2:
        raise PoisonError(f"timed out {claim.timeouts} times: {failure.reason}")
""",
)
_FIELD: Final = ("suspicion", "timeouts")  # of a key's record


def _before(place: str, now: str, other: str) -> Change:
    text = source(place)
    assert now in text, f"{place} is another one than sim_versions knows"
    return lambda _: ast.parse(text.replace(now, other))


@cache
def versions() -> tuple[Version, Version]:
    """Before a deployment, and after it. Two time-outs used to bury a message, and were counted as `timeouts`."""
    changes = {
        "consumer/claims.py": _before("consumer/claims.py", *_FIELD),
        "consumer/worker.py": _before("consumer/worker.py", *_FIELD),
        "consumer/generation.py": _before("consumer/generation.py", *_RULE),
    }
    return Version(changes), Version()
