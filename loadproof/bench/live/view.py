"""Where a run's lines go while it runs: a full screen on a terminal that has room, else a line now and then; a stream.

All is done when told to, never from a thread of its own: that would hold the interpreter while tokens arrive.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self

from rich.console import Console

from loadproof.bench.live.lines import End, Line, Loaded, Progress
from loadproof.bench.live.screen import Screen, State
from loadproof.bench.live.stream import Stream
from loadproof.bench.live.words import one_line

PLAIN_INTERVAL_S = 5.0
PLAIN_WIDTH = 80


class View:
    """What a run tells, shown on `console` (None: nowhere) and written to `stream`."""

    def __init__(
        self, console: Console | None, stream: Stream | None = None, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._console, self._stream, self._clock_s = console, stream, clock_s
        self._printed_s = clock_s()
        self._screen = Screen(console, clock_s) if console is not None and Screen.fits(console) else None
        self._state = State()
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        if self._stream is not None:
            self._closing.enter_context(self._stream)
        if self._screen is not None:
            self._closing.callback(self._screen.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def note(self, words: str) -> None:
        """A line that stays."""
        if self._console is not None:
            self._console.print(words, markup=False, highlight=False, soft_wrap=True)

    def tell(self, line: Line) -> None:
        if self._stream is not None:
            self._stream.write(line)
        self._state.take(line)
        if isinstance(line, Loaded | End) and self._screen is not None:
            self._screen.close()
        elif isinstance(line, Progress):
            self._show(line)

    def _show(self, progress: Progress) -> None:
        if self._screen is not None:
            self._screen.draw(self._state)
        elif self._console is not None:
            now_s = self._clock_s()
            if now_s - self._printed_s >= PLAIN_INTERVAL_S or (progress.ended and progress.phase == "measured"):
                self._printed_s = now_s
                width = self._console.width if self._console.is_terminal else PLAIN_WIDTH
                self.note(one_line(progress, self._state.verdicts.get(progress.level), width))
