"""The kept runs that a comparison learns from: by how much runs differ that repeat each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from loadproof.bench.compare.between_runs import KeptRun, kept_runs
from loadproof.bench.document import Summary, read_summary
from loadproof.bench.evidence.places import places_of
from loadproof.bench.evidence.store import read_stored
from loadproof.errors import InputError


def kept_with(folders: Sequence[Path], places: Sequence[str] = ()) -> tuple[KeptRun, ...]:
    """The judged runs of these places (none: the default ones), and those in `folders`."""
    return kept_runs([*_kept_in(places), *_judged(folders)])


def _kept_in(places: Sequence[str]) -> Iterator[Summary]:
    for run in read_stored(places_of(places)):
        if run.summary is not None and not run.problem and not run.misfits:
            yield run.summary


def _judged(folders: Sequence[Path]) -> Iterator[Summary]:
    for folder in folders:
        try:
            yield read_summary(folder)
        except InputError:
            continue  # cut off, or of another version: the comparison itself says so
