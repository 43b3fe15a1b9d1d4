"""What people see of `loadproof run`: progress on stderr while it goes, the totals when it is over."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from loadproof.invocation.engine import ItemResult, Many
from loadproof.pages.durations import clock

PLAIN_INTERVAL_S = 5.0
_RATE_OVER_S = 30.0


@dataclass(slots=True)
class Tally:
    """What has ended of `items` to send; `before` results were stored by earlier runs, `failed_before` among them."""

    items: int
    before: int = 0
    failed_before: int = 0
    answered: int = 0
    failed: int = 0
    requests: int = 0
    output_tokens: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, result: ItemResult) -> None:
        self.requests += result.attempts
        if result.outcome.ok and result.invocation is not None:
            self.answered += 1
            self.output_tokens += result.invocation.output_tokens or 0
            return
        self.failed += 1
        kind = result.outcome.code or result.outcome.kind
        self.kinds[kind] += 1
        self.examples.setdefault(kind, result.outcome.message)

    @property
    def done(self) -> int:
        return self.answered + self.failed

    def document(self, many: Many, duration_s: float) -> dict[str, object]:
        """What `--format json` prints; a rate without a duration is null."""
        return {
            "items": self.items,
            "answered": self.answered,
            "failed": self.failed,
            "not_ended": self.items - self.done,
            "stored_before": self.before,
            "failed_before": self.failed_before,
            "requests": self.requests,
            "retries": many.retried,
            "duration_s": round(duration_s, 3),
            "items_per_s": round(self.done / duration_s, 3) if duration_s else None,
            "output_tokens": self.output_tokens,
            "output_tokens_per_s": round(self.output_tokens / duration_s, 1) if duration_s else None,
            "most_in_flight": many.most_in_flight,
            "failures": dict(self.kinds),
        }


class RunView:
    """A live line on a terminal, else a plain line every few seconds. Drawn only when told to."""

    def __init__(self, console: Console, tally: Tally, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._console, self._tally, self._clock_s = console, tally, clock_s
        self._started_s = self._printed_s = clock_s()
        self._seen: list[tuple[float, int]] = [(self._started_s, 0)]
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    @property
    def elapsed_s(self) -> float:
        return self._clock_s() - self._started_s

    def note(self, words: str) -> None:
        """A line that stays."""
        self._console.print(words, markup=False, highlight=False, soft_wrap=True)

    def show(self, many: Many) -> None:
        now_s = self._clock_s()
        if self._live:
            self._live.update(Text(self.line(many, now_s), no_wrap=True, overflow="ellipsis"), refresh=True)
        elif now_s - self._printed_s >= PLAIN_INTERVAL_S:
            self._printed_s = now_s
            self.note(self.line(many, now_s))

    def line(self, many: Many, now_s: float) -> str:
        """`120/1,000 · 14.2/s · 1:02 left · 16 in flight · 2 failed`; the rate is of the last half minute."""
        tally = self._tally
        self._seen.append((now_s, tally.done))
        while len(self._seen) > 2 and now_s - self._seen[1][0] > _RATE_OVER_S:
            self._seen.pop(0)
        since_s, done_then = self._seen[0]
        rate = (tally.done - done_then) / (now_s - since_s) if now_s > since_s else 0.0
        left = "" if not rate else f" · {clock((tally.items - tally.done) / rate)} left"
        parts = [f"{tally.done:,}/{tally.items:,} · {rate:.1f}/s{left} · {many.in_flight} in flight"]
        gate = many.pace.gate
        if gate.closed and gate.last is not None:
            waited = clock(gate.closed_for_s(many.now_s()))
            parts.append(f"waiting for the endpoint since {waited} ({gate.last.code})")
        parts += [f"{count:,} {what}" for count, what in ((tally.failed, "failed"), (many.retried, "retries")) if count]
        return " · ".join(parts)


def totals(tally: Tally, document: dict[str, Any], output: str) -> list[str]:
    """The run in a few lines."""
    rate, tokens = document["items_per_s"], document["output_tokens_per_s"]
    speed = "" if rate is None or not tally.done else f", {rate:,.1f} items/s, {tokens:,.0f} output tokens/s"
    parts = [f"{tally.answered:,} answered", f"{tally.failed:,} failed"]
    if left := document["not_ended"]:
        parts.append(f"{left:,} not ended")
    if tally.before:
        parts.append(f"{tally.before:,} stored before")
    lines = [f"{' · '.join(parts)} in {clock(document['duration_s'])}{speed}"]
    for kind, count in tally.kinds.most_common():
        said = f": {tally.examples[kind]}" if tally.examples[kind] else ""
        lines.append(f"  {count:,} {kind}{said}")
    if tally.failed_before:
        lines.append(f"  {tally.failed_before:,} failed in an earlier run; try them again with --resume --retry-failed")
    return [*lines, f"Results: {output}"]
