"""Mutation tests of what verdicts and reviews stand on: `make mutants`, or `python scripts/mutants.py NAME ...`.

A mutant is the module with one small change. The module's own tests run on it in a fork of this process, where they
have passed once, so that libraries need no import again; it dies when they fail, crash or burn five times the CPU.
docs/mutation-tests.md says how to read it.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.machinery
import importlib.util
import os
import resource
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

ROOT = Path(__file__).resolve().parents[1]
# The coverage of intervals by simulation (test_bench_intervals) is left to `make test`: 14 s a mutant.
MODULES = {
    "loadproof/bench/judge/judgement.py": "bench/test_bench_verdict_figures bench/test_bench_verdict",
    "loadproof/bench/judge/verdict.py": "bench/test_bench_verdict_figures bench/test_bench_verdict",
    "loadproof/bench/measure/client_share.py": "bench/test_bench_client_share bench/test_bench_verdict_figures",
    "loadproof/bench/measure/dependence.py": "bench/test_bench_dependence_figures bench/test_bench_dependence "
    "bench/test_bench_interval_figures",
    "loadproof/bench/measure/intervals.py": "bench/test_bench_interval_figures bench/test_bench_more_requests "
    "bench/test_bench_dependence",
    "loadproof/capacity/memory.py": "capacity/test_capacity_memory capacity/test_capacity_windows",
    "loadproof/invocation/retry.py": "invocation/test_invocation_retry",
    "loadproof/review/rules/replacement.py": "review/test_review_rules_replacement",
}
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.toml")
LEAST = 0.9
_GIB = 1 << 30
_OTHER: dict[type[ast.AST], tuple[type[Any], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.LShift: (ast.RShift,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitAnd: (ast.BitOr,),
}
_SWAPPED = {"min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "any": "all", "all": "any"}

Key = tuple[str, str]  # the function and the change, both as text
Mutant = tuple[ast.AST, str, int | None, ast.AST]  # a node to put in a parent's field, at an index where that is a list


def put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def variants(node: Any, parent: ast.AST, field: str) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
    match node:
        case ast.Compare(left, ops, right):
            for at, op in enumerate(ops):
                yield from (
                    ast.Compare(left, [*ops[:at], other(), *ops[at + 1 :]], right) for other in _OTHER[type(op)]
                )
        case ast.BoolOp(op, values):
            yield ast.BoolOp(_OTHER[type(op)][0](), values)
        case ast.BinOp(left, op, right) if type(op) in _OTHER:
            yield ast.BinOp(left, _OTHER[type(op)][0](), right)
        case ast.AugAssign(target, op, value):
            yield ast.AugAssign(target, _OTHER[type(op)][0](), value)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(float(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value / 2 or -1.0))
        case ast.Constant(str(value)) if isinstance(parent, ast.Compare):
            yield ast.Constant(f"{value}!")
        case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call()):
            yield ast.Pass()
        case ast.Name(name) if name in _SWAPPED and isinstance(parent, ast.Call) and field == "func":
            yield ast.Name(_SWAPPED[name], ast.Load())
    if field in ("test", "ifs") and not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
        yield ast.UnaryOp(ast.Not(), node)


def mutants(node: ast.AST, inside: str = "") -> Iterator[tuple[Key, Mutant]]:
    """Every mutant below a node, in the order of the source; annotations and decorators decide nothing."""
    for field, held in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "format_spec"):
            continue
        for index, child in enumerate(held) if isinstance(held, list) else [(None, held)]:
            if not isinstance(child, ast.AST):
                continue
            # A number says little without what it stands in.
            small = isinstance(child, ast.Constant | ast.Name) and not hasattr(node, "body")
            before = ast.unparse(node if small else child)
            for other in variants(child, node, field):
                put(node, field, index, other)
                after = ast.unparse(node if small else other)
                put(node, field, index, child)
                yield (inside, f"{before} -> {after}"), (node, field, index, other)
            name = child.name if isinstance(child, ast.FunctionDef | ast.ClassDef) else ""
            yield from mutants(child, f"{inside}.{name}".strip(".") if name else inside)


class Mutated(importlib.machinery.SourceFileLoader):
    """Finds one module, and loads it from a tree instead of its file."""

    tree: ast.Module

    def get_code(self, fullname: str) -> CodeType:
        return compile(ast.fix_missing_locations(self.tree), self.path, "exec", dont_inherit=True)

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.name else None


def tested(module: str) -> int:
    tests = [f"{ROOT}/tests/{name}.py" for name in MODULES[module].split()]
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=mutants", *tests]))


def run(module: str, tree: ast.Module, mutant: Mutant, cpu_s: int) -> None:
    """In a fork: nothing of ours is imported yet, and its exit status is that of the tests."""
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        resource.setrlimit(resource.RLIMIT_AS, (8 * _GIB, 8 * _GIB))
        ours = tuple(f"{ROOT}/{folder}/" for folder in ("tests", "loadproof", "stacks", "benchmarks"))
        for name, held in list(sys.modules.items()):
            if (getattr(held, "__file__", "") or "").startswith(ours):
                del sys.modules[name]
        put(*mutant)
        loader = Mutated(module.removesuffix(".py").replace("/", "."), f"{ROOT}/{module}")
        loader.tree = tree
        sys.meta_path.insert(0, loader)  # type: ignore[arg-type]
        status = tested(module)
    finally:
        os._exit(status)


def survivors(module: str, tree: ast.Module, found: dict[Key, Mutant], cpu_s: int, jobs: int) -> set[Key]:
    """The mutants on which the tests pass."""
    left, running, alive = list(found.items()), dict[int, Key](), set[Key]()
    while left or running:
        if left and len(running) < jobs:
            key, mutant = left.pop(0)
            if (pid := os.fork()) == 0:
                run(module, tree, mutant, cpu_s)
            running[pid] = key
        else:
            pid, status = os.wait()
            key = running.pop(pid)
            if status == 0:
                alive.add(key)
    return alive


def examined(module: str, listed: set[Key], jobs: int) -> bool:
    """One row of the table; False where too few die, or an equivalent is listed that is none."""
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    seen, found = Counter[Key](), dict[Key, Mutant]()
    for (function, text), mutant in mutants(tree):
        seen[function, text] += 1
        times = seen[function, text]
        found[function, text if times == 1 else f"{text} #{times}"] = mutant
    began_s = time.process_time()
    if tested(module):
        raise SystemExit(f"{module}: its own tests fail without any mutant: {MODULES[module]}")
    alive = survivors(module, tree, found, int(5 * (time.process_time() - began_s)) + 2, jobs)
    left = [key for key in found if key in alive - listed]
    others = len(found.keys() - listed)
    share = 1 - len(left) / others
    row = f"{len(found):7} {others - len(left):7} {len(listed & found.keys()):10} {len(left):8}"
    print(f"{module:40} {row} {share:6.1%}", flush=True)
    wrong = {
        "listed as equivalent, no longer exists": listed - found.keys(),
        "listed as equivalent, but killed": listed & found.keys() - alive,
    }
    for what, keys in {"survived": left, **wrong}.items():
        for function, text in keys:
            print(f"    {what}: {function or 'module'}: {text}", flush=True)
    return share >= LEAST and not any(wrong.values())


def main(wanted: list[str]) -> int:
    calm = {"deadline": None, "database": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}
    settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate), **calm)  # type: ignore[arg-type]
    rows = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]
    jobs = int(os.environ.get("MUTANTS_JOBS", len(os.sched_getaffinity(0))))
    print(f"{'module':40} mutants  killed equivalent survived   dead", flush=True)
    good = True
    for module in MODULES:
        if not wanted or any(name in module for name in wanted):
            listed = {(row["function"], row["mutant"]) for row in rows if row["module"] == module and row["reason"]}
            good &= examined(module, listed, jobs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
