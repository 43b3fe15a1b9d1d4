"""What `.gitattributes` have git make of files at checkout: other bytes than the blobs that a review reads."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

from loadproof.sides.git import Blob, Repository, TooMuchError
from loadproof.sides.names import MOST_FOLDERS, digest_of, readable_name

FILE_NAME: Final = ".gitattributes"
LINE_ENDS: Final = "eol=crlf"
UNREAD: Final = "not read:"
MOST_BYTES: Final = 256 * 2**10  # of one file: thousands of lines, each of which git holds against every path
MOST_BYTES_IN_ALL: Final = 2**20  # of one side
_LONGEST_VALUE, _LONGEST_NAME = 40, 80  # letters
_SHORT: Final = 10  # hexadecimal digits of an id
# A value that git's answer cannot be told apart from `filter` and `-text`, and that is another to a checkout.
_SPELLED_OUT: Final = re.compile(rb"\b(?:filter|working-tree-encoding|text|crlf)=(?:un)?set\b")


def of_commit(
    repository: Repository, commit: str, folder: str, blobs: Mapping[str, Blob], paths: Iterable[str]
) -> dict[str, str]:
    """Those of `paths` that a checkout of the commit converts, with how; both from the project's `folder`."""
    start = f"{folder}/" if folder else ""
    # Of one that is a link git reads at checkout what the link says: where it would lead to may be an attribute.
    files = {f"{start}{path}": blob.id for path, blob in blobs.items() if _is_one(path)}
    files |= {path: blob.id for path, blob in repository.entries(commit, _above(folder)).items()}
    ids = list(dict.fromkeys(files.values()))
    sizes = dict(zip(ids, repository.sizes(ids), strict=True))
    unread = _unread({path: sizes[one] for path, one in files.items()}, files.__getitem__)
    read = {path: one for path, one in files.items() if path not in unread}
    is_odd = any(_SPELLED_OUT.search(one) for _, one in repository.contents(read.values()))
    return _converted(repository, read, start, paths, unread, is_odd)


def of_working_tree(
    repository: Repository,
    top: Path,
    folder: str,
    known: Iterable[str],
    paths: Iterable[str],
    id_of: Callable[[Path], str],
) -> dict[str, str]:
    """The same by the files that lie on the disk; `known` are all of them, links too. `id_of` is as git's of one."""
    start = f"{folder}/" if folder else ""
    files = [f"{start}{path}" for path in known if _is_one(path)]
    files += [path for path in _above(folder) if os.path.lexists(top / path)]
    unread = _unread({path: (top / path).lstat().st_size for path in files}, lambda path: id_of(top / path))
    read = {path: _said(top / path) for path in files if path not in unread}
    is_odd = any(_SPELLED_OUT.search(one) for one in read.values())
    return _converted(repository, read, start, paths, unread, is_odd)


def _said(file: Path) -> bytes:
    return os.fsencode(file.readlink()) if file.is_symlink() else file.read_bytes()


def _unread(sizes_bytes: Mapping[str, int], id_of: Callable[[str], str]) -> dict[str, str]:
    """Why files are not read, by path: too large, alone or with those above them. The id tells two of them apart."""
    found, room_bytes = {}, MOST_BYTES_IN_ALL
    for path, size_bytes in sorted(sizes_bytes.items(), key=lambda one: (one[0].count("/"), one[0])):
        if size_bytes <= min(MOST_BYTES, room_bytes):
            room_bytes -= size_bytes
        else:
            name = readable_name(path)
            shown = name if len(name) <= _LONGEST_NAME else f"…{name[-_LONGEST_NAME:]}"
            found[path] = f"{UNREAD} {shown} of {size_bytes:,} bytes, {id_of(path)[:_SHORT]}"
    return found


def _is_one(path: str) -> bool:
    return path.rpartition("/")[2] == FILE_NAME


def _above(folder: str) -> list[str]:
    """Where one counts for a project without being in it."""
    return [(Path(one) / FILE_NAME).as_posix() for one in Path(folder).parents] if folder else []


def _files_above(path: str) -> Iterator[str]:
    """Those whose attributes a file has; of one that nobody lays out, none."""
    while path and path.count("/") <= MOST_FOLDERS:
        path = path.rpartition("/")[0]
        yield f"{path}/{FILE_NAME}" if path else FILE_NAME


def _converted(
    repository: Repository,
    files: Mapping[str, str | bytes],
    start: str,
    paths: Iterable[str],
    unread: Mapping[str, str],
    is_odd: bool,
) -> dict[str, str]:
    """`files` are those that git reads, `unread` why others are not read, below which all may be converted."""
    asked = [start + path for path in paths] if files or unread else []
    found: dict[str, str] = {}
    try:
        for path, rows in groupby(repository.attributes(files, asked) if files else (), key=itemgetter(0)):
            if how := _conversion({name: value for _, name, value in rows}, is_odd):
                found[path] = how
    except TooMuchError as error:
        texts = ((path, one if isinstance(one, str) else os.fsdecode(one)) for path, one in files.items())
        why = readable_name(str(error)).partition(";")[0]
        found = dict.fromkeys(asked, f"{UNREAD} {why}, {digest_of(sorted(texts))[:_SHORT]}")
    for path in asked if unread else ():
        for above in _files_above(path):
            if above in unread:
                found[path] = ", ".join(filter(None, (found.get(path), unread[above])))
    return {path.removeprefix(start): how for path, how in found.items()}


def _conversion(attributes: Mapping[str, str], is_odd: bool) -> str:
    """Text files as such are no conversion: which line ends they have is the machine's, as without attributes."""
    found = []
    for name in ("filter", "working-tree-encoding"):
        value = attributes.get(name, "unset")
        if (
            (is_odd or value not in ("set", "unset"))
            and name in attributes
            and not (name != "filter" and value.lower() in ("utf-8", "utf8"))
        ):
            found.append(f"{name}={readable_name(value)[:_LONGEST_VALUE]}")
    found += [name for name in ("ident", "export-subst") if attributes.get(name) == "set"]
    binary = "unset" in (attributes.get("text"), "text" not in attributes and attributes.get("crlf"))
    if attributes.get("eol") == "crlf" and (is_odd or not binary):
        found.append(LINE_ENDS)
    return ", ".join(found)
