"""`calibration:` names a file beside the profiles; its tree takes the name's place, so it is checked like the rest."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Final

from loadproof.profiles.inheritance import profile_root, read_bytes
from loadproof.profiles.reader import read_yaml
from loadproof.profiles.secrets import shown
from loadproof.profiles.tree import Entry, Map, Mark, Node, Problems, Scalar, Unusable

KEY: Final = "calibration"
FILE_NAME: Final = "calibration.yaml"
ENDING: Final = f".{FILE_NAME}"
_CODE: Final = "LP014"


def is_calibration(file: FilePath) -> bool:
    """True for `calibration.yaml` and `<anything>.calibration.yaml`: never a profile."""
    return file.name == FILE_NAME or file.name.endswith(ENDING)


def with_calibration(tree: Node | None, file: FilePath, problems: Problems) -> Node | None:
    """`tree` with the named calibration read in; relative to the file whose line names it (a parent's, maybe)."""
    if not isinstance(tree, Map) or KEY not in tree.entries:
        return tree
    entry = tree.entries[KEY]
    node = entry.node
    if isinstance(node, Unusable) or (isinstance(node, Scalar) and node.value is None):
        return tree
    found = _read(node, profile_root(file), problems)
    return replace(tree, entries={**tree.entries, KEY: Entry(entry.key_mark, found or Unusable(node.mark))})


def read_calibration(file: FilePath, problems: Problems) -> Node | None:
    """The tree of one calibration file, named on a command line. Raises OSError where it cannot be read."""
    return read_yaml(read_bytes(file), str(file), problems)


def _read(node: Node, root: FilePath, problems: Problems) -> Node | None:
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.value:
        return _refuse(node.mark, problems, "expected one file name", "name the calibration, relative to this file")
    seen = shown(node.value, (KEY,))
    given = FilePath(node.value)
    target = FilePath(os.path.normpath(FilePath(node.mark.file).parent / given))
    try:
        resolved = target.resolve()
        inside, readable = resolved.is_relative_to(root.resolve()), resolved.is_file()
    except (OSError, ValueError, RuntimeError):
        inside, readable = True, False
    if given.is_absolute():
        return _refuse(node.mark, problems, f"`{seen}` is an absolute path", "name it relative to this file")
    if not inside:
        return _refuse(node.mark, problems, f"`{seen}` lies outside {root.name}/", "keep calibrations in that folder")
    if not is_calibration(target):
        mend = f"rename it to {target.stem.split('.')[0]}{ENDING}"
        return _refuse(node.mark, problems, f"`{seen}` is not named like a calibration", mend)
    if not readable:
        return _refuse(node.mark, problems, f"`{seen}` does not exist", "write it with `loadproof calibrate`")
    try:
        return read_calibration(target, problems)
    except OSError as error:
        return _refuse(node.mark, problems, f"`{seen}` cannot be read ({error.strerror})", "look at its permissions")


def _refuse(mark: Mark, problems: Problems, message: str, mend: str) -> Unusable:
    problems.add(mark, _CODE, (KEY,), message, mend)
    return Unusable(mark)
