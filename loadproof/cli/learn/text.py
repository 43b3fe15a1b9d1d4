"""What `loadproof learn` says: the fit, how close it comes, what moved and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from statistics import median

from rich.markup import escape
from rich.table import Table

from loadproof.bench.learn.closeness import MOST_APART, Closeness, Consequence
from loadproof.bench.learn.drift import Drift
from loadproof.bench.learn.fitting import Learned, Lengths
from loadproof.bench.learn.recorded import Recorded


@dataclass(slots=True)
class Said:
    """All that was found; `diff` is empty where no profile is to change."""

    recorded: Recorded
    learned: Learned
    diff: str = ""
    drifts: Sequence[Drift] = ()
    closeness: Sequence[Closeness] = ()
    consequences: Sequence[Consequence] = ()
    notes: list[str] = field(default_factory=list)

    against: dict[str, str] | None = None
    """name and hash of the profile that the traffic was held against"""

    @property
    def moved(self) -> bool:
        return any(one.moved for one in self.drifts)


def document(said: Said) -> dict[str, object]:
    """As `--format json` prints it."""
    recorded = said.recorded
    return {
        "schema_version": 1,
        "requests": len(recorded),
        "failed": recorded.failed,
        "estimated_lengths": recorded.estimated,
        "seconds": recorded.at_s[-1],
        "learned": asdict(said.learned),
        "against": said.against,
        "moved": said.moved if said.drifts else None,
        "drift": [
            {
                **asdict(one),
                "since": one.since.isoformat() if one.since else None,
                "log_e": one.log_e if isfinite(one.log_e) else None,
                "moved": one.moved,
            }
            for one in said.drifts
        ],
        "objectives": [{**asdict(one), "breaks": one.breaks} for one in said.consequences],
        "predicted": [{**asdict(one), "apart": one.apart, "close": one.close} for one in said.closeness],
        "notes": _notes(said),
        "diff": said.diff,
    }


def lines(said: Said) -> Iterator[str | Table]:
    """For a terminal."""
    recorded, learned = said.recorded, said.learned
    if said.drifts:
        verdict = "MOVED: this is not the traffic that was proven" if said.moved else "as proven, as far as this shows"
        yield f"[bold]{verdict}[/bold]"
        yield ""
        yield _drifts(said.drifts)
        yield ""
    if said.consequences:
        yield _consequences(said.consequences)
        yield ""
    bursts = "Poisson" if learned.burstiness is None else f"gamma, burstiness {learned.burstiness:g}"
    yield f"{len(recorded):,} requests in {recorded.at_s[-1] / 60:,.1f} min"
    yield f"Arrivals   {bursts}, {learned.requests_per_s:g} requests/s"
    if learned.first_input_tokens is not None:
        yield f"First turn {_words(learned.first_input_tokens)}"
    prompts = "Later turn" if learned.first_input_tokens else "Prompts a turn" if learned.turns > 1 else "Prompts"
    for name, lengths in ((prompts, learned.input_tokens), ("Answers", learned.output_tokens)):
        yield f"{name:<10} {_words(lengths)}"
    if learned.paired:
        yield f"Together   the lengths of prompts and answers go together (rank correlation {learned.correlation:+.2f})"
    if learned.turns > 1:
        goes_on = "" if learned.continues == 1 else f" at most, each goes on in {learned.continues:.0%}"
        longest = f"{learned.max_context_tokens:,} tokens"
        yield f"Turns      {learned.turns} a conversation{goes_on}; the longest has {longest}"
    if learned.turn_correlation:
        yield f"Alike      turns of one conversation are, by {learned.turn_correlation:g}: users differ"
    if learned.think_time_s is not None:
        spread, half = learned.think_time_stddev_s, median(recorded.pauses_s)
        yield f"Think time mean {learned.think_time_s:g} s, stddev {spread:g}, half of them within {half:.3g} s"
    if learned.shared_prefix_tokens:
        yield f"Prefix     {learned.shared_prefix_tokens:,} tokens that most prompts begin with"
    if said.closeness:
        yield ""
        yield _closeness(said.closeness)
    for note in _notes(said):
        yield f"Note       {escape(note)}"


def _drifts(found: Sequence[Drift]) -> Table:
    table = _table("", "proven", "found", "", "evidence")
    for one in found:
        together = one.quantity == "prompts with answers"
        log_e = f"log e {one.log_e:.1f} of {one.alarm_at:.1f}" if isfinite(one.log_e) else "too few to bet on"
        table.add_row(
            _NAMES.get(one.quantity, f"mean {one.quantity}"),
            f"{one.proven:,.4g}" if not together else f"{one.proven:+.2f}",
            f"{one.found:,.4g}" if not together else f"{one.found:+.2f}",
            "" if together else f"{(one.found - one.proven) / one.proven:+.0%}",
            f"{_when(one)} ({log_e})",
        )
    return table


_NAMES = {
    "prompts with answers": "rank correlation of both",
    "turns": "requests a session",
    "requests/s": "requests/s, busiest day",
    "sessions/s": "sessions/s, busiest day",
}


def _when(one: Drift) -> str:
    if one.after_s is None:
        return "no alarm"
    seen = f"{one.since:%Y-%m-%d %H:%M} UTC" if one.since else f"{one.after_s / 3600:,.1f} h after the first request"
    return f"moved, seen {seen}"


def _consequences(found: Sequence[Consequence]) -> Table:
    table = _table("predicted", "bound", "as proven", "now", "")
    for one in found:
        both = (_ms(value) for value in (one.bound_ms, one.proven_ms, one.recorded_ms))
        table.add_row(one.name, *both, "breaks" if one.breaks else "")
    return table


def _closeness(found: Sequence[Closeness]) -> Table:
    table = _table("predicted", "recorded ms", "learned ms", "apart")
    for one in found:
        apart = "-" if one.apart is None else f"{one.apart:+.1%}"
        table.add_row(one.name, _ms(one.recorded_ms), _ms(one.learned_ms), apart)
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="left" if name in ("", "evidence") else "right")
    return table


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _words(lengths: Lengths) -> str:
    if lengths.distribution == "fixed":
        return f"{lengths.min:,} tokens each"
    shape = f"mean {lengths.mean:g}, stddev {lengths.stddev:g}, {lengths.min:,} to {lengths.max:,} tokens"
    if lengths.distribution == "lognormal":
        return f"lognormal: {shape}; within {lengths.distance:.1%} of the recorded shares"
    return f"{len(lengths.values)} recorded counts: {shape}; a lognormal is {lengths.distance:.1%} off"


def _notes(said: Said) -> list[str]:
    recorded = said.recorded
    notes = [*recorded.notes, *said.notes]
    if recorded.estimated:
        notes.append(f"{recorded.estimated:,} requests have lengths reckoned from characters, four to a token")
    untold = list(recorded.turns).count(0)
    if said.learned.turns > 1 and untold:
        notes.append(f"{untold:,} requests do not tell which turn they are; turns and what they bring are the others'")
    if recorded.share < 1:
        notes.append(
            f"{recorded.share:.0%} of all requests are captured: the rate is reckoned from them, and the twin does not "
            "run what was recorded"
        )
    if recorded.failed:
        notes.append(f"{recorded.failed:,} requests that failed, or have no tokens, are left out")
    apart = [one.name for one in said.closeness if not one.close]
    notes += [
        f"{name} of the learned workload is not within {MOST_APART:.0%} of the recorded traffic's; "
        "play the traffic itself where that matters"
        for name in apart
    ]
    if said.learned.turns > 1 and apart:
        notes.append(
            "played, recorded turns come at their times, also where this endpoint has not answered the one before: "
            "what was recorded on another one, or at its limit, is heavier than the learned workload, whose turns wait"
        )
    return [*notes, *_unlearned(said)]


def _unlearned(said: Said) -> Iterator[str]:
    recorded = said.recorded
    if said.learned.turns > 1 and said.learned.think_time_s is None:
        untold = "nothing tells when answers ended"
        if recorded.pauses_s:
            untold = (
                "these requests tell when they began, and not when their answers ended; half of all turns begin within "
                f"{median(recorded.pauses_s):.3g} s of the one before, its answer included"
            )
        yield f"think time is not learned: {untold}"
    yield "the shape of a day is not learned"
