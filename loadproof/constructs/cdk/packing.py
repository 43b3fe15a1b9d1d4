"""The code of our functions with `loadproof.wire` beside it, as it is and under the name that it has everywhere."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import loadproof.wire

_WIRE: Final = Path(loadproof.wire.__file__).parent
_IMPORT: Final = re.compile(r"^from loadproof\.wire\.(\w+) import .*\n", re.MULTILINE)
_NO_SOURCE: Final = shutil.ignore_patterns("__pycache__", "*.pyc")


def write_package(code: Path, folder: Path) -> None:
    """Fill an empty folder with what Lambda unpacks. The same sources make the same folder."""
    shutil.copytree(code, folder, ignore=_NO_SOURCE, dirs_exist_ok=True)
    shutil.copytree(_WIRE, folder / "loadproof" / _WIRE.name, ignore=_NO_SOURCE)
    shutil.copyfile(_WIRE.parent / "__init__.py", folder / "loadproof" / "__init__.py")


def inline_text(code: Path) -> str:
    """One file as a template carries it: a module of wire that it imports stands in front of it."""
    text = code.read_text(encoding="utf-8")
    modules = [(_WIRE / f"{name}.py").read_text(encoding="utf-8") for name in _IMPORT.findall(text)]
    return "\n\n".join([*modules, _IMPORT.sub("", text)])
