"""Where sentences may break."""

from __future__ import annotations

from rich.text import Text

from loadproof.terminal import folded


def test_a_command_to_paste_is_not_broken() -> None:
    """At 20 columns the words before it make a line of their own."""
    said = folded(Text("those it knows: `loadproof catalog list models`, or others"), 20).plain
    assert said == "those it knows:\n`loadproof catalog list models`,\nor others"
