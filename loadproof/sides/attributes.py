"""What `.gitattributes` have git make of files at checkout: other bytes than the blobs that a review reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from loadproof.sides.git import OVERSIZED, Blob, Repository
from loadproof.sides.names import readable_name

FILE_NAME: Final = ".gitattributes"
LINE_ENDS: Final = "eol=crlf"
_LONGEST_VALUE: Final = 40
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
    is_odd = any(one == OVERSIZED or _SPELLED_OUT.search(one) for _, one in repository.contents(files.values()))
    return _converted(repository, files, start, paths, is_odd) if files else {}


def of_working_tree(
    repository: Repository, top: Path, folder: str, known: Iterable[str], paths: Iterable[str]
) -> dict[str, str]:
    """The same by the files that lie on the disk; `known` are all of them, links too."""
    files = [top / folder / path for path in known if _is_one(path)]
    files += [top / path for path in _above(folder) if os.path.lexists(top / path)]
    said = (os.fsencode(one.readlink()) if one.is_symlink() else one.read_bytes() for one in files)
    is_odd = any(_SPELLED_OUT.search(one) for one in said)
    return _converted(repository, None, f"{folder}/" if folder else "", paths, is_odd) if files else {}


def _is_one(path: str) -> bool:
    return path.rpartition("/")[2] == FILE_NAME


def _above(folder: str) -> list[str]:
    """Where one counts for a project without being in it."""
    return [(Path(one) / FILE_NAME).as_posix() for one in Path(folder).parents] if folder else []


def _converted(
    repository: Repository, files: Mapping[str, str] | None, start: str, paths: Iterable[str], is_odd: bool
) -> dict[str, str]:
    said: dict[str, dict[str, str]] = {}
    for path, name, value in repository.attributes(files, (start + path for path in paths)):
        said.setdefault(path.removeprefix(start), {})[name] = value
    found = {path: _conversion(attributes, is_odd) for path, attributes in said.items()}
    return {path: how for path, how in found.items() if how}


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
