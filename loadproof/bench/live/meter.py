"""Live figures of one phase, taken as requests end; what they cost is held to a share of the client's own CPU."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from loadproof.bench.live.lines import BUCKET_GROWTH, Ahead, Bound, Client, Latency, OnLine, Progress, Start

if TYPE_CHECKING:
    from loadproof.bench.batch import Batch
    from loadproof.bench.live.so_far import Sample
    from loadproof.bench.measure.records import RequestRecord
    from loadproof.bench.plan import PlannedLevel, RunPlan

INTERVAL_S = 0.25  # at most four lines a second
TICK_S = 1.0  # a run whose requests hang is heard of this often
CPU_OVER_S = 1.0
VERDICT_S = 5.0  # between two verdicts so far, at least
RECENT_REQUESTS = 500
MOST_SHARE = 0.005  # of the client's CPU: for lines, and as much again for verdicts
LONGEST_QUIET_S = 4.0  # a client that does little is heard of all the same

_SHOWN = 5  # steps to a bucket of the histogram that is told
_STEP = math.log(BUCKET_GROWTH) / _SHOWN


class Budget:
    """CPU time that something may take of all that this process takes."""

    def __init__(self, share: float, cpu_s: Callable[[], float] = time.process_time) -> None:
        self._share, self._cpu_s = share, cpu_s
        self._spent_s = 0.0

    @property
    def left(self) -> bool:
        return self._spent_s <= self._share * self._cpu_s()

    def spend(self, what: Callable[[], None]) -> None:
        before_s = time.thread_time()
        what()
        self._spent_s += time.thread_time() - before_s


@dataclass(slots=True)
class Tally:
    """A latency as counts of logarithmic buckets."""

    counts: Counter[int] = field(default_factory=Counter)
    total: int = 0
    sum_ms: float = 0.0

    def add(self, value_ms: float) -> None:
        self.counts[math.ceil(math.log(max(value_ms, 1e-3)) / _STEP)] += 1
        self.total += 1
        self.sum_ms += value_ms

    @property
    def mean_ms(self) -> float | None:
        return self.sum_ms / self.total if self.total else None

    def told(self) -> Latency:
        steps = sorted(self.counts.items())
        shown: Counter[int] = Counter()
        for step, count in steps:
            shown[-(-step // _SHOWN)] += count
        buckets = tuple((round(math.exp(step * _SHOWN * _STEP), 3), count) for step, count in shown.items())
        p50_ms, p95_ms, p99_ms = self._percentiles(steps, (0.50, 0.95, 0.99))
        return Latency(self.total, p50_ms, p95_ms, p99_ms, buckets)

    def _percentiles(self, steps: list[tuple[int, int]], shares: tuple[float, ...]) -> Iterator[float | None]:
        seen, place = 0, -1
        for share in shares:
            while seen < share * self.total:
                place += 1
                seen += steps[place][1]
            yield round(math.exp((steps[place][0] - 0.5) * _STEP), 3) if self.total else None


class Sending(Protocol):
    """What the meter asks of whoever sends."""

    @property
    def under_way(self) -> Mapping[tuple[int, int], int]: ...


@dataclass(slots=True)
class Watch:
    """What outlives a phase: where lines go, and what telling them has cost.

    `waiting`: how many requests have no token yet. `cpu_s`: of all processes that send; None: unknown.
    """

    on_line: OnLine
    runner: Sending
    waiting: Callable[[], int | None]
    cpu_s: Callable[[], float | None]
    clock_ns: Callable[[], int]
    lines: Budget = field(default_factory=lambda: Budget(MOST_SHARE))
    verdicts: Budget = field(default_factory=lambda: Budget(MOST_SHARE))
    sample_of: Callable[[RunPlan, int], Sample] = field(init=False)

    def __post_init__(self) -> None:
        """Load what judges (numpy and more, 0.3 s) before there is any load to wait for it."""
        from loadproof.bench.live.so_far import Sample, get_ready  # noqa: PLC0415  a sender comes up without numpy

        get_ready()
        self.sample_of = Sample


@dataclass(slots=True)
class Meter:
    """One phase's figures, shown as requests end and, where none does, by time."""

    watch: Watch
    plan: RunPlan
    batch: Batch
    total: int | None
    start_ns: int
    done: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    output_tokens: int = 0
    ttft: Tally = field(default_factory=Tally)
    e2e: Tally = field(default_factory=Tally)
    late_ms: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_REQUESTS))
    sample: Sample | None = None
    _shown_ns: int = 0
    _judged_ns: int = 0
    _cpu_s: float | None = None
    _cpu_ns: int = 0
    _cpu_share: float | None = None
    _timer: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self._judged_ns = self._cpu_ns = self.start_ns
        self._cpu_s = self.watch.cpu_s()
        if self.batch.phase == "measured":
            self.sample = self.watch.sample_of(self.plan, self.batch.level)

    def add(self, record: RequestRecord) -> None:
        if record.finished:
            self.done += 1
            if record.ok:
                self.output_tokens += record.output_tokens or 0
                self.e2e.add((record.end_ns - record.intended_ns) / 1e6)
            else:
                self.errors[record.outcome] += 1
            ttft_ms = record.ttft_ms
            if ttft_ms is not None:
                self.ttft.add(ttft_ms)
        self.late_ms.append((record.dispatched_ns - record.intended_ns) / 1e6)
        if self.sample is not None:
            self.sample.add(record)
        if self.done != self.total:  # the phase's end shows itself
            self._show_if_due(INTERVAL_S)

    def arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.done and self.watch.verdicts.left:
            self._judge()
        self._show(ended=True)

    def _tick(self) -> None:
        """Show what there is when nothing ended for a while, and come again."""
        self._show_if_due(TICK_S - INTERVAL_S)
        self.arm()

    def _show_if_due(self, interval_s: float) -> None:
        now_ns = self.watch.clock_ns()
        quiet_s = (now_ns - self._shown_ns) / 1e9
        if quiet_s <= interval_s or not (self.watch.lines.left or quiet_s > LONGEST_QUIET_S):
            return
        self._show()
        if self.done and (now_ns - self._judged_ns) / 1e9 > VERDICT_S and self.watch.verdicts.left:
            self._judged_ns = now_ns
            self._judge()

    def _judge(self) -> None:
        sample = self.sample
        if sample is not None:
            self.watch.verdicts.spend(lambda: self.watch.on_line(sample.judged(self.done, sum(self.errors.values()))))

    def _show(self, ended: bool = False) -> None:
        self.watch.lines.spend(lambda: self.watch.on_line(self._line(ended)))

    def _line(self, ended: bool) -> Progress:
        now_ns = self.watch.clock_ns()
        self._shown_ns = now_ns
        elapsed_s = (now_ns - self.start_ns) / 1e9
        under_way = self.watch.runner.under_way
        oldest_ns = next(iter(under_way.values()), None)
        left_s = 0.0 if ended else self._left_s(elapsed_s)
        return Progress(
            level=self.batch.level,
            levels=None if self.plan.spec.search else len(self.plan.levels),
            load=self.plan.levels[self.batch.level].load.words,
            phase=self.batch.phase,
            done=self.done,
            total=self.total,
            errors=self.errors.total(),
            errors_by_kind=dict(self.errors),
            requests_per_s=self.done / elapsed_s if elapsed_s > 0 else None,
            output_tokens_per_s=self.output_tokens / elapsed_s if elapsed_s > 0 else None,
            in_flight=len(under_way),
            waiting=self.watch.waiting(),
            oldest_s=None if oldest_ns is None else (now_ns - oldest_ns) / 1e9,
            elapsed_s=elapsed_s,
            left_s=left_s,
            run_left_s=self._run_left_s(left_s),
            ttft=self.ttft.told(),
            e2e=self.e2e.told(),
            client=Client(self._cpu(now_ns), self._late_p99_ms()),
            ended=ended,
        )

    def _left_s(self, elapsed_s: float) -> float | None:
        if self.batch.duration_s is not None:
            return max(0.0, self.batch.duration_s - elapsed_s)
        if self.batch.schedule.due_ns:
            return max(0.0, self.batch.schedule.due_ns[-1] / 1e9 - elapsed_s) + (self.e2e.mean_ms or 0.0) / 1e3
        if self.total is None or not self.done:
            return None
        return elapsed_s / self.done * (self.total - self.done)

    def _run_left_s(self, left_s: float | None) -> float | None:
        """With the levels to come, their answers as long as those of now."""
        if left_s is None or self.plan.spec.search is not None:
            return None
        here = self.batch.level
        ours = () if self.batch.phase == "measured" else (self.plan.levels[here],)
        to_come = [self._takes_s(level) for level in (*ours, *self.plan.levels[here + 1 :]) if level.ended_utc is None]
        return None if None in to_come else left_s + sum(filter(None, to_come))

    def _takes_s(self, level: PlannedLevel) -> float | None:
        load, mean_ms = level.load, self.e2e.mean_ms
        if load.duration_s is not None:
            return load.duration_s
        if level.requests is None or load.process == "trace":
            return None
        if load.requests_per_s is not None:
            return level.requests / load.requests_per_s
        return None if mean_ms is None else level.requests * mean_ms / 1e3 / (load.concurrency or 1)

    def _cpu(self, now_ns: int) -> float | None:
        """Over a second or more: worker processes tell theirs twice a second."""
        since_s, before_s = (now_ns - self._cpu_ns) / 1e9, self._cpu_s
        if since_s >= CPU_OVER_S:
            self._cpu_s, self._cpu_ns = self.watch.cpu_s(), now_ns
            known = self._cpu_s is not None and before_s is not None
            self._cpu_share = max(0.0, self._cpu_s - before_s) / since_s if known else None  # type: ignore[operator]
        return self._cpu_share

    def _late_p99_ms(self) -> float | None:
        late_ms = sorted(self.late_ms)
        return round(late_ms[math.ceil(0.99 * len(late_ms)) - 1], 3) if late_ms else None


def start_of(plan: RunPlan) -> Start:
    spec = plan.spec
    return Start(
        run_id=plan.run_id,
        target=spec.target.told.endpoint,
        profile=spec.profile.name if spec.profile else None,
        levels=tuple(
            Ahead(level.load.words, level.requests, level.load.duration_s, level.ended_utc is not None)
            for level in plan.levels
        ),
        search=spec.search.kind if spec.search else None,
        objectives=tuple(Bound(one.name, one.comparison, one.bound) for one in spec.objectives),
    )
