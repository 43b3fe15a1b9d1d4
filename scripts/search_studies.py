"""How often `--find-max` names a load that truly misses, and how often its verdict is PASS, where the truth is known.

    python scripts/search_studies.py [SEARCHES]

Each cell is so many searches (default 300) of the real search over drawn latencies: lognormal with the spread of the
row, around a median that rises with the load. Each endpoint has its own shape and its own true maximum, drawn anew, at
which the p95 is the bound exactly. *Levels 5% apart*: each level is slower or quicker as a whole, by a normal factor.
*Drifting*: the endpoint slows by 5% over twenty levels. *AR 0.7*: neighbours share their luck. Prints Markdown.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loadproof.bench.measure.intervals import quantile_interval
from loadproof.bench.search.find_max import confirmed_load
from loadproof.bench.search.levels import next_level
from loadproof.bench.search.probes import Miss, Probe, Stop, Tally, Wanted
from loadproof.bench.spec import Search
from loadproof.loads import Load

BOUND_MS = 1000.0
SHARE = 0.95
Z95 = 1.6448536269514722
REQUESTS = 100  # of a level that narrows down


@dataclass(frozen=True)
class Endpoint:
    """Median latency 1 at no load, doubling somewhere; `spread` of log-latency; `between`: of whole levels."""

    limit: float
    steepness: float
    spread: float
    between: float = 0.0
    drift: float = 0.0
    correlation: float = 0.0

    def median_ms(self, load: float) -> float:
        """So that the p95 is the bound at `limit`; at no load it is half of that."""
        return BOUND_MS / exp(Z95 * self.spread) * float(1 + (load / self.limit) ** self.steepness) / 2

    def misses(self, load: float, levels: int) -> bool:
        return self.median_ms(load) * (1 + self.drift * levels / 20) * exp(Z95 * self.spread) > BOUND_MS * (1 + 1e-9)

    def latencies_ms(self, load: float, requests: int, level: int, random: np.random.Generator) -> np.ndarray:
        noise = random.standard_normal(requests)
        if self.correlation:
            steps = noise * (1 - self.correlation**2) ** 0.5
            steps[0] = noise[0]
            for place in range(1, requests):
                steps[place] += self.correlation * steps[place - 1]
            noise = steps
        whole = log(self.median_ms(load) * (1 + self.drift * level / 20)) + self.between * random.standard_normal()
        return np.exp(whole + self.spread * noise)


def probe(endpoint: Endpoint, wanted: Wanted, level: int, random: np.random.Generator) -> tuple[Probe, int]:
    requests = max(REQUESTS, wanted.requests or 0)
    values = endpoint.latencies_ms(wanted.value, requests, level, random)
    interval = quantile_interval(values.copy(), np.arange(1, requests + 1), 100 * SHARE, BOUND_MS)
    assert interval is not None
    observed = float(np.quantile(values, SHARE, method="inverted_cdf"))
    misses = () if observed <= BOUND_MS else (Miss("objective", f"p95 {observed:.4g}"),)
    exceeding = float((values > BOUND_MS).mean()) * interval.effective
    passed = interval.high is not None and interval.high <= BOUND_MS and not misses
    tally = Tally(exceeding, interval.effective, 1 - SHARE, requests)
    return Probe(wanted.value, misses, None, (tally,), wanted.confirms, passed), requests


def searched(endpoint: Endpoint, search: Search, random: np.random.Generator) -> tuple[float | None, Stop, int, int]:
    """(load named, why it ended, levels, requests)."""
    probes: list[Probe] = []
    sent = 0
    while not isinstance(wanted := next_level(search, probes), Stop):
        one, requests = probe(endpoint, wanted, len(probes), random)
        probes.append(one)
        sent += requests
    return confirmed_load(probes), wanted, len(probes), sent


ROWS: dict[str, dict[str, float]] = {
    "spread 10%": {"spread": 0.1},
    "spread 20%": {"spread": 0.2},
    "spread 50%": {"spread": 0.5},
    "20%, levels 5% apart": {"spread": 0.2, "between": 0.05},
    "50%, levels 10% apart": {"spread": 0.5, "between": 0.1},
    "20%, drifting": {"spread": 0.2, "drift": 0.05},
    "20%, AR 0.7": {"spread": 0.2, "correlation": 0.7},
}


def main(searches: int) -> None:
    print("| endpoint | truly misses, of the loads named | PASS | of the true maximum, p10 / p50 | levels | requests |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind, search in (
        ("rate", Search("find_max", Load("poisson", requests=REQUESTS), 1, 256)),
        ("in flight", Search("find_max", Load(requests=REQUESTS), 1, 256)),
    ):
        for name, row in ROWS.items():
            random = np.random.default_rng([len(name), len(kind), 7])
            shares, wrong, levels, sent = [], 0, [], []
            for _ in range(searches):
                endpoint = Endpoint(exp(random.uniform(log(3), log(120))), random.uniform(1, 4), **row)
                found, _, count, requests = searched(endpoint, search, random)
                levels.append(count)
                sent.append(requests)
                if found is not None:
                    shares.append(found / endpoint.limit)
                    wrong += endpoint.misses(found, count)
            p10, p50 = np.percentile(shares, (10, 50)) if shares else (0, 0)
            cells = (
                f"{kind}, {name}",
                f"{wrong / max(1, len(shares)):.1%}",
                f"{len(shares) / searches:.0%}",
                f"{p10:.0%} / {p50:.0%}",
                f"{np.median(levels):.0f}",
                f"{np.median(sent):,.0f}",
            )
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
