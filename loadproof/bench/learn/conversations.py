"""Which turn of its conversation a recorded request is, told by the blocks of its prompt."""

from __future__ import annotations

from dataclasses import dataclass, field

from loadproof.bench.workload.traces import TraceRow


@dataclass(slots=True)
class Conversations:
    """Of a trace whose rows name their session, which may be several conversations: an agent's and its sub-agents'."""

    _latest: dict[int, list[tuple[TraceRow, int]]] = field(default_factory=dict)  # of each: last request, its turn

    def turn_of(self, row: TraceRow) -> tuple[int, int]:
        """The turn, from 1 (0 where nothing tells), and the tokens of the prompt that came since the answer before.

        A request goes on from the one whose prompt it repeats: all its blocks, but the last, which may not be full.
        """
        if row.session is None:
            return 0, row.input_tokens
        latest = self._latest.setdefault(row.session, [])
        goes_on = [place for place, (before, _) in enumerate(latest) if _repeats(row, before)]
        if not goes_on:
            latest.append((row, 1))
            return 1, row.input_tokens
        place = max(goes_on, key=lambda one: len(latest[one][0].blocks))
        before, turn = latest[place]
        latest[place] = row, turn + 1
        return turn + 1, max(1, row.input_tokens - before.input_tokens - before.output_tokens)


def _repeats(row: TraceRow, before: TraceRow) -> bool:
    whole = len(before.blocks) - 1
    return 0 < whole < len(row.blocks) and row.blocks[:whole] == before.blocks[:whole]
