"""Runs that a review may rest on: those stored on HEAD's side, or at a place that was named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loadproof.cli.review_tree import CommitSource, Tree

if TYPE_CHECKING:
    from loadproof.review.model import MeasuredRun


def runs_for(head: Tree, places: Sequence[str], work: Path) -> tuple[MeasuredRun, ...]:
    """Runs of `places`; without any, those in `evidence/` and `runs/` of HEAD's side. Raises InputError."""
    from benchmarks.evidence_store import stored_runs

    if places:
        return tuple(run for place in places for run in stored_runs(place))
    root = head.source.folder
    if root is None:
        root = work / "evidence-of-head"
        _lay_out(head, root)
    return tuple(run for name in _default_places() for run in _beside(root, name))


def _default_places() -> tuple[str, ...]:
    from benchmarks.evidence_store import DEFAULT_PLACES

    return DEFAULT_PLACES


def _beside(root: Path, name: str) -> list[MeasuredRun]:
    """Linked as in the repository, wherever they were read."""
    from benchmarks.evidence_store import stored_runs

    if not (root / name).is_dir():
        return []
    start = f"{root.as_posix()}/"
    return [replace(run, link=run.link.removeprefix(start)) for run in stored_runs(root / name)]


def _lay_out(head: Tree, root: Path) -> None:
    """The small files of every run that a commit holds."""
    from benchmarks.evidence_store import EVIDENCE, PLAN, SUMMARY

    if not isinstance(head.source, CommitSource):
        return
    chosen = [
        path
        for path in head.source.blobs
        if path.partition("/")[0] in _default_places()
        and path.rpartition("/")[2] in (PLAN, SUMMARY, EVIDENCE)
        and path not in head.source.links
    ]
    head.lay_out(chosen, root)
