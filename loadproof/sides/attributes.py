"""What `.gitattributes` have git make of files at checkout: other bytes than the blobs that a review reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from loadproof.sides.git import LINK, Blob, Repository
from loadproof.sides.names import readable_name

FILE_NAME: Final = ".gitattributes"
LINE_ENDS: Final = "eol=crlf"
_LONGEST_VALUE: Final = 40


def of_commit(
    repository: Repository, commit: str, folder: str, blobs: Mapping[str, Blob], paths: Iterable[str]
) -> dict[str, str]:
    """Those of `paths` that a checkout of the commit converts, with how; both from the project's `folder`."""
    start = f"{folder}/" if folder else ""
    files = {f"{start}{path}": blob.id for path, blob in blobs.items() if _is_one(path) and blob.mode != LINK}
    above = repository.entries(commit, _above(folder))
    files |= {path: blob.id for path, blob in above.items() if blob.mode != LINK}
    return _converted(repository, files, start, paths) if files else {}


def of_working_tree(repository: Repository, top: Path, folder: str, paths: Iterable[str]) -> dict[str, str]:
    """The same by the files that lie on the disk."""
    paths = [*paths]
    there = any(map(_is_one, paths)) or any((top / path).is_file() for path in _above(folder))
    return _converted(repository, None, f"{folder}/" if folder else "", paths) if there else {}


def _is_one(path: str) -> bool:
    return path.rpartition("/")[2] == FILE_NAME


def _above(folder: str) -> list[str]:
    """Where one counts for a project without being in it."""
    return [(Path(one) / FILE_NAME).as_posix() for one in Path(folder).parents] if folder else []


def _converted(
    repository: Repository, files: Mapping[str, str] | None, start: str, paths: Iterable[str]
) -> dict[str, str]:
    said: dict[str, dict[str, str]] = {}
    for path, name, value in repository.attributes(files, (start + path for path in paths)):
        said.setdefault(path.removeprefix(start), {})[name] = value
    found = {path: _conversion(attributes) for path, attributes in said.items()}
    return {path: how for path, how in found.items() if how}


def _conversion(attributes: Mapping[str, str]) -> str:
    """Text files as such are no conversion: which line ends they have is the machine's, as without attributes."""
    found = []
    for name in ("filter", "working-tree-encoding"):
        value = attributes.get(name, "unset")
        if value not in ("set", "unset") and not (name != "filter" and value.lower() in ("utf-8", "utf8")):
            found.append(f"{name}={readable_name(value)[:_LONGEST_VALUE]}")
    found += [name for name in ("ident", "export-subst") if attributes.get(name) == "set"]
    binary = "unset" in (attributes.get("text"), "text" not in attributes and attributes.get("crlf"))
    if attributes.get("eol") == "crlf" and not binary:
        found.append(LINE_ENDS)
    return ", ".join(found)
