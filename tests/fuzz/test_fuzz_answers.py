"""Hostile servers: whatever one sends, each answer ends typed and within its budgets. `make fuzz` plays 100,000."""

from __future__ import annotations

from fuzz_grammar import hostile
from fuzz_play import findings

ANSWERS = 2000


def test_every_hostile_answer_ends_typed_and_within_budget() -> None:
    """No traceback, no hang, nothing kept, codes and messages trimmed; how the bytes are cut makes no difference."""
    found, kinds = findings((hostile(seed) for seed in range(ANSWERS)), weigh_every=40)
    assert not found, "\n".join(map(str, found))
    assert kinds.total() == ANSWERS and {"ok", "stream_error", "in_band_error", "truncated", "connection"} <= set(kinds)


def test_an_answer_follows_from_its_seed() -> None:
    """The same bytes in the same pieces, run after run: a failing seed is enough to see it again."""
    assert [hostile(seed) for seed in range(200)] == [hostile(seed) for seed in range(200)]
