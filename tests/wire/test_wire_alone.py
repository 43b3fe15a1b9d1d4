"""Wire stands alone: it is packed with functions that have nothing else of Loadproof, nor anything installed."""

from __future__ import annotations

import ast
import shutil
import sys
from pathlib import Path

import pytest
from processes import run_process

import loadproof.wire

WIRE = Path(loadproof.wire.__file__).parent
MODULES = sorted(file.stem for file in WIRE.glob("*.py") if file.stem != "__init__")


@pytest.mark.parametrize("module", MODULES)
def test_a_copy_is_imported_by_a_bare_interpreter(module: str, tmp_path: Path) -> None:
    """`python -I -S` sees the standard library and the copied folder, which is where the module then comes from."""
    shutil.copytree(WIRE, tmp_path / "loadproof" / "wire")
    code = f"import sys; sys.path.insert(0, sys.argv[1]); import loadproof.wire.{module} as one; print(one.__file__)"
    ran = run_process([sys.executable, "-I", "-S", "-c", code, str(tmp_path)])
    assert ran.stdout.strip() == str(tmp_path / "loadproof" / "wire" / f"{module}.py"), ran.stderr


@pytest.mark.parametrize("module", MODULES)
def test_it_names_nothing_but_the_standard_library(module: str) -> None:
    """Also in its functions, where an import is not seen before the function runs."""
    nodes = [*ast.walk(ast.parse((WIRE / f"{module}.py").read_text(encoding="utf-8")))]
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in named} <= sys.stdlib_module_names
