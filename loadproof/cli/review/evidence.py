"""Runs that a review may rest on: those stored on HEAD's side, or at a place that was named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from loadproof.bench.evidence.measured import measured_by
from loadproof.bench.evidence.places import is_reached
from loadproof.bench.evidence.standing import proves, standing_of, stored_run
from loadproof.bench.evidence.status import judged_otherwise
from loadproof.bench.evidence.store import (
    DEFAULT_PLACES,
    EVIDENCE,
    MOST_BYTES,
    PLAN,
    SIGNATURE,
    SUMMARY,
    StoredRun,
    measured_run,
    stored_runs,
)
from loadproof.errors import InputError
from loadproof.profiles import Profile, profile_hash
from loadproof.profiles.signers import FILE_NAME, Signers, signers_of
from loadproof.review.model import MeasuredRun, Pair
from loadproof.review.wording import shortened
from loadproof.sides.git import OVERSIZED
from loadproof.sides.names import is_plain
from loadproof.sides.pairs import HEAD
from loadproof.sides.tree import PROFILES, CommitSource, Tree, write_below

_NAMES = (PLAN, SUMMARY, EVIDENCE, SIGNATURE)
_LONGEST_REASON = 300  # letters: a run may hold anything
_MOST_FILES = 4_000  # of evidence, read of one commit
_MOST_SIDE_BYTES = 12 * 2**20  # of all of them: some 36 times as much in memory, at worst

Profiles: TypeAlias = Mapping[tuple[str, str, str], tuple[Profile, Path]]  # by environment, name and hash


def runs_for(
    base: Tree, head: Tree, pairs: Sequence[Pair], places: Sequence[str], work: Path, say: Callable[[str], None]
) -> tuple[MeasuredRun, ...]:
    """Runs of `places`; without any, those in `evidence/` and `runs/` of HEAD's side. Raises InputError.

    A run of just what the head has, and judged by less than that asks, proves nothing of it. Whose signatures count
    stands in `base`, as it was named: a change cannot list its own author, nor choose an older list.
    """
    of_head = _of_head(head, pairs, work / HEAD)
    measured = _signed(signers_in(base), pairs, of_head, work / HEAD)
    if places:
        return tuple(run for place in places for run in stored_runs(place, measured=measured))
    root = head.source.folder
    if root is None:
        root = work / "evidence-of-head"
        # What BASE has comes first, the newest of it before: no number of runs hides one that decides.
        newest_first = sorted(head.ids, key=lambda path: path.split("/")[-2:], reverse=True)
        left_out = _lay_out(head, root, sorted(newest_first, key=lambda path: head.ids[path] != base.ids.get(path)))
        if left_out:
            say(
                f"{left_out:,} files of evidence are not read and count as none: a review reads {_MOST_FILES:,} of "
                f"{MOST_BYTES // 2**20} MiB each, {_MOST_SIDE_BYTES // 2**20} MiB in all; take old runs away"
            )
    return tuple(run for name in DEFAULT_PLACES for run in _beside(root, name, measured))


def taken_away(base: Tree, head: Tree, work: Path, say: Callable[[str], None]) -> tuple[MeasuredRun, ...]:
    """Runs below `evidence/` of BASE that HEAD does not keep as they were, wherever. Signing one takes nothing away."""
    before = {folder: frozenset(files.items()) for folder, files in _runs_in(base).items()}
    known, kept = {*before.values()}, set()
    for folder, files in _runs_in(head).items():
        unsigned = frozenset((name, one) for name, one in files.items() if name != SIGNATURE)
        kept.add(frozenset(files.items()))
        if unsigned in known - kept and _is_signed(head, folder, work / "signed"):
            kept.add(unsigned)
    gone = [
        folder for folder, files in before.items() if folder.startswith(f"{DEFAULT_PLACES[0]}/") and files not in kept
    ]
    root = base.source.folder
    if root is None and gone:
        root = work / "evidence-of-base"
        gone.sort(key=lambda folder: folder.rpartition("/")[2], reverse=True)  # the newest first
        if left_out := _lay_out(base, root, [f"{folder}/{name}" for folder in gone for name in _NAMES]):
            say(f"{left_out:,} files of evidence that is taken away are not read: take away fewer runs at once")
    found = (run for folder in gone if root and (root / folder).is_dir() for run in stored_runs(root / folder))
    return tuple(replace(run, gone=True) for run in found)


def _is_signed(tree: Tree, folder: str, work: Path) -> bool:
    """Whether the signature of a run is about it: with any other it proves nothing, whatever it said."""
    root = tree.source.folder
    if root is None:
        root = work
        _lay_out(tree, root, [f"{folder}/{name}" for name in _NAMES])
    return (root / folder).is_dir() and not standing_of(stored_run(root / folder), None).broken


def _runs_in(tree: Tree) -> dict[str, dict[str, str]]:
    """Ids of the small files of every run that is found where it lies, by its folder."""
    found: dict[str, dict[str, str]] = {}
    for path in tree.ids:
        folder, _, name = path.rpartition("/")
        if _is_of_a_run(path) and path not in tree.source.links and is_reached(folder):
            found.setdefault(folder, {})[name] = tree.ids[path]
    return found


def signers_in(tree: Tree) -> Signers | None:
    """Whom a side lists; None where it lists nobody. Raises InputError, ProfileError."""
    path = f"{PROFILES}/{FILE_NAME}"
    if path not in tree.ids:
        return None
    if path in tree.source.links:
        raise InputError(f"{tree.label}: {path}: is a link; keep the list of signers as a file")
    [(_, content)] = tree.source.each([path])
    return signers_of(content, f"{tree.label}: {path}")


def _signed(
    signers: Signers | None, pairs: Sequence[Pair], of_head: Profiles, laid_out: Path
) -> Callable[[StoredRun], MeasuredRun]:
    """Each run with its standing. A profile takes the gate's word alone where either side says so, and a run that
    measured something else than the head deploys, or was judged by less, proves nothing of it. Files of this machine
    are not asked."""
    asking: dict[tuple[str, str], list[Profile]] = {}
    refused = _refused(pairs)
    for pair in pairs:
        sides = [side.profile for side in (pair.before, pair.after) if side is not None and side.profile is not None]
        asking[pair.environment_name, pair.name] = sides

    def measured(run: StoredRun) -> MeasuredRun:
        found, standing = measured_run(run), standing_of(run, signers)
        sides = asking.get((found.environment_name or "", found.profile_name), [])
        known = standing.by != "claimed" or (signers is None and not standing.broken)
        key = _key(run)
        proven = known and key not in refused and all(proves(standing, profile, signers) for profile in sides)
        elsewhere: tuple[str, ...] = ()
        if key in of_head:
            otherwise = (*judged_otherwise(run, *of_head[key]), *measured_by(run, *of_head[key], laid_out).differs)
            elsewhere = tuple(shortened(one, _LONGEST_REASON) for one in otherwise)
        found = replace(found, signed_by=standing.by, signer=standing.signer)
        return replace(found, proves=proven and not elsewhere, elsewhere=elsewhere if proven else ())

    return measured


def _of_head(head: Tree, pairs: Sequence[Pair], root: Path) -> Profiles:
    """The head's profiles. `root`: where the head is laid out."""
    return {
        (pair.environment_name, pair.name, profile_hash(side.profile)): (
            side.profile,
            root / side.file.removeprefix(head.folder),
        )
        for pair in pairs
        if (side := pair.after) is not None and side.profile is not None and not side.refusal
    }


