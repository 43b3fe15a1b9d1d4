"""One level's requests as the bootstrap draws them: which belong together, and each figure's samples."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from loadproof.bench.measure.bootstrap import Resampled, Whole, percentile_resampled, rate_resampled
from loadproof.bench.measure.client_share import faster_without
from loadproof.bench.measure.latencies import NS_PER_S, Pool, itl_gaps_ns, pooled, tpot_ms
from loadproof.bench.measure.levels import MeasuredLevel
from loadproof.bench.measure.records import RequestRecord
from loadproof.bench.objectives import TOKENS_PER_S, Objective

_HAS: dict[str, Callable[[RequestRecord], bool]] = {
    "ttft": lambda record: record.ttft_ms is not None,
    "tpot": lambda record: tpot_ms(record) is not None,
    "itl": lambda record: itl_gaps_ns(record).size > 0,
    "e2e": lambda record: True,
}


class LevelSamples:
    """The successful requests of one level in the order sent, those of a conversation (`turns` above 1) together."""

    def __init__(self, level: MeasuredLevel, turns: int, seed: tuple[int, ...]) -> None:
        self._metrics, self._turns, self._seed = level.metrics, turns, seed
        self._slots = level.load.concurrency  # None: an open loop
        succeeded = sorted(
            (record for record in level.records if record.ok), key=lambda record: (record.intended_ns, record.index)
        )
        if turns > 1:
            began: dict[int, int] = {}
            for place, record in enumerate(succeeded):
                began.setdefault(record.index // turns, place)
            succeeded.sort(key=lambda record: began[record.index // turns])  # stable: turns stay in order
        self._records = succeeded
        self._pools: dict[str, tuple[Pool, Whole]] = {}
        self._ends: dict[str, tuple[Pool, Pool, Pool]] = {}

    def resampled(self, objective: Objective) -> Resampled:
        """The objective's figure over resamples; its bound is not looked at."""
        seed = (*self._seed, zlib.crc32(objective.name.encode()))  # each figure draws its own
        if objective.latency:
            metric, rank_percent = objective.latency
            pool, owners = self._pool(metric)
            return percentile_resampled(pool, rank_percent, owners, seed)
        of_tokens = objective.name == TOKENS_PER_S
        amounts = [float(record.output_tokens or 0) if of_tokens else 1.0 for record in self._records]
        busy_s = [(record.end_ns - record.intended_ns) / NS_PER_S for record in self._records]
        observed = self._metrics.output_tokens_per_s if of_tokens else self._metrics.requests_per_s
        owners = self._owners(self._records)
        return rate_resampled(observed, np.asarray(amounts), np.asarray(busy_s), owners, seed, self._slots)

    def ends(self, objective: Objective) -> tuple[float, float]:
        """The least and the most that the figure may have been without what the client added, over it as counted."""
        if not objective.latency:
            is_open = self._metrics.load is not None
            return 1.0, faster_without(self._records, is_open=is_open, duration_s=self._metrics.duration_s)
        metric, rank_percent = objective.latency
        counted, least, most = (pool.percentile_ms(rank_percent) for pool in self._with_ends(metric))
        return (least / counted, most / counted) if counted and least is not None and most is not None else (1.0, 1.0)

    def _pool(self, metric: str) -> tuple[Pool, Whole]:
        if metric not in self._pools:
            with_data = [record for record in self._records if _HAS[metric](record)]
            self._pools[metric] = pooled(metric, with_data), self._owners(with_data)
        return self._pools[metric]

    def _with_ends(self, metric: str) -> tuple[Pool, Pool, Pool]:
        """As counted, and the shortest and the longest that they may have been; once for all percentiles."""
        if metric not in self._ends:
            shortest, longest = pooled(metric, self._records, "shortest"), pooled(metric, self._records, "longest")
            self._ends[metric] = self._pool(metric)[0], shortest, longest
        return self._ends[metric]

    def _owners(self, records: list[RequestRecord]) -> Whole:
        """The unit of each request, from 0 and rising: itself, or its conversation."""
        if self._turns == 1 or not records:
            return np.arange(len(records))
        of = np.asarray([record.index // self._turns for record in records])
        return np.cumsum(np.diff(of, prepend=of[0]) != 0)
