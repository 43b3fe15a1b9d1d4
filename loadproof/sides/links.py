"""Symbolic links of a tree: what each leads to, found without following any, and made so that none leads out."""

from __future__ import annotations

import errno
import os
import posixpath
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from loadproof.sides.names import LONGEST_NAME, LONGEST_PATH, digest_of

_MOST_HOPS: Final = 8
MOST_LINKS: Final = 1000  # that are followed
_MOST_REACHED: Final = 300_000  # files that they lead to


def through_links(
    ids: Mapping[str, str],
    links: Collection[str],
    each: Callable[[Iterable[str]], Iterable[tuple[str, bytes]]],
    outside: str,
) -> dict[str, str]:
    """Ids of links, each as what it leads to: a file's content, or everything in a folder; `outside` for one that
    leads out of the project, which nobody follows. `each` gives the paths that links lead to."""
    linked = sorted(path for path in ids if path in links)
    ordered = sorted(ids) if linked else []

    @cache
    def everything() -> tuple[str, str]:
        return "everything", digest_of((path, ids[path]) for path in ordered)

    leads = {path: _inside(path, os.fsdecode(target)) for path, target in each(linked[:MOST_LINKS])}
    found, room = {}, _MOST_REACHED
    below: dict[str, tuple[str, str]] = {}
    for path in linked:
        hops, target = _hops(path, leads) if path in leads else ([path], "")
        if target and target not in below:
            rows = _below(target, ordered, ids, room)
            room -= len(rows)
            below[target] = ("below", digest_of(rows)) if room > 0 else everything()
        # A link that nobody follows may lead to all that there is: whatever changes, it changes.
        rest = below[target] if target else everything() if path not in leads else ("outside", outside)
        found[path] = digest_of([*((one, ids[one]) for one in hops), rest])
    return found


def _hops(path: str, leads: Mapping[str, str | None]) -> tuple[list[str], str | None]:
    """The links that one leads through, itself first, and where the last of them leads."""
    seen = [path]
    target = leads[path]
    while target is not None and target in leads and len(seen) < _MOST_HOPS:
        seen.append(target)
        target = leads[target]
    return seen, target


def _below(target: str, ordered: Sequence[str], ids: Mapping[str, str], most: int) -> list[tuple[str, str]]:
    """The file of that path and everything in the folder of that path, `most` at the most."""
    own = [target] if target in ids else []
    return [(one, ids[one]) for one in (*own, *paths_below(target, ordered, most))]


def paths_below(folder: str, ordered: Sequence[str], most: int) -> Sequence[str]:
    """Of sorted paths those in a folder, `most` at the most."""
    start, end = bisect_left(ordered, f"{folder}/"), bisect_left(ordered, f"{folder}0")  # "0" comes after "/"
    return ordered[start : min(end, start + most)]


def _inside(path: str, target: str) -> str | None:
    """What a link's target is from the top; None where it leads out."""
    if target.startswith("/") or len(target) > LONGEST_PATH:
        return None
    found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return None if found == ".." or found.startswith("../") else found


def make_link(top: Path, path: str, target: str) -> None:
    """Make a link that cannot lead out of `top`, whatever other links there are; leave out any other.

    Its own folder is a real one, it climbs first (counted from there) and then only descends.
    """
    file = top / path
    parts = [part for part in target.split("/") if part not in ("", ".")]
    climbs = parts.count("..")
    through_link = any((top / Path(*Path(path).parts[:depth])).is_symlink() for depth in range(1, path.count("/") + 2))
    if _inside(path, target) is None or ".." in parts[climbs:] or through_link or os.path.lexists(file):
        return
    if any(len(os.fsencode(part)) > LONGEST_NAME for part in parts):  # a link could be made, and nothing reads it
        raise OSError(errno.ENAMETOOLONG, target)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to(target)
