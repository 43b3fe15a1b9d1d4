"""How many requests a judged level needs, before anything is known of it.

A percentile's interval has an upper end only from `fewest_requests` on, and even then passes nothing that comes near
its bound. So a level is sized for objectives that hold by `MARGIN`, of latencies that spread by `SPREAD` (lognormal).
Of a percentile q then p = 1 − Φ(z_q + ln(1 + MARGIN) / SPREAD) of requests lie beyond the bound, and r = 1 − q may.
That is told apart with probability 1 − β from n = ((z_α·√(r(1 − r)) + z_β·√(p(1 − p))) / (r − p))² on. All objectives
must pass, so that each must nearly always: (1 − β)^objectives = `SETTLED_IN`, of which some is lost to chance.
"""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, log, sqrt
from statistics import NormalDist

MARGIN = 0.05
SPREAD = 0.2
SETTLED_IN = 0.85
TAIL = 0.025
_NORMAL = NormalDist()


def fewest_requests(rank_percent: float) -> int:
    """How many independent requests a percentile's interval needs for an upper end: p^n ≤ 2.5%; 72 for a p95."""
    return ceil(log(TAIL) / log(rank_percent / 100))


def requests_for(ranks_percent: Collection[float], objectives: int) -> int | None:
    """How many settle percentiles among so many `objectives` in `SETTLED_IN` of the cases; None without any."""
    if not ranks_percent:
        return None
    each = _NORMAL.inv_cdf(SETTLED_IN ** (1 / objectives))
    return max(_requests(rank / 100, each) for rank in ranks_percent)


def _requests(share: float, settled: float) -> int:
    beyond = 1 - _NORMAL.cdf(_NORMAL.inv_cdf(share) + log(1 + MARGIN) / SPREAD)
    reach = -_NORMAL.inv_cdf(TAIL) * sqrt(share * (1 - share)) + settled * sqrt(beyond * (1 - beyond))
    return ceil((reach / (1 - share - beyond)) ** 2)