def _refused(pairs: Sequence[Pair]) -> frozenset[tuple[str, str, str]]:
    """Heads that are not read further: of their files nothing is asked, and no run proves them."""
    sides = ((pair, pair.after) for pair in pairs if pair.after is not None and pair.after.refusal)
    return frozenset(
        (pair.environment_name, pair.name, profile_hash(side.profile)) for pair, side in sides if side.profile
    )


def _key(run: StoredRun) -> tuple[str, str, str]:
    return str(run.profile.get("environment")), str(run.profile.get("name")), str(run.profile.get("sha256"))


def _beside(root: Path, name: str, measured: Callable[[StoredRun], MeasuredRun]) -> list[MeasuredRun]:
    """Linked as in the repository, wherever they were read."""
    if not (root / name).is_dir():
        return []
    start = f"{root.as_posix()}/"
    return [replace(run, link=run.link.removeprefix(start)) for run in stored_runs(root / name, measured=measured)]


def _lay_out(tree: Tree, root: Path, among: Iterable[str]) -> int:
    """The small files of every run that a commit holds, within bounds. Returns how many were left out."""
    if not isinstance(tree.source, CommitSource):
        return 0
    paths: dict[str, list[str]] = {}
    blobs, links = tree.source.blobs, tree.source.links
    chosen = [path for path in among if _is_of_a_run(path) and path in blobs and path not in links]
    for path in chosen[:_MOST_FILES]:
        paths.setdefault(blobs[path].id, []).append(path)
    laid, room_bytes = 0, _MOST_SIDE_BYTES
    for blob, content in tree.source.repository.contents(paths, MOST_BYTES):
        for path in paths[blob]:
            if content == OVERSIZED:
                continue
            if len(content) > room_bytes:
                room_bytes = 0  # a smaller one that follows is older
                continue
            room_bytes -= len(content)
            laid += not write_below(root, path, content)
    return len(chosen) - laid


def _is_of_a_run(path: str) -> bool:
    return path.partition("/")[0] in DEFAULT_PLACES and path.rpartition("/")[2] in _NAMES and is_plain(path)
