"""Runs that a review may rest on: those stored on HEAD's side, or at a place that was named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from loadproof.bench.evidence.status import judged_otherwise
from loadproof.bench.evidence.store import DEFAULT_PLACES, EVIDENCE, PLAN, SUMMARY, StoredRun, stored_runs
from loadproof.profiles import profile_hash
from loadproof.review.model import MeasuredRun, Pair
from loadproof.sides.pairs import HEAD
from loadproof.sides.tree import CommitSource, Tree


def runs_for(head: Tree, pairs: Sequence[Pair], places: Sequence[str], work: Path) -> tuple[MeasuredRun, ...]:
    """Runs of `places`; without any, those in `evidence/` and `runs/` of HEAD's side. Raises InputError.

    A run of just what the head has, and judged by less than that asks, is left out: it proves nothing of it.
    """
    counts = _judge(head, pairs, work / HEAD)
    if places:
        return tuple(run for place in places for run in stored_runs(place, counts=counts))
    root = head.source.folder
    if root is None:
        root = work / "evidence-of-head"
        _lay_out(head, root)
    return tuple(run for name in DEFAULT_PLACES for run in _beside(root, name, counts))


def _judge(head: Tree, pairs: Sequence[Pair], root: Path) -> Callable[[StoredRun], bool]:
    """False for a run that `evidence check` refuses for how it was judged. `root`: where the head is laid out."""
    of_head = {
        (pair.environment_name, pair.name, profile_hash(side.profile)): (
            side.profile,
            root / side.file.removeprefix(head.folder),
        )
        for pair in pairs
        if (side := pair.after) is not None and side.profile is not None
    }

    def counts(run: StoredRun) -> bool:
        key = (str(run.profile.get("environment")), str(run.profile.get("name")), str(run.profile.get("sha256")))
        return key not in of_head or not judged_otherwise(run, *of_head[key])

    return counts


def _beside(root: Path, name: str, counts: Callable[[StoredRun], bool]) -> list[MeasuredRun]:
    """Linked as in the repository, wherever they were read."""
    if not (root / name).is_dir():
        return []
    start = f"{root.as_posix()}/"
    return [replace(run, link=run.link.removeprefix(start)) for run in stored_runs(root / name, counts=counts)]


def _lay_out(head: Tree, root: Path) -> None:
    """The small files of every run that a commit holds."""
    if not isinstance(head.source, CommitSource):
        return
    chosen = [
        path
        for path in head.source.blobs
        if path.partition("/")[0] in DEFAULT_PLACES
        and path.rpartition("/")[2] in (PLAN, SUMMARY, EVIDENCE)
        and path not in head.source.links
    ]
    head.lay_out(chosen, root)
