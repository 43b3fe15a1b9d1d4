"""`extends:` names one parent file, relative to the child: maps merge, lists replace, positions stay the source's.

A parent must lie inside the child's profile root (the nearest folder above named `deploy_profiles`, else the child's
own folder), symbolic links resolved: no profile reads, or quotes in a message, a file that is not a profile. Parts that
profiles share, a workload and objectives, have parents of their own, in that root or in `benchmarks` beside it.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path as FilePath
from typing import Final

from loadproof.profiles.reader import MOST_BYTES, read_yaml
from loadproof.profiles.secrets import shown
from loadproof.profiles.tree import Entry, Map, Node, Problems, Scalar, Unusable

ROOT_NAME: Final = "deploy_profiles"
MOST_PARENTS: Final = 8
KEY: Final = "extends"
PARTS: Final = ("workload", "objectives")  # may name a parent of their own, a file of that part's keys
SHARED_NAME: Final = "benchmarks"  # the folder beside ROOT_NAME that a team keeps such files in
SUFFIXES: Final = (".yaml", ".yml")


def read_with_parents(file: FilePath, problems: Problems, content: bytes | None = None) -> Node | None:
    """The merged tree of `file` (or of `content` in its place) and its parents. None when it cannot be read."""
    return _read(file, profile_root(file), problems, (), content=content)


def read_part(file: FilePath, problems: Problems) -> Node | None:
    """The merged tree of a file of one part, a workload, and its parents. None when it cannot be read."""
    return _read(file, profile_root(file), problems, (), part=PARTS[:1])


def read_bytes(file: FilePath) -> bytes:
    """A file's content, cut one byte past the limit: a huge file costs no more than a large one."""
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder, not a profile")
    if file.exists() and not file.is_file():  # a pipe would never end
        raise OSError(errno.EINVAL, "not a regular file")
    with file.open("rb") as handle:
        return handle.read(MOST_BYTES + 1)


def profile_root(file: FilePath) -> FilePath:
    """The folder that a profile's parents must lie in."""
    folder = file.resolve().parent
    for candidate in (folder, *folder.parents):
        if candidate.name == ROOT_NAME:
            return candidate
    return folder


def _read(
    file: FilePath,
    root: FilePath,
    problems: Problems,
    chain: tuple[FilePath, ...],
    *,
    content: bytes | None = None,
    part: tuple[str, ...] = (),
) -> Node | None:
    """`part`: the file holds that part alone; empty: a whole profile."""
    tree = read_yaml(read_bytes(file) if content is None else content, str(file), problems)
    if not isinstance(tree, Map):
        return tree
    chain = (*chain, file.resolve())
    for key in () if part else PARTS:
        entry = tree.entries.get(key)
        if entry is not None and isinstance(entry.node, Map):
            node = _over_parent(entry.node, root, problems, chain, (key,))
            tree.entries[key] = Entry(entry.key_mark, node or Unusable(entry.node.mark))
    return _over_parent(tree, root, problems, chain, part)


def _over_parent(
    child: Map, root: FilePath, problems: Problems, chain: tuple[FilePath, ...], part: tuple[str, ...]
) -> Map | None:
    """`child` over the parent that it names. None for one that cannot be read, which has said so: the child's missing
    keys would only be noise."""
    entry = child.entries.pop(KEY, None)
    if entry is None:
        return child
    roots = (root, root.parent / SHARED_NAME) if part and root.name == ROOT_NAME else (root,)
    parent = _parent_file(entry, roots, problems, chain, (*part, KEY))
    inherited = None if parent is None else _read(parent, root, problems, chain, part=part)
    return merged(inherited, child) if isinstance(inherited, Map) else None


def _parent_file(
    entry: Entry, roots: tuple[FilePath, ...], problems: Problems, chain: tuple[FilePath, ...], path: tuple[str, ...]
) -> FilePath | None:
    node = entry.node
    if isinstance(node, Unusable):
        return None
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.value:
        problems.add(node.mark, "LP011", path, "expected one file name", "name the parent, relative to this file")
        return None
    seen = shown(node.value, path)
    given = FilePath(node.value)
    parent = FilePath(os.path.normpath(FilePath(node.mark.file).parent / given))
    try:
        resolved = parent.resolve()
        inside = any(resolved.is_relative_to(root.resolve()) for root in roots)
        readable = inside and resolved.is_file()
    except (OSError, ValueError, RuntimeError):
        resolved, inside, readable = parent, True, False
    if given.is_absolute():
        message, mend = f"parent `{seen}` is an absolute path", "name it relative to this file"
    elif not inside:
        folders = " and ".join(f"{root.name}/" for root in roots)
        message, mend = f"parent `{seen}` lies outside {folders}", "keep parents inside that folder"
    elif resolved.suffix not in SUFFIXES:
        message, mend = f"parent `{seen}` is not a .yaml or .yml file", "name a profile"
    elif not readable:
        message, mend = f"parent `{seen}` does not exist", "name a file, relative to this one"
    elif resolved in chain:
        message, mend = f"parent `{seen}` extends this file in turn", "break the circle"
    elif len(chain) > MOST_PARENTS:
        message, mend = f"more than {MOST_PARENTS} parents in a row", "merge some of them"
    else:
        return parent
    problems.add(node.mark, "LP011", path, message, mend)
    return None


def merged(parent: Map, child: Map) -> Map:
    """`child` over `parent`: maps merge key by key, anything else replaces. Parts told apart by a tag replace too."""
    if _changes_kind(parent, child):
        return child
    entries = dict(parent.entries)
    for key, entry in child.entries.items():
        inherited = entries.get(key)
        if inherited and isinstance(inherited.node, Map) and isinstance(entry.node, Map):
            entries[key] = Entry(entry.key_mark, merged(inherited.node, entry.node))
        else:
            entries[key] = entry
    return Map(child.mark, entries)


def _changes_kind(parent: Map, child: Map) -> bool:
    """A container of another family, or a source of another type, shares no keys worth keeping."""
    return any(
        key in parent.entries and key in child.entries and _word(parent, key) != _word(child, key)
        for key in ("family", "type")
    )


def _word(node: Map, key: str) -> object:
    value = node.entries[key].node
    return value.value if isinstance(value, Scalar) else None
