"""Loads the consumer, or the queue behind it, as a copy of its own: with time that is virtual, and perhaps changed."""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.util
import itertools
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

ROOT: Final = Path(__file__).resolve().parents[2]
PLACES: Final = {
    "consumer": ROOT / "loadproof/constructs/buffer/runtime/consumer",
    "sqs": ROOT / "loadproof/localcloud/queue/sqs",
}
_OWN: Final = "loadproof.localcloud.queue.sqs"
_SHIMMED: Final = ("threading", "time", "random", "uuid")
_numbers = itertools.count()

Change = Callable[[ast.Module], ast.Module]
Changes = Mapping[str, Change]  # by `consumer/worker.py`


SIMULATOR_BROKE: Final = "the simulator broke"


def blamed(error: BaseException) -> str:
    """Whose exception it is: the code's under test, or (begins with SIMULATOR_BROKE) the simulator's own.

    What the simulated AWS refuses, on purpose, is the consumer's to catch.
    """
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    own = [name for name in files if name.startswith(tuple(f"{kind}/" for kind in PLACES)) or "/tests/chaos/" in name]
    refused = isinstance(error, (ClientError, BotoCoreError))
    if refused or (own and "/tests/chaos/" not in own[-1]):
        return f"an exception in the consumer: {error!r}"
    return f"{SIMULATOR_BROKE}: {error!r} in {own[-1:]}"


@cache
def source(place: str) -> str:
    """Of `consumer/worker.py`."""
    package, _, name = place.partition("/")
    return (PLACES[package] / name).read_text(encoding="utf-8")


def replaced(place: str, now: str, other: str) -> Change:
    """The module with one text in the place of another, which must be there once."""
    text = source(place)
    assert text.count(now) == 1, f"{place} holds {text.count(now)} times what is to be replaced: {now!r}"
    return lambda _: ast.parse(text.replace(now, other))


class _Shims(ast.NodeTransformer):
    """Imports of time, threads and chance from sim_shims; imports among the queue's modules from the copy."""

    def __init__(self, package: str, shimmed: bool) -> None:
        self._package, self._shimmed = package, shimmed

    def visit_Import(self, node: ast.Import) -> ast.AST:
        names = [alias for alias in node.names if alias.name in _SHIMMED]
        return ast.ImportFrom("sim_shims", names, 0) if names and self._shimmed else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        module = node.module or ""
        if module == "concurrent.futures":
            return ast.ImportFrom("sim_shims", node.names, 0)
        if module.startswith(_OWN):
            return ast.ImportFrom(self._package + module.removeprefix(_OWN), node.names, 0)
        return node


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, package: str, kind: str, changes: Changes) -> None:
        self._package, self._kind, self._changes = package, kind, changes

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname == self._package:
            return ModuleSpec(fullname, self, is_package=True)
        if fullname.startswith(f"{self._package}."):
            return ModuleSpec(fullname, self)
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.removeprefix(self._package).removeprefix(".") or "__init__"
        place = f"{self._kind}/{name}.py"
        tree = ast.parse(source(place))
        if place in self._changes:
            tree = self._changes[place](tree)
        tree = ast.fix_missing_locations(_Shims(self._package, self._kind == "consumer").visit(tree))
        exec(compile(tree, place, "exec"), module.__dict__)


class Package:
    """One version of the code."""

    def __init__(self, kind: str, changes: Changes) -> None:
        self._name = f"sim_{kind}_{next(_numbers)}"
        self._finder = _Loader(self._name, kind, changes)

    def module(self, name: str) -> ModuleType:
        """`name`: of the file. What it imports of the package is loaded with it."""
        sys.meta_path.insert(0, self._finder)
        try:
            return importlib.import_module(f"{self._name}.{name}")
        finally:
            sys.meta_path.remove(self._finder)
