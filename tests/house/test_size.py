"""How big a function may be (60 lines, 8 parameters), and how often types are left open."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_LINES, MOST_PARAMETERS = 60, 8


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
    assert list(bigger()) == []


def imports_inside_functions() -> Iterator[str]:
    for folder in ("loadproof", "stacks", "benchmarks"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            tree = ast.parse(text)
            inside = (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
            places = {
                node.lineno
                for function in inside
                for node in ast.walk(function)
                if isinstance(node, ast.Import | ast.ImportFrom)
            }
            yield from (text.splitlines()[line - 1].strip() for line in sorted(places))


def test_few_imports_are_inside_functions() -> None:
    """At most 40 in the product, each with its reason behind `noqa: PLC0415`."""
    found = list(imports_inside_functions())
    assert len(found) <= 40
    unexplained = [one for one in found if not one.partition("# noqa: PLC0415")[2].strip()]
    assert not unexplained


def test_any_stays_at_borders() -> None:
    """At most 600 words `Any` in the product and its scripts (1,615 on 2026-11-22)."""
    folders = ("loadproof", "stacks", "benchmarks", "scripts")
    texts = [file.read_text(encoding="utf-8") for folder in folders for file in (ROOT / folder).rglob("*.py")]
    words = sum(len(re.findall(r"\bAny\b", text)) for text in texts)
    assert 300 < words <= 600
