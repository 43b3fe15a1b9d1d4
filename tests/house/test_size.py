"""How big a function may be: 60 lines, 8 parameters, Typer's doors excepted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_LINES, MOST_PARAMETERS = 60, 8
DOORS = {"cli/queue/command.py: send", "cli/review/command.py: review"}


def bigger() -> Iterator[str]:
    for folder in ("loadproof", "stacks", "benchmarks"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                parameters = [one for one in every if one.arg not in ("self", "cls")]
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MOST_LINES or len(parameters) > MOST_PARAMETERS:
                    yield f"{file.relative_to(ROOT).as_posix().removeprefix('loadproof/')}: {node.name}"


def test_functions_are_small() -> None:
    """All but the doors named, and these are bigger still."""
    assert set(bigger()) == DOORS
