"""A run's live figures in words; whoever shows them decides how many fit."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len

from loadproof.bench.live.lines import Latency, Progress, SoFar

BETWEEN = " · "


def fitting(pieces: Iterable[tuple[int, str]], width: int) -> str:
    """Pieces of (rank, words) in their order, as many as fit whole; the highest ranks are left out first."""
    left = [(rank, words) for rank, words in pieces if words]
    while left and sum(cell_len(words) + len(BETWEEN) for _, words in left) - len(BETWEEN) > width:
        left.remove(max(left))
    return BETWEEN.join(words for _, words in left)


def one_line(progress: Progress, so_far: SoFar | None, width: int) -> str:
    """How far the run is, and how it goes."""
    level = f"{progress.level + 1}" if progress.levels is None else f"{progress.level + 1}/{progress.levels}"
    latency = progress.ttft if progress.ttft.count else progress.e2e
    what = "TTFT" if progress.ttft.count or not progress.e2e.count else "E2E"
    p50 = f"{what} p50 {short(latency.p50_ms)} ms"
    hangs = not progress.done and progress.in_flight and progress.oldest_s is not None
    now = waiting(progress) if hangs else [(2, p50), (1, errors(progress)), (4, rate(progress))]
    return fitting(
        [
            (0, f"level {level}"),
            (0, progress.load),
            (0, "warm-up" if progress.phase == "warmup" else ""),
            (0, done(progress)),
            (3, "" if progress.ended else left(progress.left_s)),
            *now,
            (1, f"so far {so_far.outcome}" if so_far and so_far.level == progress.level else ""),
        ],
        width,
    )


def waiting(progress: Progress) -> list[tuple[int, str]]:
    """While no answer is complete: how long it has been, for how many, and whether they speak at all."""
    if progress.waiting is None:
        for_what = "no answer yet"
    elif progress.waiting:
        for_what = f"{progress.waiting} waiting for the first token"
    else:
        for_what = "all streaming"
    oldest = "" if progress.oldest_s is None else f"oldest {progress.oldest_s:.0f} s"
    return [(4, duration(progress.elapsed_s)), (3, f"{progress.in_flight} in flight"), (1, for_what), (2, oldest)]


def done(progress: Progress) -> str:
    return f"{progress.done:,}" if progress.total is None else f"{progress.done:,}/{progress.total:,}"


def rate(progress: Progress) -> str:
    return f"{number(progress.requests_per_s)} requests/s"


def errors(progress: Progress) -> str:
    return "1 error" if progress.errors == 1 else f"{progress.errors:,} errors"


def left(seconds: float | None) -> str:
    return "" if seconds is None else f"{duration(seconds)} left"


def duration(seconds: float) -> str:
    """`7 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def percentiles(latency: Latency) -> str:
    return BETWEEN.join(f"{name} {short(getattr(latency, f'{name}_ms'))}" for name in ("p50", "p95", "p99"))


def short(value: float | None) -> str:
    """A figure as far as a glance goes: three digits; no data is a dash."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def number(value: float | None) -> str:
    """A dash for no data, whole from 1,000 up."""
    if value is None:
        return "–"
    return f"{value:,.{0 if abs(value) >= 1000 else 1}f}"
