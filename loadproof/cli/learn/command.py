"""`loadproof learn SOURCE...`: recorded traffic as a profile's workload."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from loadproof.bench.learn.closeness import MOST_APART, Closeness, closeness_of
from loadproof.bench.learn.fitting import Learned, Lengths, fit
from loadproof.bench.learn.reading import Recorded, read_recorded
from loadproof.cli.learn.edit import learned_edit, notes_of
from loadproof.cli.options import TextOrJson
from loadproof.cli.printing import print_parts, tables_on
from loadproof.cli.profile_names import option
from loadproof.errors import ExitCode
from loadproof.pages.file import write_whole
from loadproof.terminal import Terminal


def learn(
    sources: Annotated[
        list[Path], typer.Argument(help="files or folders of SageMaker data capture or Bedrock logs, or one trace")
    ],
    profile: Annotated[Path | None, option("whose workload it becomes; without one only the fit is shown")] = None,
    out: Annotated[Path | None, typer.Option(help="file for the change as a diff; default: shown")] = None,
    seed: Annotated[int, typer.Option(min=0, help="chance of the twin's arrivals and sizes")] = 0,
    format: TextOrJson = "text",
) -> int:
    """Fit a profile's workload to recorded traffic.

    Only lengths and times are kept of it. The change is shown, never made: `git apply` makes it.

    With a profile the twin is held under both, so that it is seen how close the fit comes.
    """
    with Terminal(stderr=True).status("reading recorded traffic") as status:
        recorded = read_recorded(sources)
        learned = fit(recorded, seed)
        diff, found = "", list[Closeness]()
        if profile is not None:
            edit, changed = learned_edit(profile, learned)
            diff = edit.diff
            recorded.notes += notes_of(profile, learned)
            status.update(f"simulating {len(recorded):,} requests, recorded and learned")
            found = list(closeness_of(changed, recorded, seed))
    if format == "json":
        print(json.dumps(_document(recorded, learned, found, diff), indent=2, allow_nan=False))
    else:
        print_parts(_lines(recorded, learned, found), tables_on(120))
        if diff and out is None:
            print(f"\n{diff}", end="")
    if out is not None:
        write_whole(diff, out)
    return ExitCode.OK


def _document(recorded: Recorded, learned: Learned, found: Sequence[Closeness], diff: str) -> dict[str, object]:
    return {
        "schema_version": 1,
        "requests": len(recorded),
        "failed": recorded.failed,
        "estimated_lengths": recorded.estimated,
        "seconds": recorded.at_s[-1],
        "learned": asdict(learned),
        "predicted": [{**asdict(one), "apart": one.apart, "close": one.close} for one in found],
        "notes": _notes(recorded, found),
        "diff": diff,
    }


def _lines(recorded: Recorded, learned: Learned, found: Sequence[Closeness]) -> Iterator[str | Table]:
    bursts = "Poisson" if learned.burstiness is None else f"gamma, burstiness {learned.burstiness:g}"
    yield f"{len(recorded):,} requests in {recorded.at_s[-1] / 60:,.1f} min"
    yield f"Arrivals   {bursts}, {learned.requests_per_s:g} requests/s"
    for name, lengths in (("Prompts", learned.input_tokens), ("Answers", learned.output_tokens)):
        yield f"{name:<10} {_words(lengths)}"
    if found:
        yield ""
        yield _table(found)
    for note in _notes(recorded, found):
        yield f"Note       {escape(note)}"


def _words(lengths: Lengths) -> str:
    if lengths.distribution == "fixed":
        return f"{lengths.min:,} tokens each"
    shape = f"mean {lengths.mean:g}, stddev {lengths.stddev:g}, {lengths.min:,} to {lengths.max:,} tokens"
    if lengths.distribution == "lognormal":
        return f"lognormal: {shape}; within {lengths.distance:.1%} of the recorded shares"
    return f"{len(lengths.values)} recorded counts: {shape}; a lognormal is {lengths.distance:.1%} off"


def _table(found: Sequence[Closeness]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("predicted", "recorded ms", "learned ms", "apart"):
        table.add_column(name, justify="left" if name == "predicted" else "right")
    for one in found:
        both = ("-" if value is None else f"{value:,.1f}" for value in (one.recorded_ms, one.learned_ms))
        table.add_row(one.name, *both, "-" if one.apart is None else f"{one.apart:+.1%}")
    return table


def _notes(recorded: Recorded, found: Sequence[Closeness]) -> list[str]:
    notes = list(recorded.notes)
    if recorded.estimated:
        notes.append(f"{recorded.estimated:,} requests have lengths reckoned from characters, four to a token")
    if recorded.failed:
        notes.append(f"{recorded.failed:,} requests without a whole answer are left out")
    notes += [
        f"{one.name} of the learned workload is not within {MOST_APART:.0%} of the recorded traffic's; "
        "play the traffic itself where that matters"
        for one in found
        if not one.close
    ]
    return [
        *notes,
        "prefixes, turns and the shape of a day are not learned; prompts and answers are drawn independently",
    ]
