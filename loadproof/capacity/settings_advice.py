"""The server settings Loadproof would set, each with the predicted figure that it moves."""

from __future__ import annotations

from dataclasses import dataclass

from loadproof.capacity.changes import Change


@dataclass(frozen=True, slots=True)
class SettingAdvice:
    """One setting worth changing: `metric` goes from `before` to `after` (both predicted) once it is set.

    `changes` usually is one key; copies change two. `reason` is one sentence with the figures in it.
    """

    setting: str
    current: str
    proposed: str
    metric: str
    before: float
    after: float
    reason: str
    changes: tuple[Change, ...]
